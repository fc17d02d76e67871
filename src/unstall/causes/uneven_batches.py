"""``uneven-batches``: one rank has left a loop that the others are still in."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import standing
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    collective_of,
    evidence,
    excerpt,
    group_of,
    origin_of,
    ranks_text,
)
from unstall.causes.divergence import (
    GATHERS,
    Divergence,
    LoopEnd,
    Side,
    Split,
    divergences,
    group_text,
    loop_ends,
    splits,
)
from unstall.causes.further_on import behind_a_step, behind_evidence, first_of_two
from unstall.causes.reasons import (
    began,
    began_evidence,
    boilerplate,
    died_before,
    excerpts_of,
    network_before,
    no_network_trouble,
)
from unstall.job import Blocked, Job
from unstall.model.facts import Fact, Phase, Progress
from unstall.model.findings import Collective, Evidence, Excerpt, Exonerated, Finding, Fix, Origin
from unstall.model.text import Text, say


def examine(job: Job) -> Iterable[Finding]:
    """A claim from two groups, from one group's two operations, or from ranks that had ended."""
    for split in splits(job):
        if split.small_and_large:
            yield _split(job, split)
            return
    seen = standing(job)
    for divergence in divergences(job, seen):
        if not divergence.exchanges:
            finding = _diverged(job, divergence)
            if finding is not None:
                yield finding
                return
    finding = behind_a_step(job, seen, _fixes())
    if finding is not None:
        yield finding
        return
    for blocked in job.blocked:
        if blocked.program is None or blocked.program.role == "trainer":
            finding = _ended(job, blocked)
            if finding is not None:
                yield finding
                return


# --- two groups --------------------------------------------------------------------------------


def _split(job: Job, split: Split) -> Finding:
    one, other = split.one, split.other
    left, inside = split.one_ranks, split.other_ranks
    support = [
        evidence(
            say(
                "{ranks} waited in {group} in {op} of {numel} element(s): a loss, a flag or a "
                "barrier, as ranks do behind a loop",
                ranks=ranks_text(left),
                group=group_text(one.stall.tag),
                op=one.stall.work.op,
                numel=_numel(one),
            ),
            STRONG,
            one.stall.first,
        ),
        evidence(
            say(
                "{ranks} waited in {group} in {op}: different process groups, whose numbers "
                "cannot be compared",
                ranks=ranks_text(inside),
                group=group_text(other.stall.tag),
                op=_op(other),
            ),
            WEAK,
            other.stall.first,
        ),
    ]
    if split.gap is not None:
        support.append(
            evidence(
                say(
                    "both began to wait within {seconds} s of each other: they parted at one place",
                    seconds=round(split.gap, 1),
                ),
                0.0,
                other.stall.first,
            )
        )
    limit = one.stall.timeout_ms
    if limit is not None:
        support.append(
            evidence(
                say("the time-out was {seconds} s", seconds=_seconds(limit)), 0.0, one.stall.first
            )
        )
    ends = loop_ends(job, one.stall.first)
    support.extend(_end_evidence(job, ends, left, inside))
    support.extend(began_evidence(job, one))
    against = [
        *_deaths(job, one, {*left, *inside}),
        *network_before(job, one.stall.first),
        *_saving(job, left, one.stall.first),
    ]
    return Finding(
        cause="uneven-batches",
        summary=say(
            "{left} had left the loop and waits in {group}; {inside} is still inside it and "
            "waits in {other}: they had different numbers of batches.",
            left=ranks_text(left),
            group=group_text(one.stall.tag),
            inside=ranks_text(inside),
            other=group_text(other.stall.tag),
        ),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(),
        next_step=_next_step(),
        origin=origin_of(one.program, left, group=group_of(one)),
        collective=collective_of(one),
        waiting_ranks=inside,
        started_at=began(job, one),
        exonerated=(
            Exonerated(
                "time-out-too-short",
                say("a longer time-out changes nothing: neither side can go on without the other"),
                (one.stall.first.place,),
            ),
            *no_network_trouble(job),
            *boilerplate(job),
        ),
        excerpts=(
            excerpt(one.stall.first, "origin"),
            *excerpts_of(other),
            *_end_lines(ends),
        ),
    )


def _numel(blocked: Blocked) -> int:
    return blocked.stall.work.numel_in or 1


def _op(blocked: Blocked) -> str:
    """The operation, with its usual name beside torch's internal one."""
    op = blocked.stall.work.op
    usual = {"_ALLGATHER_BASE": "all-gather", "_REDUCE_SCATTER_BASE": "reduce-scatter"}.get(op)
    seq = blocked.stall.work.seq
    shown = f"{op} {seq}" if seq is not None else op
    return f"{shown} ({usual})" if usual else shown


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g}"


