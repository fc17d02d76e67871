"""Two ranks use two groups in opposite order."""

from __future__ import annotations

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="two-group-order",
    causes=("rank-dependent-branch",),
    title=say("two ranks use two process groups in opposite order"),
    about=say(
        "Rank 0 averages the metric first and the auxiliary loss second, the others the other "
        "way round, each in a group of its own. Both wait, each in another group."
    ),
    module="two_groups",
    changes=(Change("same-order", say("all ranks use the groups in one order")),),
    fingerprint=(
        Waits("trainer rank 0", "reduce_metric"),
        Waits("trainer rank 1", "reduce_auxiliary_loss"),
    ),
    steps=10,
    by=3,
)


def reduce_metric(dist: object, group: object, value: object) -> None:
    """Average the metric."""
    dist.all_reduce(value, group=group)  # type: ignore[attr-defined]


def reduce_auxiliary_loss(dist: object, group: object, value: object) -> None:
    """Average the auxiliary loss."""
    dist.all_reduce(value, group=group)  # type: ignore[attr-defined]


def main(lab: Lab) -> None:
    """Train; average two things after each step from the third on."""
    torch = lab.torch()
    dist = lab.join()
    from datetime import timedelta

    timeout = timedelta(seconds=lab.settings.timeout)
    metric = dist.new_group(timeout=timeout, group_desc="metric")
    auxiliary = dist.new_group(timeout=timeout, group_desc="auxiliary")

    def reduce(step: int) -> None:
        if step < 3:
            return
        first = lab.rank == 0 or not lab.faulty
        if first:
            reduce_metric(dist, metric, torch.ones(1))
        reduce_auxiliary_loss(dist, auxiliary, torch.ones(4))
        if not first:
            reduce_metric(dist, metric, torch.ones(1))

    loop(lab, reduce)
