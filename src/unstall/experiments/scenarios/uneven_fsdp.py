"""FSDP2: the ranks have different numbers of evaluation batches."""

from __future__ import annotations

from typing import Any

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import log_step, progress_bar, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="uneven-fsdp",
    causes=("uneven-batches",),
    title=say("ranks of FSDP2 have different numbers of batches"),
    about=say(
        "The last rank gets one evaluation batch more than the others. Its forward pass gathers "
        "sharded parameters, while the others are past the loop and reduce the loss."
    ),
    module="uneven_fsdp",
    changes=(
        Change("drop-last", say("every rank stops at the shortest length")),
        Change("agree-on-the-end", say("before each batch the ranks agree whether anyone has one")),
    ),
    fingerprint=(
        Waits("trainer rank 0", "reduce_loss"),
        Waits("trainer rank 2", "evaluation_loop"),
    ),
    ranks=3,
    steps=8,
    by=8,
)


def reduce_loss(total: float) -> float:
    """The loss over all ranks."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    value = torch.tensor([total])
    dist.all_reduce(value)
    return float(value)


def evaluation_loop(lab: Lab, model: Any, batches: int) -> float:
    """The loss over this rank's batches."""
    import torch
    import torch.distributed as dist

    total, number = 0.0, 0
    with torch.no_grad():
        while True:
            if lab.changed("agree-on-the-end"):
                anyone = torch.tensor([int(number < batches)])
                dist.all_reduce(anyone, op=dist.ReduceOp.MAX)
                if not anyone.item():
                    return total
            elif number >= batches:
                return total
            inputs = torch.randn(8, 16)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().item()
            if number < batches:
                total += loss
                progress_bar(lab, "Evaluating", number + 1, batches)
            number += 1


def main(lab: Lab) -> None:
    """Train a few steps, evaluate, train on."""
    torch = lab.torch()
    dist = lab.join()
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = tiny_model(torch)
    # layer by layer, as large models are: each forward pass gathers each layer anew
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=init_device_mesh("cpu", (lab.world,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (lab.world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    more = lab.rank == lab.world - 1 and lab.settings.fault and not lab.changed("drop-last")
    for step in range(1, lab.settings.steps + 1):
        inputs = torch.randn(8, 16)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log_step(lab, step, loss.item())
    if lab.rank == 0:
        say_line("***** Running Evaluation *****")
    total = reduce_loss(evaluation_loop(lab, model, 5 + int(more)))
    if lab.rank == 0:
        say_line(f"{{'eval_loss': {total:.4f}, 'epoch': 1.0}}")
    lab.leave(dist)