def _end_evidence(
    job: Job, ends: list[LoopEnd], left: tuple[int, ...], inside: tuple[int, ...]
) -> list[Evidence]:
    """That the side which is out of the loop had reached its end, and the other had not."""
    found: list[Evidence] = []
    own = [end for end in ends if end.rank in left]
    theirs = {end.rank for end in ends if end.rank in inside and _same(end, own)}
    unranked = [end for end in ends if end.rank is None]
    if own and not theirs:
        found.append(
            evidence(
                say(
                    "rank {rank} reached the end of the loop and the others did not: {quote}",
                    rank=own[0].rank or 0,
                    quote=own[0].fact.quote[-160:],
                ),
                STRONG,
                own[0].fact,
            )
        )
    elif unranked and not own:
        found.append(
            evidence(
                say(
                    "a loop ended just before the wait: {quote}",
                    quote=unranked[0].fact.quote[-160:],
                ),
                FAIR,
                unranked[0].fact,
            )
        )
    later = _going_on(job, own[0].fact if own else None, inside)
    if later is not None:
        found.append(
            evidence(
                say("another rank was still in it: {quote}", quote=later.quote[-160:]), WEAK, later
            )
        )
    return found


def _same(end: LoopEnd, own: list[LoopEnd]) -> bool:
    """Whether another rank's end is of the same kind of loop."""
    if not own:
        return False
    first = own[0].fact
    if isinstance(first, Phase) and isinstance(end.fact, Phase):
        return first.kind == end.fact.kind
    return type(first) is type(end.fact)


def _going_on(job: Job, end: Fact | None, inside: tuple[int, ...]) -> Fact | None:
    """A later line of the same phase by a rank of the other side."""
    if end is None:
        return None
    for fact in job.facts:
        if isinstance(fact, (Phase, Progress)) and fact.speaker.rank in inside:
            unfinished = not fact.finished if isinstance(fact, Phase) else fact.done != fact.total
            if unfinished and job.chronology.before(end, fact):
                return fact
    return None


def _saving(job: Job, left: tuple[int, ...], first: Fact) -> list[Evidence]:
    """That the side which left was saving: a branch, not a loop's end."""
    last: Phase | None = None
    for phase in job.all(Phase):
        if phase.speaker.rank in left and job.chronology.before(phase, first) is not False:
            last = phase
    if last is None or last.kind != "save" or last.finished:
        return []
    return [
        evidence(
            say("that rank was saving: {quote}", quote=last.quote[-160:]),
            STRONG,
            last,
        )
    ]


def _deaths(job: Job, blocked: Blocked, waiting: set[int]) -> list[Evidence]:
    """Deaths before, of ranks that do not wait themselves."""
    alive = {
        item.place
        for item in died_before(job, blocked)
        for death in job.deaths
        if death.fact.place == item.place and death.rank in waiting
    }
    return [item for item in died_before(job, blocked) if item.place not in alive]


def _end_lines(ends: list[LoopEnd]) -> list[Excerpt]:
    return [excerpt(end.fact, "origin") for end in ends[:1]]


# --- one group, two operations -----------------------------------------------------------------


def _diverged(job: Job, divergence: Divergence) -> Finding | None:
    """One side behind the loop, the other inside: a small operation and a large one."""
    small = [side for side in divergence.sides if side.small]
    large = [side for side in divergence.sides if not side.small]
    evaluating = [s for s in divergence.sides if s.doing is not None and s.doing.kind == "evaluate"]
    if not small or not large:
        return None
    left = tuple(sorted({rank for side in small for rank in side.ranks}))
    inside = tuple(sorted({rank for side in large for rank in side.ranks}))
    ends = loop_ends(job, divergence.fact)
    ended = [*_end_evidence(job, ends, left, inside), *behind_evidence(divergence)]
    if not ended and not evaluating:
        return None
    support = [evidence(_apart(divergence, small[0], large[0]), STRONG, divergence.fact), *ended]
    if len(evaluating) == len(divergence.sides):
        support.append(evidence(say("both sides are in the evaluation"), FAIR, evaluating[0].fact))
    blocked = divergence.blocked
    against = [
        *_saving(job, left, divergence.fact),
        *network_before(job, divergence.fact),
    ]
    for side in small:
        if side.doing is not None and side.doing.kind in ("save", "reward", "generate"):
            against.append(
                evidence(
                    say("{who} came from {frame}", who=side.who, frame=side.doing.shown),
                    STRONG,
                    side.fact,
                )
            )
    if blocked is not None:
        support.extend(began_evidence(job, blocked))
        against.extend(died_before(job, blocked))
    return Finding(
        cause="uneven-batches",
        summary=_one_group_summary(left, inside),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(),
        next_step=_next_step(),
        origin=_origin(divergence, left),
        collective=Collective(small[0].op, divergence.seq, small[0].numel),
        waiting_ranks=inside,
        started_at=began(job, blocked) if blocked is not None else None,
        exonerated=(*no_network_trouble(job), *boilerplate(job)),
        excerpts=(
            excerpt(small[0].fact, "origin"),
            excerpt(large[0].fact, "messenger"),
            *_end_lines(ends),
        ),
    )


