"""``unstall confirm SCENARIO``: the whole of one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from unstall.experiments.choose import scenario_named, settings_for
from unstall.experiments.closing import judged
from unstall.experiments.folders import new_folder
from unstall.experiments.library import beside, spelled
from unstall.experiments.nurse import LabError, Nurse, require_lab
from unstall.experiments.outcome import Run
from unstall.experiments.runner import Tell, run_scenario
from unstall.experiments.scenario import Change, Scenario, Settings
from unstall.experiments.sizes import chosen
from unstall.experiments.stacks.recipe import written
from unstall.experiments.statistics import share
from unstall.experiments.stopping import exit_code, so_far
from unstall.experiments.telling import Teller
from unstall.experiments.trials import Comparison, compare
from unstall.experiments.until import step_of
from unstall.model.text import Text, say

if TYPE_CHECKING:
    from unstall.experiments.stacks.sessions import Choice


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; see :func:`unstall.commands.confirm.confirm`."""

    name: str
    change: str | None = None
    until: str | None = None
    until_confirmed: bool = False
    runs: int | None = None
    alpha: float = 0.05
    timeout: float | None = None
    ranks: int | None = None
    seed: int = 0
    steps: int | None = None
    long: bool = False
    sizes: tuple[str, ...] = ()
    backend: str = "auto"
    stack: str | None = None
    output: Path | None = None
    as_json: bool = False
    language: str = "en"


#: Runs a scenario once: settings, folder, name, who hears of progress.
RunOnce = Callable[[Settings, Path, str, Tell], Run]


def confirm_scenario(request: Request, out: TextIO) -> int:
    """Run A and B of a scenario and report; the exit status.

    Raises:
        LabError: nothing was run, because the request does not fit.
    """
    choice = None
    if request.stack is not None:
        from unstall.experiments.stacks.sessions import choose as choose_stack

        choice = choose_stack(spelled(request.name), request.stack)
    scenario = choice.scenario if choice is not None else scenario_named(request.name)
    changes = _changes(scenario, request, choice)
    settings = _settings(scenario, request)
    teller = Teller(request.language)
    if choice is None:
        require_lab()
    ready = choice.prepare(teller.note, tuple(changes)) if choice is not None else None
    folder = new_folder(request.output, scenario.name)
    from unstall.reports import experiment_terminal as terminal

    if choice is None and (more := beside(request.name)) is not None:
        teller.note(more)
    teller.note(
        say(
            "{name}: {settings}",
            name=scenario.name,
            settings=terminal.settings_text(settings),
        )
    )
    teller.note(terminal.timeout_text(settings))
    same = [one for one in request.sizes if _is_default(scenario, one)]
    if same:
        teller.note(
            say(
                "{sizes} is so by default and changes nothing; sizes are of A and of B alike, what "
                "B changes is said by --change",
                sizes=", ".join(f"--size {one}" for one in same),
            )
        )
    results: list[tuple[Change, Comparison]] = []
    known: list[Run] = []  # of A, which is the same for all changes
    with Nurse() as nurse:

        def replica(own: Settings, place: Path, name: str, tell: Tell) -> Run:
            return run_scenario(scenario, own, place, nurse, name=name, tell=tell)

        once = ready.run if ready is not None else replica
        for number, change in enumerate(changes, 1):
            own = msgspec.structs.replace(request, alpha=share(request.alpha, number, len(changes)))
            before = list(teller.ended)
            try:
                found = _compare(scenario, settings, change, own, folder, once, teller, known)
            except KeyboardInterrupt:
                places = [folder / change.name, folder]
                found = so_far(teller, places, _labels(change), own.alpha, before)
            known += found.a.runs[len(known) :]
            results.append((change, found))
            if found.last or not request.until_confirmed:
                break
    _report(scenario, results, request, folder, out)
    return exit_code(results[-1][1])


def _changes(scenario: Scenario, request: Request, choice: Choice | None) -> list[Change]:
    """What is tried; not another version of the software where that is the one in use."""
    used = written(choice.recipe) if choice is not None else None
    if request.change is not None:
        one = scenario.change(request.change)
        if one is None:
            settings_for(scenario, changes=(request.change,))
            raise AssertionError("settings_for refuses an unknown change")
        if used is not None and one.stack == used:
            raise LabError(
                say(
                    "“{asked}” changes nothing: {stack} is what A runs with already. A and B would "
                    "be the same, and whatever they did would prove nothing.",
                    asked=one.name,
                    stack=used,
                )
            )
        return [one]
    changes = [one for one in scenario.changes if used is None or one.stack != used]
    if not changes:
        raise LabError(say("{name} has no change to confirm.", name=scenario.name))
    return changes if request.until_confirmed else changes[:1]


def _settings(scenario: Scenario, request: Request) -> Settings:
    steps = request.steps
    if request.until is not None:
        steps = step_of(request.until)
        if steps is None:
            raise LabError(
                say(
                    "For a scenario --until is 'step>=N', not “{until}”.",
                    until=request.until,
                )
            )
    return settings_for(
        scenario,
        ranks=request.ranks,
        seed=request.seed,
        steps=steps,
        timeout=request.timeout,
        sizes=request.sizes,
        backend=request.backend,
    )


def _is_default(scenario: Scenario, size: str) -> bool:
    """Whether ``NAME=NUMBER`` is what the scenario has anyway."""
    return all(scenario.sizes[name] == value for name, value in chosen(scenario, [size]).items())


def _labels(change: Change) -> tuple[Text, Text]:
    """What A is, and B."""
    return say("as it is"), say("{change}: {text}", change=change.name, text=change.text)


def _compare(
    scenario: Scenario,
    settings: Settings,
    change: Change,
    request: Request,
    folder: Path,
    once: RunOnce,
    teller: Teller,
    known: list[Run],
) -> Comparison:
    label_a, label_b = _labels(change)
    place = folder / change.name if request.until_confirmed else folder

    def run(side: str, number: int) -> Run:
        name = f"{side}{number}"
        own = msgspec.structs.replace(settings, seed=settings.seed + number - 1)
        if side == "B":
            steps = scenario.long_steps if request.long else settings.steps
            own = msgspec.structs.replace(own, changes=(change.name,), steps=steps)
        teller.begin(name, label_a if side == "A" else label_b)
        done = once(own, (place if side == "B" else folder) / name, name, teller)
        teller.diagnosing(done)
        return judged(done)

    return compare(
        run,
        label_a,
        label_b,
        count=request.runs,
        alpha=request.alpha,
        tell=teller.end,
        known=known,
    )


def _report(
    scenario: Scenario,
    results: list[tuple[Change, Comparison]],
    request: Request,
    folder: Path,
    out: TextIO,
) -> None:
    from unstall.reports.comparison_terminal import comparisons
    from unstall.reports.experiment_json import comparison_json

    change, found = results[-1]
    tried = [{"change": one.name, "answer": result.answer} for one, result in results]
    text = comparison_json(
        found,
        scenario.name,
        request.language,
        change=change.name,
        tried=tried,
        folder=str(folder),
    )
    (folder / "result.json").write_text(text, encoding="utf-8")
    if request.as_json:
        out.write(text)
        return
    from rich.console import Console

    console = Console(highlight=False, file=out)
    comparisons([one for _, one in results], folder, console, request.language)
