"""Operations as a report shows them, with the user's frames and the place they stand at."""

from __future__ import annotations

from unstall.model.facts import Place
from unstall.model.findings import ProcessGroup
from unstall.recorder.groups import Group, Table
from unstall.recorder.records import Entry, FrameTuple, Unit
from unstall.recorder.result import Sighting

# Files of the interpreter and of installed packages: not where a user's mistake is.
_LIBRARY = ("/site-packages/", "/dist-packages/", "/torch/distributed/", "<frozen ", "/lib/python3")


def user_frames(frames: tuple[FrameTuple, ...]) -> tuple[FrameTuple, ...]:
    """The frames outside the interpreter and installed packages; all, where none is outside."""
    own = tuple(
        frame
        for frame in frames
        if frame[1] and not any(part in frame[1] for part in _LIBRARY) and "??" not in frame[0]
    )
    return own or tuple(frame for frame in frames if frame[1])[:6]


class Sightings:
    """Makes sightings out of one incident's table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def group(self, group: Group) -> ProcessGroup:
        """The group as the JSON contract has it."""
        ids = {log.pg_id for log in group.logs.values() if log.pg_id is not None}
        return ProcessGroup(
            id=ids.pop() if len(ids) == 1 else None,
            guid=group.name,
            name=group.desc or None,
            ranks=group.members if group.complete else None,
        )

    def unit(self, rank: int, group: Group, unit: Unit) -> Sighting:
        """An unfinished operation of a rank."""
        dump = self.table.incident.dumps[rank]
        entry = dump.details.get(unit.number)
        meaning = dump.meanings.get(unit.signature) if unit.signature else None
        return Sighting(
            rank=rank,
            group=self.group(group),
            label=group.label,
            op=unit.op,
            seq=unit.seq,
            shape=meaning.shape if meaning else _shape(entry),
            types=meaning.types if meaning else "",
            numel_in=meaning.numel_in if meaning else None,
            numel_out=meaning.numel_out if meaning else None,
            timeout_ms=entry.timeout_ms or None if entry else None,
            place=Place(dump.source, unit.number),
            frames=user_frames(entry.frames) if entry else (),
            created=unit.created,
        )

    def entry(self, rank: int, entry: Entry) -> Sighting:
        """A recorded entry of a rank."""
        dump = self.table.incident.dumps[rank]
        log = dump.groups[entry.group]
        group = next(g for g in self.table.groups if g.logs.get(rank) is log)
        return Sighting(
            rank=rank,
            group=self.group(group),
            label=group.label,
            op=entry.op,
            seq=entry.seq,
            shape=_shape(entry),
            types=", ".join(entry.input_types),
            timeout_ms=entry.timeout_ms or None,
            place=Place(dump.source, entry.number),
            frames=user_frames(entry.frames),
            created=entry.created,
            done=entry.done,
        )

    def last(self, rank: int) -> Sighting | None:
        """The newest entry of a rank's dump."""
        dump = self.table.incident.dumps.get(rank)
        if dump is None or not dump.details:
            return None
        return self.entry(rank, dump.details[max(dump.details)])

    def at(self, rank: int, group: Group, seq: int) -> Sighting | None:
        """What a rank did under one sequence number of a group."""
        dump = self.table.incident.dumps.get(rank)
        log = group.logs.get(rank)
        if dump is None or log is None:
            return None
        for unit in log.pending:
            if unit.seq == seq and not unit.p2p:
                return self.unit(rank, group, unit)
        for entry in dump.details.values():
            if entry.seq == seq and not entry.p2p and dump.groups[entry.group] is log:
                return self.entry(rank, entry)
        at = 8 * (seq - log.first)
        signature = int.from_bytes(log.signatures[at : at + 8], "little") if at >= 0 else 0
        meaning = dump.meanings.get(signature)
        if meaning is None:
            return None
        return Sighting(
            rank=rank,
            group=self.group(group),
            label=group.label,
            op=meaning.op,
            seq=seq,
            shape=meaning.shape,
            types=meaning.types,
            numel_in=meaning.numel_in,
            numel_out=meaning.numel_out,
            place=Place(dump.source, 1),
            done=group.completed(rank) >= seq,
        )


def _shape(entry: Entry | None) -> str:
    if entry is None:
        return ""
    sides = [
        ", ".join(str(list(size)) for size in side[:3]) for side in (entry.inputs, entry.outputs)
    ]
    return sides[0] if sides[0] == sides[1] else f"{sides[0]} -> {sides[1]}"
