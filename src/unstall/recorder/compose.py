"""The parts of a verdict around its suspects: front, health, tails, summary."""

from __future__ import annotations

from unstall.model.text import Text, say
from unstall.recorder.groups import Group
from unstall.recorder.result import (
    Cycle,
    RecorderVerdict,
    Sighting,
    Suspect,
    Tail,
    Wait,
    ranks_text,
    reason,
)
from unstall.recorder.scene import Scene, named

_MAX_FRONT = 24
_TAIL = 8
_MAX_TAILS = 4


def compose(
    scene: Scene,
    suspects: tuple[Suspect, ...],
    cycles: list[Cycle],
    undecided: list[Text],
    together: list[Sighting],
) -> RecorderVerdict:
    """The verdict with everything that a report shows."""
    incident = scene.incident
    waits = bool(scene.graph.heads)
    undecided = list(undecided)
    for sight in together[:3]:
        if not suspects:
            undecided.append(
                say(
                    "All {size} members of {group} are in {op} number {seq} with the same sizes, "
                    "and it does not end: the ranks agree, so look at devices and network.",
                    size=len(sight.group.ranks or ()) or len(incident.world), group=sight.label,
                    op=sight.op, seq=sight.seq,
                )
            )  # fmt: skip
    if scene.table.unnamed:
        undecided.append(
            say(
                "{count} groups carry only a number that each process counts for itself (torch 2.2 "
                "and 2.3); they were not compared.",
                count=scene.table.unnamed,
            )
        )
    healthy = _healthy(scene, suspects)
    verdict = "failure" if suspects else "inconclusive" if waits or undecided else "benign"
    if not suspects and not waits and not incident.dumps:
        verdict = "inconclusive"
    return RecorderVerdict(
        verdict=verdict,
        summary=_summary(scene, suspects, verdict),
        suspects=suspects,
        front=_front(scene),
        cycles=tuple(cycles[:4]),
        healthy=tuple(healthy),
        undecided=tuple(undecided),
        next_step=_next_step(scene, suspects),
        notes=(*incident.notes, *_file_notes(scene)),
        tails=_tails(scene, suspects),
        ranks=tuple(incident.dumps),
        missing=incident.absent,
        label=incident.label,
        entries=sum(dump.entries for dump in incident.dumps.values()),
        backends=tuple(sorted({b for dump in incident.dumps.values() for b in dump.backends})),
        versions=tuple(sorted({d.version for d in incident.dumps.values() if d.version})),
    )


def _summary(scene: Scene, suspects: tuple[Suspect, ...], verdict: str) -> Text:
    if verdict == "benign":
        return say("Nothing is unfinished: every recorded operation ended on all ranks.")
    if not suspects:
        if not scene.incident.dumps:
            return say("None of the dumps could be read.")
        return say("Operations are unfinished, but the dumps name no rank that caused it.")
    top = suspects[0]
    peers = _leading(suspects)
    names = (
        say("Rank {rank}", rank=peers[0])
        if len(peers) == 1
        else say("Ranks {ranks}", ranks=ranks_text(peers))
    )
    if top.tie and top.kind in ("other-operation", "other-size", "other-type", "order-deadlock"):
        return say(
            "Ranks {ranks} disagree ({reason}), and no majority tells which of them is right.",
            ranks=ranks_text([s.rank for s in suspects]),
            reason=reason(top.kind),
        )
    waiting = {r for s in suspects for r in s.waiting} - set(peers)
    if not waiting:
        return say("{names}: {reason}.", names=names, reason=reason(top.kind))
    return say(
        "{names}: {reason}. Kept waiting: {waiting}.",
        names=names,
        reason=reason(top.kind),
        waiting=named(waiting),
    )


def _leading(suspects: tuple[Suspect, ...]) -> list[int]:
    """The ranks that the verdict names: suspects like the first one."""
    top = suspects[0]
    return [s.rank for s in suspects if s.kind == top.kind and s.score >= top.score - 0.1]


def _front(scene: Scene) -> tuple[Wait, ...]:
    """Where each rank waits first; the same step of parallel groups counts as one."""
    graph = scene.graph
    rows: dict[tuple[object, ...], list[int]] = {}
    for rank, (group, unit) in graph.heads.items():
        kind = unit.op.split(" ")[0]
        key = (group.desc or group.name, kind, unit.p2p, None if unit.p2p else unit.seq)
        rows.setdefault(key, []).append(rank)
    waits = []
    for ranks in sorted(rows.values(), key=lambda ranks: (-len(ranks), ranks[0]))[:_MAX_FRONT]:
        groups = {graph.heads[rank][0].index for rank in ranks}
        awaited: set[int] = set()
        for rank in ranks:
            awaited.update(scene.awaited(rank))
        sight = scene.see.unit(ranks[0], *graph.heads[ranks[0]])
        waits.append(Wait(sight, tuple(sorted(ranks)), tuple(sorted(awaited)), len(groups)))
    return tuple(waits)


