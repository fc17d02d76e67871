"""A side that is further down in a function in whose loop the other still computes."""

from __future__ import annotations

from unstall.causes.activity import RankStack, Standing
from unstall.causes.base import FAIR, STRONG, evidence, excerpt, origin_of, ranks_text
from unstall.causes.divergence import Divergence, Side
from unstall.causes.reasons import boilerplate, no_network_trouble
from unstall.job import Job
from unstall.model.findings import Collective, Evidence, Finding, Fix
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
            _further_down(ahead, first_of_two(left), inside.who),
            STRONG if left.ranks else FAIR,  # it may be rank 0, on a branch of its own
            left.fact,
        )
    ]


def _further_down(ahead: Ahead, left: Text, inside: Text) -> Text:
    """Where the two part."""
    return say(
        "both are in {function} ({file}), {left} further down (line {line}) than {inside} "
        "(line {other}), which computes a step",
        function=ahead.function,
        file=ahead.name,
        left=left,
        line=ahead.line,
        inside=inside,
        other=ahead.other,
    )


def first_of_two(side: Side) -> Text:
    """Its ranks, where another side is told after it."""
    return ranks_text(side.ranks) if side.ranks else say("one rank")


def behind_a_step(job: Job, seen: Standing, fixes: tuple[Fix, ...]) -> Finding | None:
    """One rank in a collective behind the line at which another is in a step.

    Where DistributedDataParallel reduces gradients inside the backward pass no frame shows a
    collective: the rank that is in the step stands in autograd, computing or waiting.
    """
    if job.blocked:
        return None
    ranks = {one.rank for one in (*seen.together, *seen.apart)}
    for left in seen.together:
        if left.wait.kind != "collective" or (left.rank == 0 and len(ranks) > 2):
            continue  # rank 0 alone may be on a branch of its own
        if left.activity is not None and left.activity.kind != "metrics":
            continue
        for inside in seen.apart:
            if inside.activity is None or inside.activity.kind not in ("gradients", "forward"):
                continue
            ahead = further_on(left.calls, inside.calls)
            if ahead is not None:
                return _finding(job, left, inside, ahead, fixes)
    return None


def _finding(
    job: Job, left: RankStack, inside: RankStack, ahead: Ahead, fixes: tuple[Fix, ...]
) -> Finding:
    program = job.owner(left.stack) or job.trainer
    waits = left.wait.frame.function if left.wait.frame is not None else "collective"
    return Finding(
        cause="uneven-batches",
        summary=say(
            "{left} has left the loop and waits in {op}; {inside} is still in a step of it: they "
            "had different numbers of batches, unless it is only slower.",
            left=left.who,
            op=waits,
            inside=inside.who,
        ),
        support=(
            evidence(
                _further_down(ahead, left.who, inside.who),
                STRONG,
                left.stack,
            ),
        ),
        fixes=fixes,
        next_step=say(
            "take the stacks again after a minute: the same lines prove a hang rather than a slow "
            "rank; then count the batches of each rank, or look at the recorder's dumps of all"
        ),
        origin=origin_of(program, (left.rank,) if left.rank is not None else ())
        if program is not None
        else None,
        collective=Collective(waits),
        waiting_ranks=(inside.rank,) if inside.rank is not None else (),
        exonerated=(*no_network_trouble(job), *boilerplate(job)),
        excerpts=(excerpt(left.stack, "origin"), excerpt(inside.stack, "messenger")),
        ceiling=0.75,  # one set of stacks does not tell slow from stuck
    )
