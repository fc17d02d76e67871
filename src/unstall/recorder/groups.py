"""The process groups of one incident, joined over its ranks."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from unstall.recorder.collection import Incident
from unstall.recorder.fields import members_of
from unstall.recorder.records import GroupLog, Meaning, Unit

_parsed = lru_cache(maxsize=4096)(members_of)


class Group:
    """One process group over all ranks.

    Attributes:
        index: its place in the list of groups.
        name, desc: as the dumps call it.
        members: global ranks in the group's own order; knowers only, where nothing says more.
        complete: whether ``members`` is known to be the whole group.
        logs: what each rank's dump holds of it.
        trusted: whether ``pg_status`` counts collectives here (see :meth:`enqueued`).
    """

    def __init__(self, index: int, name: str, desc: str, members: tuple[int, ...]) -> None:
        self.index, self.name, self.desc = index, name, desc
        self.members = members
        self.complete = bool(members)
        self.logs: dict[int, GroupLog] = {}
        self.trusted = True
        self.order: dict[int, int] = {}

    @property
    def label(self) -> str:
        """The group as a user would name it."""
        if self.desc and self.desc not in ("undefined", self.name):
            return f"{self.desc} (group {self.name})"
        return f"group {self.name}"

    @property
    def comparable(self) -> bool:
        """Whether its name means the same on all ranks.

        Without description and members (torch 2.2) it is each process's own number, except for the
        default group.
        """
        return self.complete or bool(self.desc) or self.name == "0"

    def settle(self) -> None:
        """Derive what depends on all logs; call once they are in."""
        self.order = {rank: at for at, rank in enumerate(self.members)}
        # torch writes into pg_status whichever count moved last: collectives or sends and
        # receives; gloo counts its unrecorded sends too. Believed only where no entry objects.
        for log in self.logs.values():
            if log.last_p2p >= 0 or (log.last >= 0 and log.enqueued not in (None, log.last)):
                self.trusted = False
        self._at: dict[int, int] = {}
        self._done: dict[int, int] = {}
        for rank, log in self.logs.items():
            status = log.enqueued if self.trusted and log.enqueued is not None else -1
            self._at[rank] = max(status, log.last)
            done = log.completed if self.trusted and log.completed is not None else -1
            waits = [unit.seq for unit in log.pending if not unit.p2p]
            done = max(done, log.last_done)
            self._done[rank] = min(done, waits[0] - 1) if waits else done
        self._ends = sorted(self._done.values())

    def enqueued(self, rank: int) -> int:
        """Last collective that a rank enqueued here, -1 for none."""
        return self._at.get(rank, -1)

    def completed(self, rank: int) -> int:
        """Last collective that ended on a rank, -1 for none."""
        return self._done.get(rank, -1)

    def completed_at_least(self, seq: int) -> int:
        """On how many ranks that collective ended."""
        return len(self._ends) - bisect_left(self._ends, seq)

    def global_rank(self, within: int) -> int | None:
        """The global rank of a rank within this group."""
        if not self.complete:
            return within if self.name == "0" else None
        return self.members[within] if 0 <= within < len(self.members) else None

    def within(self, rank: int) -> int | None:
        """The rank within this group of a global rank."""
        if not self.complete:
            return rank if self.name == "0" else None
        return self.order.get(rank)


class Divergence:
    """Ranks that did different things at one place of one group.

    Attributes:
        group, seq: where.
        classes: signature to the ranks that had it.
        right: the signature that the majority had, ``None`` for a tie.
        kind: ``operation``, ``size`` or ``type``.
        pending: whether the operation never ended on some rank.
        earliest: no earlier difference can have been lost from the buffers.
    """

    def __init__(self, group: Group, seq: int, classes: dict[int, list[int]]) -> None:
        self.group, self.seq, self.classes = group, seq, classes
        ordered = sorted(classes, key=lambda sig: (-len(classes[sig]), sig))
        top, second = ordered[0], ordered[1]
        self.right = top if len(classes[top]) > len(classes[second]) else None
        self.kind = "operation"
        self.pending = any(group.completed(r) < seq for ranks in classes.values() for r in ranks)
        self.earliest = True

    def odd_ranks(self) -> list[int]:
        """Everybody outside the majority; for a tie everybody."""
        return sorted(r for sig, ranks in self.classes.items() if sig != self.right for r in ranks)


class Table:
    """All groups of an incident, and what each rank has left unfinished."""

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self.groups: list[Group] = []
        self.meanings: dict[int, Meaning] = {}
        self.pending: dict[int, list[tuple[Group, Unit]]] = {}
        self.unnamed = 0
        self._collect()

    def _collect(self) -> None:
        keyed: dict[tuple[str, str, tuple[int, ...]], Group] = {}
        full: dict[tuple[str, str], set[tuple[int, ...]]] = {}
        for dump in self.incident.dumps.values():
            for log in dump.groups:
                if log.ranks:
                    full.setdefault((log.name, log.desc), set()).add(_parsed(log.ranks))
        for rank, dump in sorted(self.incident.dumps.items()):
            self.meanings.update(dump.meanings)
            for log in dump.groups:
                members = _parsed(log.ranks) if log.ranks else ()
                if not members:  # one rank's dump may say what another's leaves out
                    known = [m for m in full.get((log.name, log.desc), ()) if rank in m]
                    members = known[0] if len(known) == 1 else ()
                key = (log.name, log.desc, members)
                group = keyed.get(key)
                if group is None:
                    group = keyed[key] = Group(len(self.groups), log.name, log.desc, members)
                    self.groups.append(group)
                group.logs[rank] = log
        for group in self.groups:
            if not group.complete:
                knowers = set(group.logs)
                if group.name == "0":  # the default group: everybody
                    knowers |= set(self.incident.dumps) | set(self.incident.absent)
                group.members = tuple(sorted(knowers))
            group.settle()
        for group in self.groups:
            if not group.comparable:
                self.unnamed += 1
                continue
            for rank, log in group.logs.items():
                queue = self.pending.setdefault(rank, [])
                queue.extend((group, unit) for unit in log.pending)
        for queue in self.pending.values():
            queue.sort(key=lambda item: item[1].number)

    def divergences(self) -> list[Divergence]:
        """The first difference of each group whose members did not all do the same."""
        found = []
        for group in self.groups:
            if group.comparable:
                difference = self._first_difference(group)
                if difference is not None:
                    found.append(difference)
        return found

    def _first_difference(self, group: Group) -> Divergence | None:
        columns = {
            rank: (log.first, log.signatures) for rank, log in group.logs.items() if log.signatures
        }
        if len(columns) < 2:
            return None
        # The longest column is only a yardstick: who is odd is counted afterwards.
        yard = max(columns, key=lambda r: (len(columns[r][1]), -r))
        y_first, y_bytes = columns[yard]
        y_end = y_first + len(y_bytes) // 8
        differing: Counter[int] = Counter()
        for rank, (first, data) in columns.items():
            low, high = max(first, y_first), min(first + len(data) // 8, y_end)
            if rank == yard or low >= high:
                continue
            mine = data[8 * (low - first) : 8 * (high - first)]
            theirs = y_bytes[8 * (low - y_first) : 8 * (high - y_first)]
            if mine != theirs:
                for at, (one, other) in enumerate(
                    zip(array("Q", mine), array("Q", theirs), strict=True)
                ):
                    if one != other and one and other:
                        differing[low + at] += 1
                        break  # later ones follow from the first
        for seq in sorted(differing):
            classes: dict[int, list[int]] = {}
            for rank, (first, data) in columns.items():
                at = 8 * (seq - first)
                signature = int.from_bytes(data[at : at + 8], "little") if at >= 0 else 0
                partial = at == 0 and self.incident.dumps[rank].wrapped
                if signature and not (partial and self._batched(signature)):
                    classes.setdefault(signature, []).append(rank)
            if len(classes) > 1:
                difference = Divergence(group, seq, classes)
                difference.kind = self._kind(classes)
                difference.earliest = any(
                    first < seq or not self.incident.dumps[rank].wrapped
                    for rank, (first, _) in columns.items()
                )
                return difference
        return None

    def _batched(self, signature: int) -> bool:
        meaning = self.meanings.get(signature)
        return meaning is not None and "coalesced" in meaning.op

    def _kind(self, signatures: Iterable[int]) -> str:
        meanings = [self.meanings[s] for s in signatures if s in self.meanings]
        if len({m.op for m in meanings}) != 1:
            return "operation"
        if len({(m.numel_in, m.numel_out, m.shape) for m in meanings}) != 1:
            return "size"
        return "type"
