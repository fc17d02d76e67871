"""DDP: the ranks have different numbers of batches."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import log_step, progress_bar, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="uneven-ddp",
    causes=("uneven-batches",),
    title=say("ranks of DDP have different numbers of batches"),
    about=say(
        "The data set does not divide evenly: the last rank gets one batch more. At the end of "
        "the epoch the others leave the loop and gather the epoch's loss, while the last rank "
        "reduces gradients."
    ),
    module="uneven_ddp",
    changes=(
        Change("drop-last", say("every rank stops at the shortest length")),
        Change("join", say("the context manager Join lets ranks that are done shadow the others")),
    ),
    fingerprint=(
        Waits("trainer rank 0", "log_metrics"),
        Waits("trainer rank 2", "train_epoch"),
    ),
    ranks=3,
    steps=20,
    by=20,
)


def log_metrics(lab: Lab, total: float, count: int) -> float:
    """The mean loss of the epoch over all ranks."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    parts = [torch.zeros(2) for _ in range(lab.world)]
    dist.all_gather(parts, torch.tensor([total, float(count)]))
    return sum(float(part[0]) for part in parts) / sum(float(part[1]) for part in parts)


def allreduce_gradients(_state: object, bucket: Any) -> Any:
    """DDP's communication hook: the mean of a bucket of gradients over all ranks."""
    import torch
    import torch.distributed as dist

    buffer = bucket.buffer()
    dist.all_reduce(buffer)
    done: Any = torch.futures.Future()
    done.set_result(buffer / dist.get_world_size())
    return done


def train_epoch(lab: Lab, model: object, optimizer: object, batches: int) -> float:
    """One epoch over this rank's batches; its total loss."""
    import torch

    total = 0.0
    for step in range(1, batches + 1):
        inputs = torch.randn(8, 16)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()  # type: ignore[operator]
        loss.backward()
        optimizer.step()  # type: ignore[attr-defined]
        optimizer.zero_grad()  # type: ignore[attr-defined]
        total += loss.item()
        log_step(lab, step, loss.item())
        progress_bar(lab, "Training", step, batches)
    return total


def main(lab: Lab) -> None:
    """Train two epochs."""
    torch = lab.torch()
    dist = lab.join()
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(tiny_model(torch))
    allreduce_gradients.__annotations__.clear()  # DDP insists on annotations that are no strings
    model.register_comm_hook(None, allreduce_gradients)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    more = lab.rank == lab.world - 1 and lab.settings.fault and not lab.changed("drop-last")
    batches = lab.settings.steps + int(more)
    for epoch in range(2):
        with Join([model]) if lab.changed("join") else nullcontext():
            total = train_epoch(lab, model, optimizer, batches)
        mean = log_metrics(lab, total, batches)
        if lab.rank == 0:
            say_line(f"epoch {epoch}: mean loss {mean:.4f}")
    lab.leave(dist)
