"""A side that is further down in a function in whose loop the other still computes."""

from __future__ import annotations

from unstall.causes.base import FAIR, STRONG, evidence, ranks_text
from unstall.causes.divergence import Divergence, Side
from unstall.model.findings import Evidence
from unstall.model.text import Text, say
from unstall.stacks.order import Ahead, further_on

_STEP = ("forward", "gradients")


def behind_the_loop(divergence: Divergence) -> tuple[Side, Side, Ahead] | None:
    """A side that agrees on something further down than where the other computes a step.

    Rank 0 alone in a collective of its own is the usual sign of a branch on the rank
    (``if rank == 0: log(...)``): that is not taken for a loop's end.

    Returns:
        The side that is further on, the other, and the function in which they part.
    """
    for left in divergence.sides:
        if not left.small or (left.ranks == (0,) and len(divergence.all_ranks) > 2):
            continue
        if left.doing is not None and left.doing.kind != "metrics":
            continue
        for inside in divergence.sides:
            if inside.small or inside.doing is None or inside.doing.kind not in _STEP:
                continue
            ahead = further_on(left.frames, inside.frames)
            if ahead is not None:
                return left, inside, ahead
    return None


def behind_evidence(divergence: Divergence) -> list[Evidence]:
    """That one side may have left the loop that the other is in."""
    found = behind_the_loop(divergence)
    if found is None:
        return []
    left, inside, ahead = found
    return [
        evidence(
            say(
                "both are in {function} ({file}), {left} further down (line {line}) than {inside} "
                "(line {other}), which computes a step",
                function=ahead.function,
                file=ahead.name,
                left=first_of_two(left),
                line=ahead.line,
                inside=inside.who,
                other=ahead.other,
            ),
            STRONG if left.ranks else FAIR,  # it may be rank 0, on a branch of its own
            left.fact,
        )
    ]


def first_of_two(side: Side) -> Text:
    """Its ranks, where another side is told after it."""
    return ranks_text(side.ranks) if side.ranks else say("one rank")
