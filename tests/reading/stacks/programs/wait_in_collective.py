"""Rank 0 waits in an all-reduce that rank 1 never joins: ``RANK PORT``."""

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

rank, port = int(sys.argv[1]), int(sys.argv[2])
store = dist.TCPStore("127.0.0.1", port, 2, rank == 0, timeout=timedelta(seconds=60))
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
dist.barrier()


def reduce_loss() -> None:
    print("ready", flush=True)
    if rank == 0:
        dist.all_reduce(torch.ones(2))
    time.sleep(60)


reduce_loss()
