"""Small gloo jobs that go wrong on purpose; a side thread of each rank dumps while they hang.

    python gloo_worker.py FOLDER

All scenarios run at once, each with three forked ranks, into FOLDER/<scenario>. gloo must be dumped
during the hang: after its own time-out the operation reads as completed.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

SCENARIOS = ("absent", "operation", "order", "exception")
WORLD = 3
PATIENCE = 40.0


def all_is_well(x: torch.Tensor) -> None:
    for _ in range(3):
        dist.all_reduce(x)


def wait_here(x: torch.Tensor) -> None:
    dist.all_reduce(x)


def elsewhere(x: torch.Tensor) -> None:
    dist.broadcast(x, 0)


def go_wrong(name: str, rank: int, x: torch.Tensor, groups: list[dist.ProcessGroup]) -> None:
    """What each rank does after the part that goes well."""
    if name == "absent" and rank == 1:
        time.sleep(PATIENCE)
    elif name == "operation" and rank == 2:
        elsewhere(x)
    elif name == "exception" and rank == 0:
        raise ValueError("this rank is done for")
    elif name == "order":
        for group in groups[:: -1 if rank == 2 else 1]:
            dist.all_reduce(x, group=group)
    else:
        wait_here(x)


def dump_and_leave(folder: Path, rank: int) -> None:
    """Dump once everybody hangs; leave when all have dumped, for gloo tells the others at once."""
    time.sleep(2.0)
    data = torch._C._distributed_c10d._dump_fr_trace()
    part = folder / f"part-{rank}"
    part.write_bytes(data)
    part.rename(folder / f"gloo_trace_rank_{rank}")
    until = time.monotonic() + PATIENCE
    while len(list(folder.glob("gloo_trace_rank_*"))) < WORLD and time.monotonic() < until:
        time.sleep(0.05)
    os._exit(0)


def run_rank(name: str, rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=WORLD,
        timeout=datetime.timedelta(seconds=2 * PATIENCE),
    )  # fmt: skip
    x = torch.ones(8)
    all_is_well(x)
    groups = [dist.new_group([0, 1, 2], group_desc=desc) for desc in ("first", "second")]
    dist.barrier()
    threading.Thread(target=dump_and_leave, args=(folder, rank), daemon=True).start()
    with contextlib.suppress(ValueError):  # the thread is done; its process lives on
        go_wrong(name, rank, x, groups)
    time.sleep(PATIENCE)


def main() -> None:
    children = []
    for name in SCENARIOS:
        folder = Path(sys.argv[1]) / name
        folder.mkdir()
        for rank in range(WORLD):
            child = os.fork()
            if not child:
                try:
                    run_rank(name, rank, folder)
                finally:
                    os._exit(1)
            children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
