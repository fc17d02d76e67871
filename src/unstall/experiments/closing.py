"""The loop closed: a run's own evidence, diagnosed by the code that diagnoses users' evidence."""

from __future__ import annotations

import re
import sys
from math import prod
from pathlib import Path

import msgspec

from unstall.experiments.outcome import Run, Verdict
from unstall.experiments.scenario import Apart, Dumps, Ended, Mark, Says, Scenario, Waits
from unstall.model.findings import Diagnosis
from unstall.model.text import Text, say
from unstall.recorder.records import Dump, GroupLog


class Seen(msgspec.Struct, frozen=True):
    """One mark of the fingerprint and whether the run shows it."""

    found: bool
    text: Text


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's evidence says, against what was done.

    Attributes:
        verdict: the diagnosis's first cause, ``None`` where it has none.
        confidence: of that cause.
        named: whether it is one of the scenario's causes, the first of them unless it says more.
        marks: the fingerprint.
        diagnosis: the whole diagnosis.
    """

    verdict: str | None
    confidence: float
    named: bool
    marks: tuple[Seen, ...]
    diagnosis: Diagnosis | None = None

    @property
    def closed(self) -> bool:
        """Whether verdict and fingerprint both match."""
        return self.named and all(mark.found for mark in self.marks)


def close(scenario: Scenario, run: Run) -> Closing:
    """Diagnose a run's evidence folder and compare it with the scenario."""
    from unstall.diagnosis import diagnose

    folder = Path(run.evidence)
    diagnosis = diagnose([folder])
    first = diagnosis.causes[0] if diagnosis.causes else None
    cause = first.finding.cause if first is not None else None
    stacks = _stacks(folder / "stacks.txt", run) + _stacks(
        Path(run.folder) / "raw" / "stacks.txt", run
    )
    return Closing(
        verdict=cause,
        confidence=first.confidence if first is not None else 0.0,
        named=cause == scenario.causes[0],
        marks=tuple(_look(mark, folder, run, stacks) for mark in scenario.fingerprint),
        diagnosis=diagnosis,
    )


#: Statements of a diagnosis that a comparison of runs shows.
_SHOWN = 3


def judged(run: Run) -> Run:
    """A run with what its own evidence was diagnosed as; one that finished stays as it is.

    So does one whose evidence cannot be diagnosed: a defect there must not cost hours of runs.
    """
    from unstall.diagnosis import diagnose

    if run.outcome not in ("hung", "failed"):
        return run
    try:
        verdict = verdict_of(diagnose([Path(run.evidence)]))
    except Exception as error:
        print(f"unstall: {run.evidence}: {error!r}", file=sys.stderr)
        return run
    return msgspec.structs.replace(run, verdict=verdict)


def verdict_of(diagnosis: Diagnosis) -> Verdict | None:
    """The first cause of a diagnosis with what weighs most for it; ``None`` where it has none."""
    if not diagnosis.causes:
        return None
    first = diagnosis.causes[0]
    finding = first.finding
    work = finding.collective
    named: list[str] = []
    if work is not None and work.op != "unknown":
        named = [str(part) for part in (work.op, work.seq) if part is not None]
    heaviest = sorted(finding.support, key=lambda one: -one.weight)[:_SHOWN]
    return Verdict(
        cause=finding.cause,
        confidence=first.confidence,
        summary=finding.summary,
        operation=" ".join(named),
        why=tuple(one.text for one in heaviest),
    )


def _look(mark: Mark, folder: Path, run: Run, stacks: list[tuple[str, set[str]]]) -> Seen:
    if isinstance(mark, Waits):
        return _waits(mark, stacks)
    if isinstance(mark, Apart):
        return _apart(mark, folder)
    if isinstance(mark, Dumps):
        return _last(mark, folder)
    if isinstance(mark, Ended):
        return _ended(mark, run)
    return _says(mark, folder)


# --- stacks ----------------------------------------------------------------------------------

_PROCESS = re.compile(r"^Process (\d+): (.*)$")
_FRAME = re.compile(r"^\s+(\S+) \(")


