"""One process group of one dump: from its entries in order to the columns that are compared."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from unstall.recorder.records import Dump, GroupLog, Unit
from unstall.recorder.signatures import Batch, Signature

#: Unfinished operations of a group that are kept, and of how many all is kept.
KEPT_PENDING = 16
PENDING_DETAILS = 3
_MAX_PARTS = 1024
_MAX_MEANINGS = 4096

#: Sequence number, signature, done, entry number, point-to-point, created.
LoggedUnit = tuple[int, Any, bool, int, Any, int]


class Block:
    """Ended collectives of one group, as several dumps have them in common.

    Attributes:
        units: one by one.
        first, last: their sequence numbers where each is the one before plus one.
        steady: whether that is so.
        signatures: as :attr:`~unstall.recorder.records.GroupLog.signatures` has them.
        kinds: which there are, in order of their first.
    """

    __slots__ = ("first", "kinds", "last", "signatures", "steady", "units")

    def __init__(self, units: list[LoggedUnit]) -> None:
        self.units = units
        self.first, self.last = units[0][0], units[-1][0]
        self.steady = _steady([unit[0] for unit in units])
        self.signatures = _packed(units)
        self.kinds = tuple(dict.fromkeys(unit[1] for unit in units))


class Log:
    """A group while its entries are read.

    Attributes:
        units: its entries without those of ``block``.
        block: entries in common with another dump; they stand before ``units[before:]``.
    """

    __slots__ = (
        "before", "block", "desc", "name", "own_rank", "pg_id", "received", "sent", "units",
    )  # fmt: skip

    def __init__(self, name: str, desc: str, pg_id: int | None) -> None:
        self.name, self.desc, self.pg_id = name, desc, pg_id
        self.units: list[LoggedUnit] = []
        self.block: Block | None = None
        self.before = 0
        self.own_rank: int | None = None
        self.sent: dict[int, int] = {}
        self.received: dict[int, int] = {}

    def unfold(self) -> None:
        """Put the block's entries among the others."""
        if self.block is not None:
            self.units[self.before : self.before] = self.block.units
            self.block = None


def note_special(
    log: Log, signature: Signature, seq: int, done: bool, number: int, p2p: bool, created: int
) -> None:
    """A send, a receive, or the end of a batch."""
    half = signature.half
    if half is not None:
        log.own_rank = signature.own_rank
        counts = log.sent if half.sends else log.received
        counts[half.peer] = counts.get(half.peer, 0) + 1
    if signature.closes:
        log.unfold()
        _close_batch(log, seq, signature, done, number, p2p, created)
    else:
        log.units.append((seq, signature, done, number, p2p, created))


def _close_batch(
    log: Log, seq: int, closer: Any, done: bool, number: int, p2p: bool, created: int
) -> None:
    """Join the entries of a batch to the entry that ends it.

    Within a batch torch marks only the last entry as finished (ProcessGroupNCCL::endCoalescing);
    its members stay ``scheduled`` for ever and share its sequence number.
    """
    units = log.units
    members: list[Any] = []
    while units and units[-1][0] == seq and not units[-1][1].closes and len(members) < 65_536:
        members.append(units.pop())
    if members:
        members.reverse()
        p2p = p2p or members[0][4]
        created = created or members[-1][5]
        closer = Batch(closer, [member[1] for member in members])
    units.append((seq, closer, done, number, p2p, created))


def finish_log(dump: Dump, log: Log) -> GroupLog:
    """A group's columns and its unfinished operations."""
    group = GroupLog(log.name, log.desc, pg_id=log.pg_id, own_rank=log.own_rank, pending=[])
    group.sent, group.received = log.sent, log.received
    if log.block is not None and not _join(dump, log, group, log.block):
        log.unfold()
    if log.block is None:
        if not log.units:  # its only entry was left out
            return group
        _read(dump, log.units, group)
    unfinished = [unit for unit in log.units if not unit[2]]
    group.pending_count = len(unfinished)
    for seq, signature, _, number, p2p, created in unfinished[:KEPT_PENDING]:
        parts = signature.parts[:_MAX_PARTS]
        group.pending.append(
            Unit(seq, bool(p2p), signature.op, number, signature.hash, parts, created)
        )
        dump.meanings.setdefault(signature.hash, signature.meaning)
    return group


def _read(dump: Dump, units: list[LoggedUnit], group: GroupLog) -> None:
    """The columns of a group, whatever its entries are."""
    seqs, kinds, dones, _, exchanges, _ = zip(*units, strict=True)
    if any(exchanges):
        group.last_p2p = max(seq for seq, p2p in zip(seqs, exchanges, strict=True) if p2p)
        kept = [unit for unit in units if not unit[4]]
        seqs, kinds, dones = (tuple(unit[at] for unit in kept) for at in range(3))
    _explain(dump, dict.fromkeys(kinds))
    if seqs:
        group.last = max(seqs)
        ended = itertools.compress(seqs, dones)
        group.last_done = max(ended, default=-1)
        hashes = [signature.hash for signature in kinds]
        group.first, group.signatures = _column(list(seqs), hashes)


def _join(dump: Dump, log: Log, group: GroupLog, block: Block) -> bool:
    """The same from a block and a few entries around it; ``False`` where they do not fit."""
    before, after = log.units[: log.before], log.units[log.before :]
    seqs = [*(unit[0] for unit in before), block.first]
    rest = [block.last, *(unit[0] for unit in after)]
    if not (block.steady and _steady(seqs) and _steady(rest)):
        return False
    if any(unit[4] for unit in log.units):
        return False
    kinds = (*(unit[1] for unit in before), *block.kinds, *(unit[1] for unit in after))
    _explain(dump, dict.fromkeys(kinds))
    group.first, group.last = seqs[0], rest[-1]
    group.last_done = max(block.last, *(unit[0] for unit in log.units if unit[2]), -1)
    group.signatures = _packed(before) + block.signatures + _packed(after)
    return True


def _explain(dump: Dump, kinds: Iterable[Any]) -> None:
    for signature in kinds:
        if len(dump.meanings) < _MAX_MEANINGS:
            dump.meanings.setdefault(signature.hash, signature.meaning)


def _steady(seqs: Sequence[int]) -> bool:
    """Whether each number is the one before plus one."""
    return seqs[-1] - seqs[0] + 1 == len(seqs) and all(map(int.__lt__, seqs, seqs[1:]))


def _packed(units: list[LoggedUnit]) -> bytes:
    return array("Q", [unit[1].hash for unit in units]).tobytes()


def _column(seqs: list[int], hashes: list[int]) -> tuple[int, bytes]:
    """Signatures as one column from the first sequence number on, gaps filled with 0."""
    if _steady(seqs):
        return seqs[0], array("Q", hashes).tobytes()
    start = max(0, len(seqs) - 1)
    while start and 0 <= seqs[start] - seqs[start - 1] <= 64:  # the newest run that only grows
        start -= 1
    first = seqs[start]
    column = array("Q", bytes(8 * (seqs[-1] - first + 1)))
    for seq, value in zip(seqs[start:], hashes[start:], strict=True):
        before = column[seq - first]
        # Several entries under one number: a batch whose end was not recorded.
        column[seq - first] = value if not before else (before * 31 + value) & ((1 << 63) - 1)
    return first, column.tobytes()
