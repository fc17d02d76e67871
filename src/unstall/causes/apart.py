"""What stacks alone show of a job that stands: some ranks wait, others are elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from unstall.causes.activity import RankStack, Standing, place_of, rank_stacks, standing
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    evidence,
    excerpt,
    origin_of,
    ranks_text,
)
from unstall.job import Job
from unstall.model.facts import ProcessStack
from unstall.model.findings import Evidence, Finding
from unstall.model.text import Text, say
from unstall.stacks.grouping import Movement, movements


def stand(job: Job) -> Finding | None:
    """What stacks alone show where nothing else speaks: some wait in a collective, others do not.

    Whoever takes stacks has a reason, and one set of them does not tell slow from stuck.
    """
    seen = standing(job)
    if not seen.together or not seen.apart:
        seen = standing(job, serving=True)
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


def stands_still(job: Job, seen: Standing) -> list[Evidence]:
    """That the rank which stands apart has the same stack each time: it is stuck, not slow."""
    twice = _seen_twice(job, seen.apart)
    if twice is None or twice[1].moved is not False:
        return []
    text = say(
        "{who} stands in {frame} in each set of stacks: stuck rather than slow",
        who=twice[0].who,
        frame=place_of(twice[0]),
    )
    return [evidence(text, STRONG + FAIR, twice[0].stack)]


def _seen_twice(job: Job, apart: Sequence[RankStack]) -> tuple[RankStack, Movement] | None:
    """The one rank that stands apart, if its stack was taken more than once and that tells."""
    if len(apart) != 1:
        return None
    for movement in movements(job.all(ProcessStack)):
        if movement.stacks[-1] is apart[0].stack and movement.moved is not None:
            return apart[0], movement
    return None


def motionless(job: Job) -> Finding | None:
    """What stacks show that are the same each time, with nobody in a known collective.

    A backward pass exchanges gradients inside of itself (DDP's reducer), so that Python's frames
    show no collective: who stands in one waits for who stands elsewhere.
    """
    ranks = rank_stacks(job)
    still = {id(one.stacks[-1]) for one in movements(job.all(ProcessStack)) if one.moved is False}
    if not ranks or any(id(one.stack) not in still for one in ranks):
        return None
    backward = [one for one in ranks if _in_backward(one)]
    places: dict[str, list[RankStack]] = defaultdict(list)
    for one in ranks:
        if one not in backward:
            places[place_of(one)].append(one)
    if not places:
        for one in backward:
            places[place_of(one)].append(one)
        backward = []
    (frame, others), *more = sorted(places.items(), key=lambda pair: len(pair[1]))
    named = backward and not more and len(others) == 1
    if backward:
        who, other = _who(backward), _who(others)
        summary = (
            say(
                "{who} stands in the backward pass, where gradients are exchanged, and {other} in "
                "{frame}: none moved between the sets of stacks.",
                who=who,
                other=other,
                frame=frame,
            )
            if len(backward) == 1
            else say(
                "{who} stand in the backward pass, where gradients are exchanged, and {other} in "
                "{frame}: none moved between the sets of stacks.",
                who=who,
                other=other,
                frame=frame,
            )
        )
    elif more:
        summary = say(
            "No rank moved between the sets of stacks: {other} in {frame}, {who} in {place}.",
            other=_who(others),
            frame=frame,
            who=_who(more[-1][1]),
            place=more[-1][0],
        )
    else:
        summary = say(
            "No rank moved between the sets of stacks: {other} in {frame}.",
            other=_who(others),
            frame=frame,
        )
    first = others[0]
    origin = (first.rank,) if named and first.rank is not None else ()
    owner = job.owner(first.stack)
    return Finding(
        cause="unknown",
        summary=summary,
        support=(
            evidence(
                say("the stacks of all {count} processes are the same each time", count=len(ranks)),
                WEAK,
                first.stack,
            ),
        ),
        next_step=say(
            "see what {other} waits for in {frame}: a lock, a file, another process, an answer "
            "from the network",
            other=_who(others),
            frame=frame,
        ),
        origin=origin_of(owner, origin) if owner is not None or origin else None,
        excerpts=(excerpt(first.stack, "origin"),),
    )


def _in_backward(one: RankStack) -> bool:
    return any(function == "_engine_run_backward" for function, _, _ in one.calls)


def _who(some: Sequence[RankStack]) -> Text:
    known = [one.rank for one in some if one.rank is not None]
    if len(known) == len(some):
        return ranks_text(known)
    return some[0].who if len(some) == 1 else say("{count} processes", count=len(some))
