"""``rank-dependent-branch``: one rank took a branch with a collective that the others did not."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import frames_of_failed, standing
from unstall.causes.base import (
    DECISIVE,
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
    Divergence,
    Side,
    divergences,
    left_the_loop,
    splits,
)
from unstall.causes.further_on import behind_the_loop
from unstall.causes.reasons import (
    absence,
    began,
    began_evidence,
    boilerplate,
    died_before,
    excerpts_of,
    network_before,
    no_network_trouble,
    waiting,
)
from unstall.job import Blocked, Job
from unstall.model.facts import Phase
from unstall.model.findings import Collective, Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say

#: Work that a condition on the rank, the time or a local metric decides on.
BRANCHES = ("save", "evaluate", "metrics", "reward", "generate")
STEPS = ("gradients", "forward")


def examine(job: Job) -> Iterable[Finding]:
    """A claim from different operations at one number, else from one rank alone in an operation."""
    for divergence in divergences(job, standing(job)):
        if divergence.exchanges or (divergence.same_op and not divergence.small_and_large):
            continue
        yield _diverged(job, divergence)
        return
    for blocked in job.blocked:
        if blocked.program is None or blocked.program.role == "trainer":
            finding = _alone(job, blocked)
            if finding is not None:
                yield finding
                return


# --- different operations at one number --------------------------------------------------------


def _diverged(job: Job, divergence: Divergence) -> Finding:
    branch, rest = _branch_side(divergence)
    against = _loop_left(job, divergence, branch, rest)
    support = [*_facts(divergence), *_work(divergence, branch, told=not against)]
    if not divergence.small_and_large and branch.doing is None and divergence.told != "detail":
        against.append(
            evidence(
                say(
                    "both operations exchange parts of the model: ranks that computed with "
                    "different modules look so"
                ),
                FAIR,
                divergence.fact,
            )
        )
    if branch.doing is None or branch.doing.kind not in BRANCHES:
        support.extend(_said(job, branch, divergence))
    if divergence.blocked is not None:
        support.extend(began_evidence(job, divergence.blocked))
        against.extend(died_before(job, divergence.blocked))
    against.extend(network_before(job, divergence.fact))
    group = group_of(divergence.blocked) if divergence.blocked is not None else None
    started = began(job, divergence.blocked) if divergence.blocked is not None else None
    waiters = tuple(rank for rank in divergence.all_ranks if rank not in branch.ranks)
    return Finding(
        cause="rank-dependent-branch",
        summary=_summary(branch, rest, divergence),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(branch),
        next_step=_next_step(branch),
        origin=origin_of(divergence.program, branch.ranks, group=group),
        collective=Collective(branch.op, divergence.seq, branch.numel),
        waiting_ranks=waiters,
        started_at=started or job.chronology.with_year(divergence.fact.moment),
        exonerated=(*_exonerated(job, divergence), *no_network_trouble(job), *boilerplate(job)),
        excerpts=(
            excerpt(branch.fact, "origin"),
            *(excerpt(side.fact, "messenger") for side in rest[:3]),
        ),
    )


def _branch_side(divergence: Divergence) -> tuple[Side, list[Side]]:
    """The side that left the common way: by its frames, then by its small operation, then few."""

    def order(side: Side) -> tuple[bool, bool, bool, int]:
        doing = side.doing.kind if side.doing is not None else None
        return (doing not in BRANCHES, doing in STEPS, not side.small, len(side.ranks))

    sides = sorted(divergence.sides, key=order)
    return sides[0], sides[1:]


def _facts(divergence: Divergence) -> list[Evidence]:
    one, other = divergence.sides[0], divergence.sides[1]
    # time-outs name the operations and not why the ranks parted; DETAIL comes with tracebacks
    weight = DECISIVE if divergence.told == "detail" else STRONG
    if divergence.seq is None:
        text = say(
            "{who} is in {op}, {others} in {other}: collectives of different work",
            who=one.who,
            op=_with_frame(one),
            others=other.who,
            other=_with_frame(other),
        )
    else:
        text = say(
            "at number {seq} of one process group {who} ran {op} and {others} ran {other}",
            seq=divergence.seq,
            who=one.who,
            op=one.shown,
            others=other.who,
            other=other.shown,
        )
    found = [evidence(text, weight, divergence.fact)]
    if divergence.told == "detail":
        found.append(
            evidence(
                say("TORCH_DISTRIBUTED_DEBUG=DETAIL compared the ranks before the operation ran"),
                0.0,
                other.fact,
            )
        )
    return found


def _with_frame(side: Side) -> str:
    return f"{side.op} < {side.doing.shown}" if side.doing is not None else side.op


def _loop_left(job: Job, divergence: Divergence, branch: Side, rest: list[Side]) -> list[Evidence]:
    """That the side which reduces a metric, or does nothing known, had only reached a loop's end.

    A save is a branch at a loop's end too; a reduction of the loop's results is what follows it
    on every rank. With frames of such a reduction the end alone does not tell that the others
    were still inside: they must be seen there.
    """
    kind = branch.doing.kind if branch.doing is not None else None
    if kind in BRANCHES and kind != "metrics":
        return []
    further = behind_the_loop(divergence)
    if further is not None and further[0] is branch:
        return [
            evidence(
                say(
                    "it is further down in {function} than the others: it may only have left a "
                    "loop that they are in",
                    function=further[2].function,
                ),
                STRONG,
                branch.fact,
            )
        ]
    others = [rank for side in rest for rank in side.ranks]
    found = left_the_loop(job, divergence.fact, branch.ranks, others)
    if found is None or (kind == "metrics" and not found[1]):
        return []
    return [
        evidence(
            say("that rank had reached the end of its loop, the others had not"),
            STRONG,
            found[0].fact,
        )
    ]


def _work(divergence: Divergence, branch: Side, *, told: bool) -> list[Evidence]:
    """What each side was doing: a save or an evaluation on one side only.

    Args:
        divergence: where the ranks parted.
        branch: the side that left the common way.
        told: what it was doing tells of a branch.
    """
    found: list[Evidence] = []
    kinds = {side.doing.kind for side in divergence.sides if side.doing is not None}
    for side in divergence.sides:
        if side.doing is None:
            continue
        tells = told and side is branch and side.doing.kind in BRANCHES
        weight = 0.0
        if tells:
            weight = STRONG if len(kinds) > 1 or len(divergence.sides) > 1 else FAIR
        found.append(
            evidence(
                say("{who} came from {frame}", who=side.who, frame=side.doing.shown),
                weight,
                side.fact,
            )
        )
    return found


def _said(job: Job, branch: Side, divergence: Divergence) -> list[Evidence]:
    """A line of saving or evaluating of the branch's side before."""
    for phase in reversed(job.all(Phase)):
        if phase.kind not in ("save", "evaluate") or phase.finished:
            continue
        if job.chronology.before(phase, divergence.fact) is False:
            continue
        if phase.speaker.rank is None or phase.speaker.rank in branch.ranks:
            return [
                evidence(
                    say("saving or evaluating was told before: {quote}", quote=phase.quote[-160:]),
                    FAIR if phase.speaker.rank is not None else WEAK,
                    phase,
                )
            ]
    return []


