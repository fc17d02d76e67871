"""Writes Flight Recorder dumps of a hung run: as many ranks, entries and groups as wanted.

Pickled like torch does it (see :class:`TorchPickler`), with stacks as a run with default settings
has them. Rank ``odd`` never enters the last collective; all others wait for it. With three groups,
operations of a default, a tensor-parallel and a data-parallel group alternate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

START = 1_700_000_000_000_000_000
TENSOR = 8


def membership(ranks: int, groups: int, rank: int) -> list[tuple[str, str, list[int]]]:
    """A rank's groups: name, description, members."""
    found = [("0", "default_pg", list(range(ranks)))]
    if groups > 1:
        width = min(TENSOR, ranks)
        block = rank // width
        found.append((str(1 + block), "tensor", list(range(block * width, (block + 1) * width))))
        column = rank % width
        found.append((str(1 + ranks // width + column), "data", list(range(column, ranks, width))))
    return found[:groups]


def dump(ranks: int, entries: int, groups: int, rank: int, odd: int) -> dict[str, Any]:
    """One rank's dump."""
    mine = membership(ranks, groups, rank)
    source = "/home/user/project/model_{}.py"
    stacks = [
        [{"name": f"frame_{n}", "filename": source.format(n), "line": at + n} for n in range(8)]
        for at in range(4)
    ]
    types, records = ["Float"], []
    seqs = [0] * len(mine)
    hanging = entries - 1 - (entries - 1) % len(mine)  # the last operation of the default group
    for number in range(entries):
        at = number % len(mine)
        if number == hanging and rank == odd:
            break
        seqs[at] += 1
        done = number < hanging
        created = START + number * 1_000_000 + rank
        size = [[1024 + at]]
        records.append({
            "frames": stacks[number % 4], "record_id": number, "pg_id": at,
            "process_group": mine[at][:2], "thread_name": "python3", "thread_id": "140000000000000",
            "collective_seq_id": seqs[at], "p2p_seq_id": 0, "op_id": seqs[at],
            "profiling_name": "nccl:all_reduce", "time_created_ns": created, "input_sizes": size,
            "input_dtypes": types, "output_sizes": size, "output_dtypes": types,
            "state": "completed" if done else "scheduled",
            "time_discovered_started_ns": created + 1000 if done else None,
            "time_discovered_completed_ns": created + 2000 if done else None,
            "retired": done, "timeout_ms": 600000, "is_p2p": False,
        })  # fmt: skip
        if number == hanging:
            break
    return {
        "version": "2.10",
        "comm_lib_version": "2.27.5",
        "pg_config": {n: {"name": n, "desc": d, "ranks": str(m)} for n, d, m in mine},
        "pg_status": {
            str(at): {
                "last_enqueued_collective": seqs[at],
                "last_started_collective": seqs[at],
                "last_completed_collective": seqs[at] - (at == 0 and rank != odd),
            }
            for at in range(len(mine))
        },
        "entries": records,
    }


class TorchPickler:
    """Pickles plain values byte by byte as torch's C++ does (torch/csrc/jit/serialization/pickler).

    Protocol 2; strings are stored once and referred to, so are dictionaries that occur again (stack
    frames); lists are written out each time, with a mark even for one element.
    """

    def __init__(self, again: list[dict[str, Any]]) -> None:
        self.out = bytearray(b"\x80\x02")
        self.texts: dict[str, int] = {}
        self.again: dict[int, int | None] = {id(value): None for value in again}
        self.count = 0

    def _put(self) -> int:
        at, self.count = self.count, self.count + 1
        self.out += b"q" + bytes([at]) if at < 256 else b"r" + at.to_bytes(4, "little")
        return at

    def _get(self, at: int) -> None:
        self.out += b"h" + bytes([at]) if at < 256 else b"j" + at.to_bytes(4, "little")

    def write(self, value: Any) -> None:
        """Append one value."""
        out = self.out
        if isinstance(value, str):
            if value in self.texts:
                self._get(self.texts[value])
            else:
                data = value.encode()
                out += b"X" + len(data).to_bytes(4, "little") + data
                self.texts[value] = self._put()
        elif value is None:
            out += b"N"
        elif isinstance(value, bool):
            out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            if 0 <= value < 256:
                out += b"K" + bytes([value])
            elif 0 <= value < 65536:
                out += b"M" + value.to_bytes(2, "little")
            elif -(1 << 31) <= value < 1 << 31:
                out += b"J" + value.to_bytes(4, "little", signed=True)
            else:
                out += b"\x8a\x08" + value.to_bytes(8, "little", signed=True)
        elif isinstance(value, tuple):
            for item in value:
                self.write(item)
            out += b"\x86"
        elif isinstance(value, list):
            out += b"]("
            for item in value:
                self.write(item)
            out += b"e"
        else:
            known = self.again.get(id(value))
            if known is not None:
                self._get(known)
                return
            out += b"}("
            for key, item in value.items():
                self.write(key)
                self.write(item)
            out += b"u"
            if id(value) in self.again:
                self.again[id(value)] = self._put()


def pickled(value: dict[str, Any]) -> bytes:
    """A dump as torch writes it."""
    frames = {id(f): f for entry in value["entries"] for f in entry["frames"]}
    pickler = TorchPickler(list(frames.values()))
    pickler.write(value)
    return bytes(pickler.out) + b"."


def write(folder: Path, ranks: int, entries: int, groups: int, odd: int = 3) -> int:
    """Write all ranks' dumps as ``trace_<rank>``; the bytes written."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for rank in range(ranks):
        data = pickled(dump(ranks, entries, groups, rank, odd))
        (folder / f"trace_{rank}").write_bytes(data)
        total += len(data)
    return total
