"""Valid Flight Recorder dumps of runs that never were, with faults put in.

A run is simulated: every rank works through its program, an operation ends when all its members are
at it and agree, and ranks run ahead by a few operations as they do on a GPU. What hangs, hangs for
the reason that was put in; the dumps are what each rank's ring buffer then holds.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import cache
from typing import Any

START = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Group:
    """A process group: name and description as in a dump, global ranks."""

    name: str
    desc: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """A collective, or a send or receive (``peer`` is a global rank)."""

    group: int
    name: str = "all_reduce"
    sizes: tuple[int, ...] = (16,)
    out: tuple[int, ...] | None = None
    dtype: str = "Float"
    peer: int | None = None
    frame: str = "step"


@dataclass
class Recorded:
    """An operation as one rank issued it."""

    op: Op
    seq: int
    p2p: int
    done: bool = False
    at: int = 0


@dataclass
class Run:
    """Groups and each rank's program."""

    groups: list[Group]
    programs: dict[int, list[Op]]
    depth: int = 3
    backend: str = "nccl"
    version: str = "2.10"
    record: dict[int, list[Recorded]] = field(default_factory=dict)

    def simulate(self) -> Run:
        """Let every rank go as far as it can."""
        ranks = sorted(self.programs)
        self.record = {rank: [] for rank in ranks}
        first = dict.fromkeys(ranks, 0)
        issued: dict[tuple[int, int], list[Recorded]] = {}
        p2p: dict[tuple[int, int, int], list[Recorded]] = {}
        counts: dict[tuple[int, int, bool], int] = {}
        clock, moved = 0, True
        while moved:
            moved = False
            for rank in ranks:
                mine = self.record[rank]
                while len(mine) < len(self.programs[rank]) and len(mine) - first[rank] < self.depth:
                    op = self.programs[rank][len(mine)]
                    exchange = op.peer is not None
                    key = (rank, op.group, exchange)
                    counts[key] = counts.get(key, 0) + 1
                    coll = counts.get((rank, op.group, False), 0)
                    clock += 1
                    entry = Recorded(op, coll, counts[key] if exchange else 0, at=clock)
                    mine.append(entry)
                    if exchange:
                        sends = op.name == "send"
                        pair = (op.group, rank, op.peer) if sends else (op.group, op.peer, rank)
                        p2p.setdefault((*pair, sends), []).append(entry)
                    else:
                        issued.setdefault((op.group, coll), []).append(entry)
                    moved = True
            for rank in ranks:
                moved |= self._finish(rank, first, issued, p2p)
        return self

    def _finish(self, rank: int, first: dict[int, int], issued: Any, p2p: Any) -> bool:
        """End the rank's first operation if everybody who belongs to it is at it."""
        mine = self.record[rank]
        if first[rank] >= len(mine):
            return False
        head = mine[first[rank]]
        op = head.op
        if op.peer is not None:
            sends = op.name == "send"
            pair = (op.group, rank, op.peer) if sends else (op.group, op.peer, rank)
            ours, theirs = p2p[(*pair, sends)], p2p.get((*pair, not sends), [])
            place = next(at for at, entry in enumerate(ours) if entry is head)
            if place >= len(theirs) or theirs[place].op.sizes != op.sizes:
                return False
            other = self.record[op.peer]
            if theirs[place] is not other[first[op.peer]]:
                return False
            for who in (rank, op.peer):
                self.record[who][first[who]].done = True
                first[who] += 1
            return True
        members = self.groups[op.group].ranks
        inside = issued[(op.group, head.seq)]
        if len(inside) < len(members):
            return False
        if any(
            (e.op.name, e.op.sizes, e.op.dtype) != (op.name, op.sizes, op.dtype) for e in inside
        ):
            return False
        heads = [self.record[m][first[m]] for m in members if first[m] < len(self.record[m])]
        if len(heads) < len(members) or any(not any(h is e for e in inside) for h in heads):
            return False
        for member in members:
            self.record[member][first[member]].done = True
            first[member] += 1
        return True

    def dump(self, rank: int, ring: int = 2000, only_active: bool = False) -> dict[str, Any]:
        """What the rank's ring buffer holds."""
        entries = [self._entry(rank, at, e) for at, e in enumerate(self.record[rank])]
        entries = entries[-ring:]
        if only_active:
            entries = [entry for entry in entries if entry["state"] != "completed"]
        own = [(at, g) for at, g in enumerate(self.groups) if rank in g.ranks]
        status = {}
        for local, (at, _) in enumerate(own):
            mine = [e for e in self.record[rank] if e.op.group == at and e.op.peer is None]
            status[str(local)] = {
                "last_enqueued_collective": max((e.seq for e in mine), default=-1),
                "last_started_collective": -1,
                "last_completed_collective": max((e.seq for e in mine if e.done), default=-1),
            }
        config = {
            g.name: {"name": g.name, "desc": g.desc, "ranks": str(list(g.ranks))} for _, g in own
        }
        return {
            "version": self.version, "comm_lib_version": "2.27.5", "pg_config": config,
            "pg_status": status, "entries": entries,
        }  # fmt: skip

    def _entry(self, rank: int, at: int, e: Recorded) -> dict[str, Any]:
        group = self.groups[e.op.group]
        own = [i for i, g in enumerate(self.groups) if rank in g.ranks]
        name = e.op.name
        if e.op.peer is not None:
            mine, other = group.ranks.index(rank), group.ranks.index(e.op.peer)
            name = f"send {mine}->{other}" if name == "send" else f"recv {mine}<-{other}"
        created = START + e.at * 1_000_000
        return {
            "frames": list(_frames(e.op.frame)),
            "record_id": at, "pg_id": own.index(e.op.group),
            "process_group": (group.name, group.desc),
            "thread_name": "python", "thread_id": "1", "collective_seq_id": e.seq,
            "p2p_seq_id": e.p2p, "op_id": at, "profiling_name": f"{self.backend}:{name}",
            "time_created_ns": created, "input_sizes": [list(e.op.sizes)],
            "input_dtypes": [e.op.dtype], "output_sizes": [list(e.op.out or e.op.sizes)],
            "output_dtypes": [e.op.dtype], "state": "completed" if e.done else "scheduled",
            "time_discovered_started_ns": created + 1000 if e.done else None,
            "time_discovered_completed_ns": created + 900_000 if e.done else None,
            "retired": e.done, "timeout_ms": 600000, "is_p2p": e.op.peer is not None,
        }  # fmt: skip

    def files(
        self, ring: int | dict[int, int] = 2000, only_active: bool = False
    ) -> dict[str, bytes]:
        """All ranks' dumps by file name, as torch names and pickles them."""
        rings = ring if isinstance(ring, dict) else dict.fromkeys(self.programs, ring)
        dumps = {r: self.dump(r, rings.get(r, 2000), only_active) for r in self.programs}
        return {f"comm_lib_trace_rank_{r}": pickle.dumps(d, 2) for r, d in dumps.items()}


