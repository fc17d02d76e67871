"""Writes Flight Recorder dumps of a hung run: as many ranks, entries and groups as wanted.

Pickled like torch does it (protocol 2, strings shared), with stacks as a run with default settings
has them. Rank ``odd`` never enters the last collective; all others wait for it. With three groups,
operations of a default, a tensor-parallel and a data-parallel group alternate.
"""

from __future__ import annotations

import pickle
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
        found.append(
            (str(1 + ranks // width + column), "data", list(range(column, ranks, width)))
        )
    return found[:groups]


def dump(ranks: int, entries: int, groups: int, rank: int, odd: int) -> dict[str, Any]:
    """One rank's dump."""
    mine = membership(ranks, groups, rank)
    stacks = [
        [
            {"name": f"frame_{depth}", "filename": f"/home/user/project/model_{depth}.py", "line": at + depth}
            for depth in range(8)
        ]
        for at in range(4)
    ]  # fmt: skip
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


def write(folder: Path, ranks: int, entries: int, groups: int, odd: int = 3) -> int:
    """Write all ranks' dumps as ``trace_<rank>``; the bytes written."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for rank in range(ranks):
        data = pickle.dumps(dump(ranks, entries, groups, rank, odd), 2)
        (folder / f"trace_{rank}").write_bytes(data)
        total += len(data)
    return total