def _summary(branch: Side, rest: list[Side], divergence: Divergence) -> Text:
    other = rest[0]
    if branch.doing is not None and branch.doing.kind in BRANCHES:
        return say(
            "{who} took a branch of its own: it ran {op} in {frame} while {others} ran {other}.",
            who=branch.who,
            op=branch.op,
            frame=branch.doing.shown,
            others=other.who,
            other=other.op,
        )
    del divergence
    alike = branch.op == other.op
    return say(
        "The ranks took different branches: {who} ran {op} while {others} ran {other}.",
        who=branch.who,
        op=branch.shown if alike else branch.op,
        others=other.who,
        other=other.shown if alike else other.op,
    )


def _exonerated(job: Job, divergence: Divergence) -> list[Exonerated]:
    del job
    return [
        Exonerated(
            "time-out-too-short",
            say("a longer time-out changes nothing: the ranks wait in different operations"),
            (divergence.fact.place,),
        ),
        Exonerated(
            "size-mismatch",
            say("the operations themselves differ, not only their sizes"),
            (divergence.fact.place,),
        ),
    ]


# --- one rank alone in an operation ------------------------------------------------------------


def _alone(job: Job, blocked: Blocked) -> Finding | None:
    """One rank waits in an operation that no other entered: it is the one that strayed.

    The others' own last words must say that they had not entered it, or torch's stack of the
    operation must come from a save or an evaluation: one time-out alone says nothing.
    """
    stall = blocked.stall
    waiters = tuple(sorted(rank for rank in stall.waiters if rank >= 0))
    if len(waiters) != 1 or len(blocked.absent) < 2:
        return None
    doing = frames_of_failed(job, blocked.program).get(waiters[0])
    behind = [rank for rank in stall.behind if rank in blocked.absent]
    inside = doing is not None and doing[0].kind in BRANCHES
    if not inside:
        return None
    support: list[Evidence] = [waiting(blocked), *absence(blocked)[:2]]
    if doing is not None:
        support.append(
            evidence(
                say(
                    "rank {rank} entered the operation from {frame}",
                    rank=waiters[0],
                    frame=doing[0].shown,
                ),
                STRONG,
                doing[1],
            )
        )
    if len(behind) > 1:
        support.append(
            evidence(
                say("{ranks} never entered it: one rank ran it alone", ranks=ranks_text(behind)),
                FAIR,
                stall.behind[behind[0]],
            )
        )
    else:
        support.append(
            evidence(say("only one rank timed out: it ran the operation alone"), WEAK, stall.first)
        )
    for split in splits(job)[:1]:
        support.append(
            evidence(
                say("the other ranks wait in another process group, begun at the same time"),
                FAIR,
                split.other.stall.first,
            )
        )
    frame = doing[0] if doing is not None else None
    return Finding(
        cause="rank-dependent-branch",
        summary=say(
            "{who} ran {op} that no other rank entered: a branch that only one rank took.",
            who=ranks_text(waiters),
            op=stall.work.op or "a collective",
        ),
        support=tuple(support),
        against=(*died_before(job, blocked), *network_before(job, stall.first)),
        fixes=_fixes(Side(waiters, stall.work.op, stall.work.numel_in, stall.first, None, frame)),
        next_step=say(
            "take stacks of all ranks at the next hang: the others' show which branch they took"
        ),
        origin=origin_of(blocked.program, waiters, group=group_of(blocked)),
        collective=collective_of(blocked),
        waiting_ranks=(),
        started_at=began(job, blocked),
        exonerated=(*no_network_trouble(job), *boilerplate(job)),
        excerpts=(excerpt(stall.first, "origin"), *excerpts_of(blocked)),
    )


