"""Ranks gather tensors of different lengths."""

from __future__ import annotations

import random

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Ended, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="size-mismatch",
    causes=("size-mismatch",),
    title=say("ranks gather sequences of different lengths"),
    about=say(
        "Each rank gathers its batch's token log-probabilities from all ranks with a tensor as "
        "long as its own longest sequence. The lengths differ from rank to rank."
    ),
    module="size_mismatch",
    changes=(
        Change("pad", say("every rank pads to the longest possible length")),
        Change("gather-sizes-first", say("the ranks agree on the longest length, then pad")),
    ),
    fingerprint=(Says("trainer", "op.preamble.length"), Ended("trainer", 1)),
    expect="failure",
    steps=12,
    by=5,
    gather=1.5,
    stall=20.0,
)
LONGEST = 96


def gather_logprobs(lab: Lab, length: int) -> int:
    """Gather all ranks' log-probabilities; how many."""
    import torch
    import torch.distributed as dist

    if lab.changed("pad") or not lab.settings.fault:
        length = LONGEST
    elif lab.changed("gather-sizes-first"):
        longest = torch.tensor([length])
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        length = int(longest.item())
    mine = torch.full((length,), -1.0)
    parts = [torch.empty(length) for _ in range(lab.world)]
    dist.all_gather(parts, mine)
    return sum(part.numel() for part in parts)


def main(lab: Lab) -> None:
    """Train; after the fifth step gather."""
    lab.torch()
    lab.join()
    draw = random.Random(lab.settings.seed * 100 + lab.rank)  # noqa: S311

    def gather(step: int) -> None:
        if step >= 5:
            count = gather_logprobs(lab, draw.randrange(16, 64) + 8 * lab.rank)
            if lab.rank == 0:
                say_line(f"gathered {count} log-probabilities")

    loop(lab, gather)
