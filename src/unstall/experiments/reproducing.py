"""``unstall reproduce``: the whole of one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from unstall.experiments.choose import scenario_named, settings_for
from unstall.experiments.library import all_scenarios, beside, spelled
from unstall.experiments.nurse import LabError
from unstall.experiments.outcome import Run
from unstall.experiments.scenario import Scenario, Settings
from unstall.experiments.stopping import STOPPED
from unstall.experiments.telling import Teller
from unstall.model.text import say

if TYPE_CHECKING:
    from rich.console import Console

    from unstall.experiments.closing import Closing
    from unstall.experiments.stacks.sessions import Choice
    from unstall.model.findings import Diagnosis


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; see :func:`unstall.commands.reproduce.reproduce`."""

    names: tuple[str, ...] = ()
    ranks: int | None = None
    seed: int = 0
    steps: int | None = None
    timeout: float | None = None
    sizes: tuple[str, ...] = ()
    backend: str = "auto"
    control: str | None = None
    report: tuple[str, ...] = ()
    export: Path | None = None
    stack: str | None = None
    output: Path | None = None
    as_json: bool = False
    language: str = "en"


def listed(request: Request, out: TextIO) -> int:
    """Show all scenarios; the exit status."""
    from unstall.reports.experiment_json import scenarios_json
    from unstall.reports.scenario_pages import listing

    if request.as_json:
        out.write(scenarios_json(all_scenarios(), request.language))
    else:
        listing(all_scenarios(), _console(out), request.language)
    return 0


def described(request: Request, out: TextIO) -> int:
    """Show what is declared of one scenario; the exit status.

    Raises:
        LabError: there is no such scenario.
    """
    from unstall.experiments.stacks.levels import level_for
    from unstall.experiments.stacks.recipe import recipe_for, recipes, written
    from unstall.reports.experiment_json import scenarios_json
    from unstall.reports.scenario_pages import about

    if len(request.names) != 1:
        raise LabError(say("--about describes one scenario: unstall reproduce NAME --about"))
    scenario = scenario_named(request.names[0])
    if (more := beside(request.names[0])) is not None:
        Teller(request.language).note(more)
    asked = ""
    if request.stack is not None:
        recipe = recipe_for(request.stack)
        scenario, asked = level_for(scenario.name, recipe).scenario, written(recipe)
    if request.as_json:
        out.write(scenarios_json([scenario], request.language))
        return 0
    stacks = []
    for recipe in recipes():
        try:
            level_for(scenario.name, recipe)
        except LabError:
            continue
        stacks.append(written(recipe))
    about(
        scenario,
        _console(out),
        request.language,
        stacks=[] if asked else sorted(stacks),
        asked=asked,
    )
    return 0


def reproduced(request: Request, out: TextIO) -> int:
    """Run a scenario, or write it as a file; the exit status.

    Raises:
        LabError: nothing was run, because the request does not fit.
    """
    names, report = _sorted(request)
    name = names[0] if names else None
    ranks, sizes = request.ranks, request.sizes
    given: Diagnosis | None = None
    if report:
        from unstall.experiments.from_report import choose

        chosen = choose(report, name)
        given, name = chosen.diagnosis, chosen.scenario
        ranks = ranks or chosen.ranks
        sizes = (*chosen.sizes, *sizes)
        Teller(request.language).note(chosen.text)
    elif name is not None and (more := beside(name)) is not None:
        Teller(request.language).note(more)
    if name is None:
        raise LabError(say("Say what to reproduce: unstall reproduce NAME. All: unstall reproduce"))
    choice = None
    if request.stack is not None:
        from unstall.experiments.stacks.sessions import choose as choose_stack

        choice = choose_stack(spelled(name), request.stack)
    scenario = choice.scenario if choice is not None else scenario_named(name)
    settings = settings_for(
        scenario,
        ranks=ranks,
        seed=request.seed,
        steps=request.steps,
        timeout=request.timeout,
        control=request.control,
        sizes=sizes,
        backend=request.backend,
    )
    if request.export is not None:
        from unstall.experiments.export import export_scenario

        if choice is not None:
            raise LabError(
                say("--export writes a scenario; a stack's own script is in its evidence.")
            )
        export_scenario(scenario, settings, request.export)
        out.write(f"{request.export}\n")
        return 0
    return _run(scenario, settings, given, choice, request, out)