def _healthy(scene: Scene, suspects: tuple[Suspect, ...]) -> list[Text]:
    found: list[Text] = []
    idle = [group for group in scene.table.groups if _at_rest(group)]
    if idle:
        shown = ", ".join(sorted({group.label for group in idle})[:4])
        found.append(
            say(
                "Groups at rest, all members at the same number ({count}): {names}{more}.",
                count=len(idle), names=shown, more=" …" if len(idle) > 4 else "",
            )
        )  # fmt: skip
    compared = sum(len(log.signatures) // 8 for g in scene.table.groups for log in g.logs.values())
    if not scene.differences and compared and len(scene.incident.dumps) > 1:
        found.append(
            say(
                "{count} recorded collectives were compared over {ranks} ranks: kind, size and "
                "type agree everywhere.",
                count=compared,
                ranks=len(scene.incident.dumps),
            )
        )
    blamed = {suspect.rank for suspect in suspects}
    waiting = [rank for rank in scene.graph.heads if rank not in blamed]
    if waiting and suspects:
        found.append(say("Only waiting: {ranks}.", ranks=named(waiting)))
    return found


def _at_rest(group: Group) -> bool:
    logs = group.logs
    if len(logs) < 2 or len(logs) < len(group.members):
        return False
    if any(log.pending_count for log in logs.values()):
        return False
    ends = {group.enqueued(rank) for rank in logs}
    return len(ends) == 1 and max(ends) >= 0


def _tails(scene: Scene, suspects: tuple[Suspect, ...]) -> tuple[Tail, ...]:
    chosen: list[tuple[int, str]] = [(s.rank, "suspect") for s in suspects[:_MAX_TAILS]]
    blamed = {rank for rank, _ in chosen}
    waiters = suspects[0].waiting if suspects else tuple(scene.graph.heads)
    chosen += [(rank, "waiting") for rank in waiters if rank not in blamed][:1]
    tails = []
    for rank, role in chosen:
        dump = scene.incident.dumps.get(rank)
        if dump is None:
            continue
        numbers = sorted(dump.details)
        first = next((n for n in numbers if not dump.details[n].done), None)
        shown = [n for n in numbers if first is not None and n < first][-2:]
        shown += [n for n in numbers if first is not None and n >= first]
        shown = (shown or numbers[-_TAIL:])[:_TAIL]
        entries = tuple(dump.details[n] for n in shown)
        labels = tuple(dump.groups[e.group].desc or dump.groups[e.group].name for e in entries)
        tails.append(Tail(rank, dump.source, role, entries, labels))
    return tuple(tails)


def _next_step(scene: Scene, suspects: tuple[Suspect, ...]) -> Text | None:
    if not suspects:
        if scene.graph.heads:
            return say(
                "Look at dmesg and nvidia-smi of every node, and run the NCCL tests between the "
                "nodes of the group."
            )
        return None
    top = suspects[0]
    who = named(_leading(suspects))
    steps = {
        "stuck": say(
            "Read the log of {who} and the kernel log (dmesg, Xid) of the node: a dump does not "
            "say what stopped the device.",
            who=who,
        ),
        "absent": say(
            "Look what {who} did instead: the log, or the stack while it hangs (py-spy dump --pid "
            "PID).",
            who=who,
        ),
    }
    if top.kind.startswith("dump-"):
        return say(
            "Read the end of the log of {who} and the exit code that the launcher reports.",
            who=who,
        )
    if top.kind in steps:
        return steps[top.kind]
    return say("Compare the two code paths below, and what decides between them.")


def _file_notes(scene: Scene) -> list[Text]:
    notes: list[Text] = []
    incident = scene.incident
    odd = sum(dump.odd for dump in incident.dumps.values())
    if odd:
        notes.append(say("{count} entries could not be understood and were left out.", count=odd))
    versions = sorted({dump.version for dump in incident.dumps.values() if dump.version})
    if len(versions) > 1:
        notes.append(say("The dumps mix schema versions: {names}.", names=", ".join(versions)))
    missing = [rank for rank in incident.absent if rank not in incident.broken]
    if missing and incident.dumps:
        notes.append(say("No dump of {ranks}.", ranks=named(missing)))
    return notes
