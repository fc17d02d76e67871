"""``unstall confirm --script``: the whole of one call."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TextIO

import msgspec

from unstall.experiments.closing import judged
from unstall.experiments.folders import new_folder
from unstall.experiments.from_report import refuse_unread
from unstall.experiments.no_change import changing
from unstall.experiments.nurse import PSUTIL_MISSING, LabError
from unstall.experiments.outcome import Run
from unstall.experiments.scripts import changes, edit, servers
from unstall.experiments.scripts.changes import Edits
from unstall.experiments.scripts.copies import OWN, copied
from unstall.experiments.scripts.run import run_script
from unstall.experiments.statistics import share
from unstall.experiments.stopping import exit_code, so_far
from unstall.experiments.telling import Teller
from unstall.experiments.trials import Comparison, compare
from unstall.experiments.until import Until, parse_until
from unstall.model.plan import Plan
from unstall.model.text import Text, say, verbatim
from unstall.processes import recorder_names
from unstall.processes.evidence import DUMP_NAME

#: A value that stands for one which the user is to choose: ``PORT1 PORT2``.
_TO_FILL = re.compile(r"\b(?:PORT|HOST|NODE|ADDRESS)\d?\b")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; see :func:`unstall.commands.confirm.confirm`."""

    script: Path
    set: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    until: str | None = None
    stall: float = 120.0
    start_up: float = 600.0
    limit: float = 3600.0
    timeout: float | None = None
    runs: int | None = None
    alpha: float = 0.05
    output: Path | None = None
    report: tuple[str, ...] = ()
    until_confirmed: bool = False
    as_json: bool = False
    language: str = "en"


class Candidate(msgspec.Struct, frozen=True):
    """One change to try; ``servers``: as several servers, where the script allows it."""

    label: Text
    edits: tuple[Edits, ...]
    servers: bool = False


def confirm_script(request: Request, out: TextIO) -> int:
    """Run A and B of a script and report; the exit status.

    Raises:
        LabError: nothing was run, because the request does not fit.
    """
    _require()
    text, plan = edit.plan_of(request.script)
    candidates = _candidates(request, plan)
    until = parse_until(request.until)
    shortened = _shortened(plan, request.timeout)
    base = edit.apply(text, plan, shortened) if shortened else text
    teller = Teller(request.language)
    candidates, changed = _written(candidates, text, plan, shortened, teller)
    asked = request.set or request.unset or request.env
    trials = changing(
        base,
        changed,
        list(zip(candidates, changed, strict=True)),
        candidates[0].label.render(request.language) if asked else "",
    )
    folder = new_folder(request.output, request.script.stem)
    if shortened:
        teller.note(
            say(
                "time-outs of the process groups: {seconds} s, set by flags in the copies of A and "
                "of B; your script is not changed",
                seconds=f"{request.timeout:g}" if request.timeout else "-",
            )
        )
        teller.note(verbatim(edit.patch(text, base, request.script.name)))
    results: list[tuple[Candidate, str, Comparison]] = []
    known: list[Run] = []  # of A, whose script is the same for all changes
    for number, (one, changed_text) in enumerate(trials, 1):
        difference = edit.patch(text, changed_text, request.script.name)
        teller.note(verbatim(difference))
        place = folder / f"change-{number}" if len(trials) > 1 else folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "change.patch").write_text(difference, encoding="utf-8")
        trial = _Trial(
            request=request,
            label=one.label,
            texts={"A": base, "B": changed_text},
            plan=plan,
            until=until,
            folders={"A": folder, "B": place},
            alpha=share(request.alpha, number, len(trials)),
        )
        before = list(teller.ended)
        try:
            found = trial.compare(known, teller)
        except KeyboardInterrupt:
            labels = (say("as it is"), one.label)
            found = so_far(teller, [place, folder], labels, trial.alpha, before)
        known += found.a.runs[len(known) :]
        results.append((one, difference, found))
        if found.last or not request.until_confirmed:
            break
    _report(request, results, folder, out)
    return exit_code(results[-1][2])


def _require() -> None:
    import importlib.util
    import shutil

    if importlib.util.find_spec("psutil") is None:
        raise LabError(PSUTIL_MISSING)
    if shutil.which("bash") is None:
        raise LabError(say("bash was not found; scripts are run with it."))


def _candidates(request: Request, plan: Plan) -> list[Candidate]:
    if not plan.programs:
        raise LabError(say("{path} launches no program that is known.", path=str(request.script)))
    edits = changes.parse_edits(plan, request.set, request.unset, request.env)
    if edits:
        words = " ".join([*request.set, *(f"-{one}" for one in request.unset), *request.env])
        return [Candidate(verbatim(words), tuple(edits))]
    if not request.until_confirmed:
        raise LabError(say("Say what to change: --set, --unset or --env, or --until-confirmed."))
    from unstall.diagnosis import diagnose

    found = diagnose([*request.report, str(request.script)])
    refuse_unread(found, request.report)
    candidates = []
    for ranked in found.causes:
        for fix in ranked.finding.fixes:
            own = changes.edits_of(plan, fix.change) if fix.change is not None else None
            if own is None or any(_TO_FILL.search(value) for value in own.set.values()):
                continue  # told in words, or with a place that only the user can fill
            if own.set or own.unset or own.env or own.unset_env:
                several = servers.concerns(plan.program(own.program), own.unset)
                candidates.append(Candidate(fix.text, (own,), several))
    if not candidates:
        raise LabError(
            say(
                "The diagnosis has no fix that is a change of this script's flags or variables. "
                "Give it logs with --from, or say what to change with --set."
            )
        )
    return candidates