def _sorted(request: Request) -> tuple[list[str], list[str]]:
    """The words of the call: names, and with ``--from`` more files of the report.

    Raises:
        LabError: there are several names, or a word is neither.
    """
    names, report = list(request.names), list(request.report)
    if report:
        files = [one for one in names if one == "-" or Path(one).exists()]
        report += files
        names = [one for one in names if one not in files]
    if len(names) > 1:
        raise LabError(
            say(
                "One scenario at a time, not {names}. (Files of a report are given with --from.)",
                names=", ".join(names),
            )
        )
    return names, report


def _run(
    scenario: Scenario,
    settings: Settings,
    given: Diagnosis | None,
    choice: Choice | None,
    request: Request,
    out: TextIO,
) -> int:
    from unstall.experiments.folders import new_folder
    from unstall.experiments.nurse import Nurse, require_lab
    from unstall.experiments.runner import run_scenario

    teller = Teller(request.language)
    ready = choice.prepare(teller.note) if choice is not None else None
    if ready is None:
        require_lab()
    folder = new_folder(request.output, scenario.name)
    name = scenario.name
    closing = None
    stopped = False
    try:
        if ready is not None:
            teller.begin(name, say("starting its launch script"))
            run = ready.run(settings, folder, name, teller)
        else:
            teller.begin(name, say("loading torch, starting its processes"))
            with Nurse() as nurse:
                run = run_scenario(scenario, settings, folder, nurse, name=name, tell=teller)
        teller.diagnosing(run)
        run, closing = _closed(scenario, run)
        teller.end(run)
    except KeyboardInterrupt:
        stopped = True
        teller.stopped([folder])
        run = msgspec.structs.replace(teller.ended[-1], settings=settings)
    _report(scenario, run, closing, given, choice, folder, request, out)
    if stopped:
        return STOPPED
    if settings.control:
        return 0 if run.outcome == "finished" else 1
    return 0 if closing is not None and closing.closed else 1


def _closed(scenario: Scenario, run: Run) -> tuple[Run, Closing | None]:
    """A run with its verdict, and how its evidence compares with what was declared."""
    from unstall.experiments.closing import close, verdict_of

    if run.outcome not in ("hung", "failed"):
        return run, None
    closing = close(scenario, run)
    verdict = verdict_of(closing.diagnosis) if closing.diagnosis is not None else None
    return msgspec.structs.replace(run, verdict=verdict), closing


def _report(
    scenario: Scenario,
    run: Run,
    closing: Closing | None,
    given: Diagnosis | None,
    choice: Choice | None,
    folder: Path,
    request: Request,
    out: TextIO,
) -> None:
    from unstall.experiments.observed import features
    from unstall.experiments.stacks.recipe import written
    from unstall.reports.experiment_json import reproduction_json
    from unstall.reports.experiment_terminal import reproduction

    shared = []
    if given is not None and run.outcome != "stopped":
        shared = features(given, run, closing.verdict if closing is not None else None)
    text = reproduction_json(scenario, run, closing, request.language, shared, folder=str(folder))
    (folder / "result.json").write_text(text, encoding="utf-8")
    if request.as_json:
        out.write(text)
        return
    stack = written(choice.recipe) if choice is not None else None
    reproduction(
        scenario, run, closing, _console(out), request.language, shared=shared, stack=stack
    )


def _console(out: TextIO) -> Console:
    from rich import console

    return console.Console(highlight=False, file=out)
