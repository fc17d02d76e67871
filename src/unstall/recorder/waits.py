"""Who waits for whom: a graph over ranks and operations, and the places where it ends.

A rank waits in its unfinished operations. An unfinished collective waits for the members that have
not entered it, and, for a rank whose very first unfinished operation it is, for the members that
sit in an earlier one. A send or receive waits for its peer. Whoever is waited for and waits for
nobody is a place where the graph ends; a ring of waiting is one too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from unstall.recorder.groups import Group, Table
from unstall.recorder.records import Half, Unit

Node = Hashable
_MAX_STREAMS = 64

#: Operations that end on one rank only after every rank has taken part. (Not: broadcast, reduce,
#: gather, scatter, where a side may leave early.)
_TOGETHER = ("all_reduce", "allreduce", "all_gather", "allgather", "_all_gather", "_allgather",
             "reduce_scatter", "_reduce_scatter", "all_to_all", "alltoall", "barrier")  # fmt: skip


def needs_everyone(op: str) -> bool:
    """Whether an operation can end on one rank only after all ranks entered it."""
    return op.startswith(_TOGETHER)


class Stuck:
    """A rank in which an operation did not end although it ended on its peers."""

    def __init__(self, rank: int, group: Group, unit: Unit, peers: tuple[int, ...]) -> None:
        self.rank, self.group, self.unit, self.peers = rank, group, unit, peers


class WaitGraph:
    """The graph of one incident.

    Attributes:
        heads: each rank's first unfinished operation, in the order in which it enqueued them.
        edges: rank (int) or operation (tuple) to what it waits for.
        absent: operation to the members that have not entered it.
        inside: operation (group index, sequence number) to the ranks that wait in it.
        stuck: ranks behind their peers' ends.
        unmatched: ``(rank, group, unit, half, peer)`` of sends and receives without counterpart.
        unequal: the same for those whose counterpart has another size.
    """

    def __init__(self, table: Table, ended: Iterable[int] = ()) -> None:
        self.table = table
        self.ended = set(ended)
        self.heads: dict[int, tuple[Group, Unit]] = {
            rank: queue[0] for rank, queue in table.pending.items() if queue
        }
        self.edges: dict[Node, set[Node]] = {}
        self.absent: dict[tuple[int, int], tuple[int, ...]] = {}
        self.inside: dict[tuple[int, int], list[int]] = {}
        self.stuck: dict[int, Stuck] = {}
        self.unmatched: list[tuple[int, Group, Unit, Half, int]] = []
        self.unequal: list[tuple[int, Group, Unit, Half, int, int]] = []
        self._p2p_waiting = self._index_p2p()
        self._find_stuck()
        for rank in table.pending:
            self._add(rank)

    def _streams(self, rank: int) -> list[tuple[Group, Unit]]:
        """The first unfinished collective of each group, and each unfinished send and receive."""
        seen: set[int] = set()
        streams = []
        for group, unit in self.table.pending[rank]:
            if unit.p2p:
                streams.append((group, unit))
            elif group.index not in seen:
                seen.add(group.index)
                streams.append((group, unit))
        return streams[:_MAX_STREAMS]

    def _index_p2p(self) -> dict[tuple[int, int, int, bool], list[tuple[Unit, Half]]]:
        """Unfinished sends and receives by (group, rank, peer, whether it sends)."""
        index: dict[tuple[int, int, int, bool], list[tuple[Unit, Half]]] = {}
        for rank, queue in self.table.pending.items():
            for group, unit in queue:
                for half in unit.parts:
                    peer = group.global_rank(half.peer)
                    if peer is not None:
                        key = (group.index, rank, peer, half.sends)
                        index.setdefault(key, []).append((unit, half))
        return index

    def _find_stuck(self) -> None:
        for rank in self.table.pending:
            for group, unit in self._streams(rank):
                if unit.p2p or not needs_everyone(unit.op):
                    continue
                done = group.completed_at_least(unit.seq) - (group.completed(rank) >= unit.seq)
                if done and 2 * done >= len(group.logs) - 1:
                    peers = [
                        member for member in group.logs
                        if member != rank and group.completed(member) >= unit.seq
                    ]  # fmt: skip
                    self.stuck[rank] = Stuck(rank, group, unit, tuple(sorted(peers)))
                    break

    def _add(self, rank: int) -> None:
        head = self.heads.get(rank)
        targets = self.edges.setdefault(rank, set())
        for group, unit in self._streams(rank):
            first = head is not None and head[1] is unit
            if unit.parts or (unit.p2p and not needs_everyone(unit.op)):
                waits = self._p2p_targets(rank, group, unit, first)
            else:
                place = (group.index, unit.seq)
                self.inside.setdefault(place, []).append(rank)
                node = (group.index, unit.seq, first)
                if node not in self.edges:
                    self.edges[node] = set(self._collective_targets(group, unit, first))
                # Where all are in an operation that is not the first for them, others explain it.
                waits = {node} if first or self.edges[node] else set()
            if rank not in self.stuck and rank not in self.ended:
                targets |= waits

    def _collective_targets(self, group: Group, unit: Unit, first: bool) -> set[Node]:
        place = (group.index, unit.seq)
        dumps = self.table.incident.dumps
        if place not in self.absent:
            self.absent[place] = tuple(
                member
                for member in group.members
                if member in dumps and group.enqueued(member) < unit.seq
            )
        targets: set[Node] = set(self.absent[place])
        if first:
            for member in group.members:
                head = self.heads.get(member)
                if head is None or member in targets or group.completed(member) >= unit.seq:
                    continue
                if head[0] is not group or head[1].p2p or head[1].seq != unit.seq:
                    targets.add(member)
        if not targets:
            targets.update(m for m in group.members if m not in dumps)
        if not targets and first and not group.complete and group.name != "0":
            guessed = self._unknown_members(group)
            self.absent[place] = tuple(sorted(guessed))
            targets.update(guessed)
        return targets

    def _unknown_members(self, group: Group) -> set[int]:
        """Who may be missing where all known members are there.

        gloo does not record members, so a rank that never used a group is no known one: whoever
        waits elsewhere, or else whoever rests.
        """
        others = [rank for rank in self.table.incident.dumps if rank not in group.logs]
        waiting = {rank for rank in others if rank in self.heads}
        return waiting or set(others)

    def _p2p_targets(self, rank: int, group: Group, unit: Unit, first: bool) -> set[Node]:
        targets: set[Node] = set()
        dumps = self.table.incident.dumps
        for half in unit.parts:
            peer = group.global_rank(half.peer)
            if peer is None or peer == rank:
                continue
            if peer not in dumps:
                targets.add(peer)
                continue
            mine = self._p2p_waiting[(group.index, rank, peer, half.sends)]
            theirs = self._p2p_waiting.get((group.index, peer, rank, not half.sends), [])
            place = next(at for at, (_, other) in enumerate(mine) if other is half)
            if place >= len(theirs):
                self.unmatched.append((rank, group, unit, half, peer))
                targets.add(peer)
                continue
            their_unit, their_half = theirs[place]
            if their_half.numel != half.numel:
                self.unequal.append((rank, group, unit, half, peer, their_half.numel))
            head = self.heads.get(peer)
            if first and head is not None and head[1] is not their_unit:
                targets.add(peer)
        return targets

    def components(self) -> list[list[Node]]:
        """Strongly connected components, those that wait for nothing else first (Tarjan)."""
        number: dict[Node, int] = {}
        low: dict[Node, int] = {}
        stack: list[Node] = []
        on_stack: set[Node] = set()
        found: list[list[Node]] = []
        for root in list(self.edges):
            if root in number:
                continue
            number[root] = low[root] = len(number)
            stack.append(root)
            on_stack.add(root)
            work = [(root, iter(self.edges.get(root, ())))]
            while work:
                node, targets = work[-1]
                for target in targets:
                    if target not in number:
                        number[target] = low[target] = len(number)
                        stack.append(target)
                        on_stack.add(target)
                        work.append((target, iter(self.edges.get(target, ()))))
                        break
                    if target in on_stack:
                        low[node] = min(low[node], number[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == number[node]:
                        component = []
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            component.append(member)
                            if member == node:
                                break
                        found.append(component)
        return found

    def ends(self) -> list[list[Node]]:
        """Components that wait for nothing outside themselves."""
        ends = []
        for component in self.components():
            members = set(component)
            if all(self.edges.get(node, set()) <= members for node in component):
                ends.append(component)
        return ends

    def awaited_in(self, rank: int) -> list[tuple[int, int]]:
        """Operations (group index, sequence number) that a rank should have entered."""
        if not hasattr(self, "_awaited"):
            self._awaited: dict[int, list[tuple[int, int]]] = {}
            for place, ranks in self.absent.items():
                for member in ranks:
                    self._awaited.setdefault(member, []).append(place)
        return self._awaited.get(rank, [])

    def waiting_for(self, targets: Iterable[Node]) -> tuple[int, ...]:
        """All ranks that wait, directly or through others, for one of the targets."""
        if not hasattr(self, "_reverse"):
            self._reverse: dict[Node, list[Node]] = {}
            for node, nexts in self.edges.items():
                for target in nexts:
                    self._reverse.setdefault(target, []).append(node)
        goal = set(targets)
        seen: set[Node] = set(goal)
        todo = list(goal)
        while todo:
            for before in self._reverse.get(todo.pop(), ()):
                if before not in seen:
                    seen.add(before)
                    todo.append(before)
        return tuple(sorted(node for node in seen - goal if isinstance(node, int)))