def _next_step(branch: Side) -> Text:
    if branch.doing is not None:
        return say(
            "look at the condition that leads to {frame}: time, a local metric, a rank or a "
            "local file decide there, and ranks can disagree",
            frame=branch.doing.shown,
        )
    return say(
        "run once with TORCH_DISTRIBUTED_DEBUG=DETAIL, or with the Flight Recorder on: each "
        "rank's Python frames show the condition at which they parted"
    )


def _fixes(branch: Side) -> tuple[Fix, ...]:
    saves = branch.doing is not None and branch.doing.kind == "save"
    fixes = [
        Fix(
            say(
                "decide once: rank 0 takes the decision and broadcasts it, or the ranks all-reduce "
                "the value that decides, so that all ranks take the same branch at the same step"
            )
        ),
        Fix(
            say(
                "make the condition depend on the step count instead of time (save every N steps, "
                "not every N minutes): clocks differ between ranks"
            )
        )
        if saves
        else Fix(
            say(
                "call collectives on all ranks or on none: nothing that communicates belongs under "
                "a condition on the rank (if rank == 0), unless in a group of its own"
            )
        ),
    ]
    return tuple(fixes)


CAUSE = Cause(
    id="rank-dependent-branch",
    family="the ranks diverge",
    title=say("one rank took a branch that the others did not"),
    about=say(
        "A condition that is not the same on all ranks (a clock, a local metric, a file that only "
        "one node has, the rank itself) leads one rank into a save, an evaluation or a log "
        "that communicates, while the others begin the next step. Each then waits in an operation "
        "that the others never enter, or two different operations meet at one number."
    ),
    shows=(
        say("different operations at one SeqNum of one group"),
        say("frames of saving, evaluating or logging on one side only"),
        say("“Detected mismatch between collectives” with TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    ),
    decide=say(
        "each rank's Python frames at the hang: stacks, Flight Recorder, or "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL"
    ),
    remedies=(
        say("decide on one rank and broadcast the decision"),
        say("all-reduce the metric or the flag that decides"),
        say("conditions on steps, not on time"),
    ),
    look_alikes=(
        LookAlike(
            "slow-checkpoint-or-eval",
            say("the missing rank is in no operation at all: it saves, and would come"),
        ),
        LookAlike("uneven-batches", say("one rank has left a loop that the others are still in")),
        LookAlike(
            "data-dependent-graph",
            say("both sides are inside the same step, with gradients of different modules"),
        ),
        LookAlike("size-mismatch", say("the operation is the same and only its sizes differ")),
    ),
    examine=examine,
    sources=(
        "PyTorch torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
        "speechbrain issue 2401",
    ),
)