def _written(
    candidates: list[Candidate], text: str, plan: Plan, shortened: list[Edits], teller: Teller
) -> tuple[list[Candidate], list[str]]:
    """The candidates that can be written into the script, and its text with each.

    Raises:
        LabError: not one can.
    """
    able: list[Candidate] = []
    texts: list[str] = []
    unable: list[tuple[Candidate, LabError]] = []
    for one in candidates:
        try:
            own, changed = _write(one, text, plan, shortened)
        except LabError as error:
            unable.append((one, error))
            continue
        able.append(own)
        texts.append(changed)
    if unable and not able:
        raise unable[0][1]
    for one, why in unable:
        teller.note(say("not tried: {change}: {why}", change=one.label, why=why.text))
    return able, texts


def _write(one: Candidate, text: str, plan: Plan, shortened: list[Edits]) -> tuple[Candidate, str]:
    if one.servers:
        server = plan.program(one.edits[0].program)
        assert server is not None  # noqa: S101 - the edits are of a program of the plan
        try:
            several = servers.several(text, plan, server)
            return one, servers.checked(several, plan, server, shortened)
        except servers.UnableError as why:
            count = server.parallel.data or 1
            label = servers.as_one_engine(one.label, count, why.text)
            one = msgspec.structs.replace(one, label=label)
    return one, edit.apply(text, plan, changes.merged(shortened, one.edits))


def _shortened(plan: Plan, seconds: float | None) -> list[Edits]:
    """Edits that give every program whose flag is known a short time-out."""
    if seconds is None:
        return []
    edits = []
    for program in plan.programs:
        for timeout in program.timeouts:
            if timeout.reaches != "process groups" or timeout.name.isupper():
                continue
            if " " in timeout.name:
                continue  # a library's default, which no flag stands for
            scale = 1000.0
            with_value = timeout.value.text
            if timeout.milliseconds and with_value.replace(".", "", 1).isdigit():
                scale = timeout.milliseconds / max(float(with_value), 1e-9)
            value = f"{seconds * 1000 / scale:g}"
            edits.append(Edits(program.label, {timeout.name: value}))
    if not edits:
        raise LabError(
            say("No program of the script has a flag for the time-out of its process groups.")
        )
    return edits


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A script as it is against one change of it; texts and folders by side."""

    request: Request
    label: Text
    texts: dict[str, str]
    plan: Plan
    until: Until
    folders: dict[str, Path]
    alpha: float

    def compare(self, known: list[Run], teller: Teller) -> Comparison:
        """Run both sides in turn; ``known`` are A's runs so far."""
        return compare(
            lambda side, number: self._once(side, number, teller),
            say("as it is"),
            self.label,
            count=self.request.runs,
            alpha=self.alpha,
            tell=teller.end,
            own_end=self.until == Until(),
            known=known,
        )

    def _once(self, side: str, number: int, teller: Teller) -> Run:
        request, name = self.request, f"{side}{number}"
        place = self.folders[side] / name
        (place / "evidence").mkdir(parents=True)
        # the diagnosis of a hang reads what was started, as it was started
        own = self.texts[side]
        shown = f"launch{request.script.suffix or '.sh'}"
        (place / "evidence" / shown).write_text(own, encoding="utf-8")
        teller.begin(name, say("as it is") if side == "A" else self.label)
        with copied(request.script, own, side, place) as (path, *more):
            done = run_script(
                path,
                place,
                name=name,
                until=self.until,
                stall=request.stall,
                first=request.start_up,
                limit=request.limit,
                environment={**recording(place), OWN: str(request.script)},
                tell=teller,
                remove=more,
            )
        if _left_to_itself(done, self.plan, self.until):
            teller.end(done)
            raise LabError(
                say(
                    "The script starts its programs in the background and ends before them: say "
                    "with --until when a run has finished, or end the script with “wait”."
                )
            )
        teller.diagnosing(done)
        return judged(done)


def _left_to_itself(run: Run, plan: Plan, until: Until) -> bool:
    """Whether a script's own end says nothing about its programs, which went on."""
    background = all(program.background for program in plan.programs)
    return until == Until() and run.outcome == "finished" and run.running > 0 and background


def recording(place: Path) -> dict[str, str]:
    """Variables that make PyTorch keep and dump its Flight Recorder; they change nothing else."""
    prefix = str(place / "evidence" / DUMP_NAME)
    return {
        **recorder_names.variables(2000, prefix, recorder_names.torch_on_the_path(), os.environ),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _report(
    request: Request,
    results: list[tuple[Candidate, str, Comparison]],
    folder: Path,
    out: TextIO,
) -> None:
    from unstall.reports.comparison_terminal import comparisons
    from unstall.reports.experiment_json import comparison_json

    _, difference, found = results[-1]
    tried = [
        {"change": one.label.render(request.language), "answer": result.answer}
        for one, _, result in results
    ]
    text = comparison_json(
        found,
        request.script.name,
        request.language,
        tried=tried,
        patch=difference,
        folder=str(folder),
    )
    (folder / "result.json").write_text(text, encoding="utf-8")
    if request.as_json:
        out.write(text)
        return
    from rich.console import Console

    console = Console(highlight=False, file=out)
    page = comparisons([one for _, _, one in results], folder, console, request.language)
    if found.answer == "confirmed":
        console.print()
        page.line(say("The change that works, as a patch of the launch script:"))
        out.flush()
        out.write(difference)