def _apart(divergence: Divergence, small: Side, large: Side) -> Text:
    """Which operations the two sides were in."""
    if divergence.seq is None:
        return say(
            "{who} is in {op}, as behind a loop, {others} in {other}, as inside it",
            who=first_of_two(small),
            op=small.shown,
            others=large.who,
            other=large.shown,
        )
    return say(
        "at number {seq} {who} ran {op}, as behind a loop, and {others} ran {other}, as inside it",
        seq=divergence.seq,
        who=small.who,
        op=small.shown,
        others=large.who,
        other=large.shown,
    )


def _origin(divergence: Divergence, left: tuple[int, ...]) -> Origin:
    group = group_of(divergence.blocked) if divergence.blocked is not None else None
    return origin_of(divergence.program, left, group=group)


def _one_group_summary(left: tuple[int, ...], inside: tuple[int, ...]) -> Text:
    if not left or not inside:
        return say("Some ranks had left a loop that others were still in.")
    return say(
        "{left} had left the loop while {inside} was still inside it: they had different numbers "
        "of batches.",
        left=ranks_text(left),
        inside=ranks_text(inside),
    )


# --- ranks that had ended ----------------------------------------------------------------------


def _ended(job: Job, blocked: Blocked) -> Finding | None:
    """Some ranks ended their training well while others still wait in a step's operation."""
    stall = blocked.stall
    waiters = tuple(sorted(rank for rank in stall.waiters if rank >= 0))
    ended = [
        phase
        for phase in job.all(Phase)
        if phase.kind == "end"
        and phase.finished
        and phase.speaker.rank is not None
        and phase.speaker.rank in blocked.absent
        and job.chronology.before(phase, stall.first) is not False
    ]
    if not ended or not waiters or stall.is_first_collective:
        return None
    ranks = tuple(sorted({p.speaker.rank for p in ended if p.speaker.rank is not None}))
    support = [
        evidence(
            say(
                "{ranks} had ended the training before: {quote}",
                ranks=ranks_text(ranks),
                quote=ended[0].quote[-160:],
            ),
            STRONG,
            ended[0],
        ),
        evidence(
            say(
                "{ranks} still waits in {op}, inside a step",
                ranks=ranks_text(waiters),
                op=_op(blocked),
            ),
            FAIR if GATHERS.search(stall.work.op) or not stall.looks_like_barrier else 0.0,
            stall.first,
        ),
        *began_evidence(job, blocked),
    ]
    return Finding(
        cause="uneven-batches",
        summary=_one_group_summary(ranks, waiters),
        support=tuple(support),
        against=tuple(died_before(job, blocked)),
        fixes=_fixes(),
        next_step=_next_step(),
        origin=origin_of(blocked.program, ranks, group=group_of(blocked)),
        collective=collective_of(blocked),
        waiting_ranks=waiters,
        started_at=began(job, blocked),
        exonerated=(*no_network_trouble(job), *boilerplate(job)),
        excerpts=(excerpt(ended[0], "origin"), *excerpts_of(blocked)),
    )


# --- shared ------------------------------------------------------------------------------------


def _next_step() -> Text:
    return say(
        "print len(dataloader) and the last batch index on every rank; take stacks of all ranks at "
        "the next hang: some behind the loop, others inside it prove it"
    )


def _fixes() -> tuple[Fix, ...]:
    return (
        Fix(
            say(
                "synchronise the loop exit: all-reduce a flag (has_data, MIN) at the top of each "
                "iteration, and leave the loop on all ranks together"
            )
        ),
        Fix(
            say(
                "give every rank an equal number of batches: drop_last=True, or pad the last ones "
                "(DistributedSampler does, dynamic batches and streamed data sets do not)"
            )
        ),
        Fix(say("for DDP: run the loop inside Join (torch.distributed.algorithms.join)")),
    )


CAUSE = Cause(
    id="uneven-batches",
    family="the ranks diverge",
    title=say("ranks have different numbers of batches"),
    about=say(
        "One rank's loader runs out before the others': that rank goes on to what follows the loop "
        "(the reduction of a loss, a barrier, the next epoch), while the others gather parameters "
        "or reduce gradients of one more batch. Both wait for ever, often in two process groups, "
        "so the log shows two unlike time-outs whose numbers have nothing to do with each other."
    ),
    shows=(
        say(
            "one rank in an operation of few elements, the others in an all-gather or a reduction "
            "of gradients, begun at the same time, often in different groups"
        ),
        say("at the end of an epoch or an evaluation, with dynamic batches or a streamed data set"),
        say("one rank's log says that its loader is exhausted"),
    ),
    decide=say("the number of batches on every rank"),
    remedies=(
        say("leave the loop on all ranks together"),
        say("pad, or drop the last batch"),
        say("the same number of batches by construction"),
    ),
    look_alikes=(
        LookAlike("rank-dependent-branch", say("save or log frames on one side, no loop ended")),
        LookAlike(
            "slow-checkpoint-or-eval", say("the missing rank is in no collective at all and alive")
        ),
        LookAlike("data-dependent-graph", say("all ranks are inside the same step")),
    ),
    examine=examine,
    sources=(
        "PyTorch, DDP uneven inputs (torch.distributed.algorithms.join)",
        "prime-rl issue 2515",
    ),
)
