"""Process groups of the engines, in the order in which vLLM 0.11 makes them.

For each list of ranks a group for the device and one for the CPU, on every rank: world, tensor,
decode-context, pipeline, data, expert parallel (``vllm/distributed/parallel_state.py``).
"""

from __future__ import annotations

from typing import Any

from unstall.experiments.child import distributed


def initialize_model_parallel(dist: Any, world: int, timeout: Any) -> Any:
    """Make all groups; the device group of data parallel is returned."""
    everyone = [list(range(world))]
    alone = [[rank] for rank in range(world)]
    layout = (
        ("world", everyone),
        ("tp", alone),
        ("dcp", alone),
        ("pp", alone),
        ("dp", everyone),
        ("ep", everyone),
    )
    found = None
    for name, lists in layout:
        for ranks in lists:
            device = dist.new_group(ranks, timeout=timeout, group_desc=name)
            dist.new_group(ranks, timeout=timeout, group_desc=f"{name}_cpu")
            if name == "dp":
                found = device
    return found


def stateless_vote_group(store: Any, rank: int, world: int, timeout: Any) -> Any:
    """A gloo group outside of torch.distributed's world, as engine cores have for their vote."""
    dist = distributed()
    return dist.ProcessGroupGloo(dist.PrefixStore("dp_vote", store), rank, world, timeout)


def any_of(vote: Any, mine: bool) -> bool:
    """Whether any member of the vote's group says yes."""
    import torch

    dist = distributed()
    counted = torch.tensor([int(mine)], dtype=torch.int32)
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    vote.allreduce([counted], options).wait()
    return bool(counted.item())
