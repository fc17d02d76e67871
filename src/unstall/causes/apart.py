"""What stacks alone show of a job that stands: some ranks wait, others are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from unstall.causes.activity import RankStack, place_of, standing
from unstall.causes.base import WEAK, evidence, excerpt, origin_of
from unstall.job import Job
from unstall.model.facts import ProcessStack
from unstall.model.findings import Finding
from unstall.model.text import say
from unstall.stacks.grouping import Movement, movements


def stand(job: Job) -> Finding | None:
    """What stacks alone show where nothing else speaks: some wait in a collective, others do not.

    Whoever takes stacks has a reason, and one set of them does not tell slow from stuck.
    """
    seen = standing(job)
    if not seen.together or not seen.apart:
        return None
    first, other = seen.together[0], seen.apart[0]
    still = _seen_twice(job, seen.apart)
    summary = say(
        "{who} waits in a collective and {other} is elsewhere; one set of stacks does not tell "
        "whether it is slow or stuck.",
        who=first.who,
        other=other.who,
    )
    step = say(
        "take the stacks again after a minute: the rank whose lines are the same and that is "
        "in no collective is the one that the others wait for"
    )
    ranks: tuple[int, ...] = ()
    support = [
        evidence(
            say(
                "{count} of {all} processes are in a collective",
                count=len(seen.together),
                all=len(seen.together) + len(seen.apart),
            ),
            WEAK,
            first.stack,
        )
    ]
    if still is not None:
        other, movement = still
        ranks = (other.rank,) if other.rank is not None else ()
        place = place_of(other)
        if movement.moved:
            summary = say(
                "{who} waits in a collective for {other}, which is at work and late: it moved "
                "between the sets of stacks, and is in {frame}.",
                who=first.who,
                other=other.who,
                frame=place,
            )
            step = say(
                "see what {other} does there, and why the other ranks do not: share the work out, "
                "or have all ranks do it",
                other=other.who,
            )
        else:
            summary = say(
                "{who} waits in a collective for {other}, which stands still in {frame}: it is "
                "there in each set of stacks.",
                who=first.who,
                other=other.who,
                frame=place,
            )
            step = say(
                "see what {other} waits for in {frame}: a lock, a file, another process, an answer "
                "from the network",
                other=other.who,
                frame=place,
            )
        support.append(
            evidence(
                say("its stacks, {count} of them", count=len(movement.stacks)), WEAK, other.stack
            )
        )
    owner = job.owner(first.stack)
    return Finding(
        cause="unknown",
        summary=summary,
        support=tuple(support),
        next_step=step,
        origin=origin_of(owner, ranks) if owner is not None or ranks else None,
        excerpts=(excerpt(other.stack, "origin"), excerpt(first.stack, "messenger")),
    )


def _seen_twice(job: Job, apart: Sequence[RankStack]) -> tuple[RankStack, Movement] | None:
    """The one rank that stands apart, if its stack was taken more than once and that tells."""
    if len(apart) != 1:
        return None
    for movement in movements(job.all(ProcessStack)):
        if movement.stacks[-1] is apart[0].stack and movement.moved is not None:
            return apart[0], movement
    return None