def _stacks(path: Path, run: Run) -> list[tuple[str, set[str]]]:
    """Each process's name (ours and its command line) with the functions of its main thread."""
    found: list[tuple[str, set[str]]] = []
    main = False
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        if (process := _PROCESS.match(line)) is not None:
            found.append((f"{run.pids.get(int(process[1]), '')} {process[2]}", set()))
        elif line.startswith("Thread "):
            main = '"MainThread"' in line or "MainThread" in line
        elif main and found and (frame := _FRAME.match(line)) is not None:
            found[-1][1].add(frame[1].rpartition(".")[2])
    return found


def _waits(mark: Waits, stacks: list[tuple[str, set[str]]]) -> Seen:
    there = [name for name, frames in stacks if mark.who in name and mark.frame in frames]
    if there:
        return Seen(True, say("{who} is in {frame}", who=mark.who, frame=mark.frame))
    return Seen(False, say("{who} is not in {frame}", who=mark.who, frame=mark.frame))


# --- dumps -----------------------------------------------------------------------------------


def _dumps(folder: Path, program: str) -> dict[int, Dump]:
    """Each rank's dump."""
    from unstall.recorder import load

    paths = sorted((folder / f"{program}-dumps").glob("*"))
    loaded = load(paths, jobs=1).dumps
    return {
        int(path.name.rpartition("_")[2]): dump for path, dump in zip(paths, loaded, strict=True)
    }


def _named(dump: Dump, name: str) -> GroupLog | None:
    return next((group for group in dump.groups if name in (group.name, group.desc)), None)


def _apart(mark: Apart, folder: Path) -> Seen:
    states: dict[int, tuple[int, int]] = {}
    operation = ""
    for rank, dump in _dumps(folder, mark.program).items():
        group = _named(dump, mark.group)
        if group is None:
            states[rank] = (0, 0)
            continue
        enqueued = max(group.last, group.enqueued or 0, 0)
        # pg_status of gloo groups may lag by one; the entries themselves do not
        completed = max(group.last_done, 0)
        states[rank] = (enqueued, completed)
        if group.pending and group.pending[0].op:
            operation = group.pending[0].op
    least = min((completed for _, completed in states.values()), default=0)
    relative = {(e - least, c - least) for e, c in states.values()}
    shown = ", ".join(
        f"{rank}: {enqueued}/{completed}" for rank, (enqueued, completed) in sorted(states.items())
    )
    good = len(states) > 1 and (
        relative == set(mark.states) if mark.states else len(set(states.values())) > 1
    )
    good = good and mark.op in operation
    text = say(
        "group {group}, {op}: enqueued/completed by rank {states}",
        group=mark.group,
        op=operation or "-",
        states=shown or "-",
    )
    return Seen(good, text)


def _last(mark: Dumps, folder: Path) -> Seen:
    dumps = _dumps(folder, mark.program)
    shown, good = [], True
    for rank, op, numel in mark.last:
        last = _waiting(dumps[rank]) if rank in dumps else None
        shown.append(f"{rank}: {last[0]}({last[1]})" if last is not None else f"{rank}: -")
        good = good and last is not None and op in last[0] and numel in (None, last[1])
    return Seen(good, say("last operation by rank {operations}", operations=", ".join(shown)))


def _waiting(dump: Dump) -> tuple[str, int] | None:
    """The operation a rank is in, or its last one: name and elements."""
    entries = [dump.details[number] for number in sorted(dump.details)]
    pending = [entry for entry in entries if not entry.done]
    last = (pending or entries)[-1:]
    if not last:
        return None
    return last[0].op, sum(prod(shape) for shape in last[0].inputs)


# --- logs and ends ---------------------------------------------------------------------------


def _says(mark: Says, folder: Path) -> Seen:
    try:
        text = (folder / f"{mark.program}.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if mark.words in text:
        return Seen(
            True, say("the log of {who} says “{words}”", who=mark.program, words=mark.words)
        )
    return Seen(
        False, say("the log of {who} does not say “{words}”", who=mark.program, words=mark.words)
    )


def _ended(mark: Ended, run: Run) -> Seen:
    codes = [
        end.code
        for end in run.ends
        if end.program == mark.program and (mark.rank is None or end.rank == mark.rank)
    ]
    return Seen(
        mark.code in codes,
        say(
            "{who} ended with {codes}",
            who=mark.program,
            codes=", ".join(map(str, codes)) or "-",
        ),
    )
