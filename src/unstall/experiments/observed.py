"""What a reproduction's dumps show of the operation that waits, to compare with a report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unstall.experiments.outcome import Run
from unstall.model.findings import Diagnosis
from unstall.model.text import Text, say


class Stuck(msgspec.Struct, frozen=True):
    """The operation in which ranks of a reproduction wait.

    Attributes:
        op, numel: operation and its elements in.
        group: number of the group, counted over all ``new_group`` calls.
        desc: its description.
        waiting, members: ranks.
        seq: sequence number.
    """

    op: str
    numel: int
    group: str
    desc: str
    waiting: tuple[int, ...]
    members: int
    seq: int


class Feature(msgspec.Struct, frozen=True):
    """One feature of a report and whether the reproduction shares it."""

    shared: bool
    text: Text


def stuck(run: Run) -> list[Stuck]:
    """Every group of the run's programs in which somebody waits."""
    from unstall.recorder import load

    found: list[Stuck] = []
    for folder in sorted(Path(run.evidence).glob("*-dumps")):
        paths = sorted(folder.glob("*"))
        dumps = load(paths, jobs=1).dumps
        by_group: dict[str, list[tuple[int, str, int, int, str]]] = {}
        for dump in dumps:
            for group in dump.groups:
                for unit in group.pending[:1]:
                    entry = dump.details.get(unit.number)
                    numel = sum(_product(shape) for shape in entry.inputs) if entry else 0
                    by_group.setdefault(group.name, []).append(
                        (dump.rank or 0, unit.op, numel, unit.seq, group.desc)
                    )
        for name, waits in by_group.items():
            _, op, numel, seq, desc = waits[0]
            ranks = tuple(sorted({one[0] for one in waits}))
            found.append(Stuck(op, numel, name, desc, ranks, len(dumps), seq))
    return found


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def features(report: Diagnosis, run: Run, verdict: str | None) -> list[Feature]:
    """What the reproduction has in common with the report it was made from, and what not."""
    if not report.causes:
        return []
    finding = report.causes[0].finding
    found = [
        Feature(
            finding.cause == verdict,
            say("cause: {report} there, {here} here", report=finding.cause, here=verdict or "-"),
        )
    ]
    waits = stuck(run)
    work = finding.collective
    if work is not None:
        wanted = _plain(work.op)
        same = [one for one in waits if _plain(one.op) == wanted] if wanted else waits
        candidates = same or waits
        best = candidates[0] if candidates else None
        if wanted and wanted != "unknown":
            here = best.op if best is not None else "-"
            found.append(
                Feature(
                    bool(same),
                    say("operation: {report} there, {here} here", report=work.op, here=here),
                )
            )
        if work.numel_in is not None:
            here_numel = best.numel if best is not None else 0
            found.append(
                Feature(
                    here_numel == work.numel_in,
                    say(
                        "its elements: {report} there, {here} here",
                        report=work.numel_in,
                        here=here_numel,
                    ),
                )
            )
        group = finding.origin.process_group if finding.origin is not None else None
        if group is not None and group.guid is not None and best is not None:
            found.append(
                Feature(
                    group.guid == best.group,
                    say(
                        "number of the group (PG GUID): {report} there, {here} here",
                        report=group.guid,
                        here=best.group,
                    ),
                )
            )
        if finding.waiting_ranks and best is not None:
            found.append(
                Feature(
                    len(finding.waiting_ranks) == len(best.waiting),
                    say(
                        "ranks that wait: {report} there, {here} here",
                        report=len(finding.waiting_ranks),
                        here=len(best.waiting),
                    ),
                )
            )
        if work.timeout_ms is not None and run.settings is not None:
            found.append(
                Feature(
                    False,
                    say(
                        "time-out: {report} s there, {here} s here (shortened so that it shows "
                        "soon)",
                        report=work.timeout_ms // 1000,
                        here=run.settings.timeout,
                    ),
                )
            )
    found.append(
        Feature(False, say("hardware: processes on a CPU with gloo here, whatever it was there"))
    )
    return found


def _plain(op: str) -> str:
    return op.lower().replace("_", "").replace("gloo:", "").replace("nccl:", "")


def settings_from(report: Diagnosis) -> dict[str, int]:
    """Sizes that a report tells: ``ranks`` of the trainer, ``engines`` of the server."""
    found: dict[str, int] = {}
    for program in (*report.plan.programs, *report.programs):
        if program.role == "trainer" and program.processes:
            found.setdefault("ranks", program.processes)
        if program.role in ("rollout", "inference") and (program.parallel.data or 0) > 1:
            found.setdefault("engines", program.parallel.data or 2)
    if report.causes and report.causes[0].finding.origin is not None:
        origin = report.causes[0].finding.origin
        members = origin.process_group.ranks if origin.process_group is not None else None
        if members and len(members) > 1 and origin.role in ("rollout", "inference"):
            found.setdefault("engines", len(members))
        elif members and len(members) > 1 and origin.role == "trainer":
            found.setdefault("ranks", len(members))
    return found