@cache
def _frames(function: str) -> tuple[dict[str, Any], ...]:
    """A stack; torch shares equal frames among entries."""
    library = "/x/site-packages/torch/distributed/c.py"
    return (
        {"name": "all_reduce", "filename": library, "line": 9},
        {"name": function, "filename": "/home/user/train.py", "line": len(function)},
    )


def one_group(world: int) -> list[Group]:
    """The default group alone."""
    return [Group("0", "default_pg", tuple(range(world)))]


def grid(data: int, tensor: int) -> list[Group]:
    """The default group, tensor-parallel groups of neighbours, data-parallel groups across."""
    world = data * tensor
    groups = one_group(world)
    for at in range(data):
        ranks = tuple(range(at * tensor, (at + 1) * tensor))
        groups.append(Group(str(len(groups)), "tensor", ranks))
    for at in range(tensor):
        groups.append(Group(str(len(groups)), "data", tuple(range(at, world, tensor))))
    return groups


def group_of(groups: list[Group], desc: str, rank: int) -> int:
    """The rank's group of that description."""
    return next(at for at, g in enumerate(groups) if g.desc == desc and rank in g.ranks)


def training(groups: list[Group], steps: int) -> dict[int, list[Op]]:
    """A step on every rank: tensor-parallel gathers, a data-parallel reduction, a loss."""
    descs = {g.desc for g in groups}
    programs: dict[int, list[Op]] = {}
    for rank in groups[0].ranks:
        ops: list[Op] = []
        for step in range(steps):
            if "tensor" in descs:
                tensor = group_of(groups, "tensor", rank)
                size = len(groups[tensor].ranks)
                ops.append(Op(tensor, "_all_gather_base", (64,), (64 * size,), frame="forward"))
                ops.append(Op(tensor, "all_reduce", (128,), frame="forward"))
            if "data" in descs:
                data = group_of(groups, "data", rank)
                ops.append(Op(data, "all_reduce", (256 + step % 3,), frame="backward"))
            ops.append(Op(0, "all_reduce", (1,), frame="log_loss"))
            ops.append(Op(0, "broadcast", (32,), frame="sync"))
        programs[rank] = ops
    return programs
