"""One rank decides by itself to reduce a metric; the others go on."""

from __future__ import annotations

import random

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="rank-branch",
    causes=("rank-dependent-branch",),
    title=say("a decision that each rank makes for itself"),
    about=say(
        "Each rank compares its own smoothed loss with a threshold and gathers statistics each "
        "time it has fallen by a tenth. The ranks see different data: one of them gets there "
        "first and waits in an operation that the others do not call."
    ),
    module="rank_branch",
    changes=(
        Change("reduce-first", say("the loss is averaged over the ranks before it is compared")),
        Change("rank-zero-decides", say("rank 0 decides and broadcasts the decision")),
    ),
    fingerprint=(Waits("trainer rank", "gather_metrics"), Waits("trainer rank", "backward")),
    ranks=3,
    steps=120,
    by=100,
    sizes={"threshold": 9.0},
    size_texts={"threshold": say("loss at which statistics are first gathered")},
)


def gather_metrics(dist: object, loss: float) -> float:
    """Statistics over all ranks."""
    import torch

    parts = [torch.zeros(3) for _ in range(dist.get_world_size())]  # type: ignore[attr-defined]
    dist.all_gather(parts, torch.tensor([loss, loss * loss, 1.0]))  # type: ignore[attr-defined]
    return float(sum(part[0] for part in parts) / len(parts))


def main(lab: Lab) -> None:
    """Train; gather statistics each time the loss has fallen by a tenth."""
    torch = lab.torch()
    dist = lab.join()
    draw = random.Random(lab.settings.seed * 100 + lab.rank)  # noqa: S311
    smooth = [20.0]
    # one threshold alone may by chance be passed by all ranks in the same step
    threshold = [lab.size("threshold")]

    def check(step: int) -> None:
        smooth[0] = 0.95 * smooth[0] + 0.05 * 20.0 * 0.96**step * draw.uniform(0.7, 1.3)
        value = torch.tensor([smooth[0]])
        if lab.changed("reduce-first") or not lab.settings.fault:
            dist.all_reduce(value)
            value /= lab.world
        low = float(value) < threshold[0]
        if lab.changed("rank-zero-decides"):
            decision = torch.tensor([int(low)])
            dist.broadcast(decision, src=0)
            low = bool(decision.item())
        if low:
            threshold[0] *= 0.9
            mean = gather_metrics(dist, smooth[0])
            if lab.rank == 0:
                say_line(f"running loss {mean:.4f}")

    loop(lab, check)
