"""Who waited and who was missing, whatever told it: time-outs, barriers, desync reports, stacks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unstall.causes.activity import SERVING, Standing, standing
from unstall.causes.base import FAIR, STRONG, WEAK, collective_of, evidence, group_of, ranks_text
from unstall.causes.reasons import absence, began, began_evidence, excerpts_of, waiting
from unstall.job import Blocked, Job
from unstall.model.facts import BarrierFailure, DesyncReport, Fact, Moment, Progress
from unstall.model.findings import Collective, Evidence, Excerpt, ProcessGroup
from unstall.model.plan import Program
from unstall.model.text import say

#: Two ranks that began to wait within so many seconds parted at one place of the program: the
#: step of a large model, with its gathers and reductions, takes less.
TOGETHER = 120.0


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that waited, and ranks that they waited for.

    Attributes:
        first: the fact that tells of the wait first.
        waiters, missing: global ranks; ``missing`` is empty where it cannot be told.
        program: whose ranks they are.
        blocked: the stall, where a watchdog told.
        began: when the wait began.
        limit_ms: the time-out that applied.
        support: who waited, who was missing, since when.
        seen: stacks of the ranks.
        told: ``time-out``, ``barrier``, ``desync`` or ``stacks``.
    """

    first: Fact
    waiters: tuple[int, ...]
    missing: tuple[int, ...]
    program: Program | None
    blocked: Blocked | None = None
    began: Moment | None = None
    limit_ms: int | None = None
    support: tuple[Evidence, ...] = ()
    seen: Standing = Standing()
    told: str = "time-out"

    @property
    def serving(self) -> bool:
        """Whether it is an inference program's."""
        return self.program is not None and self.program.role in SERVING

    @property
    def few_missing(self) -> bool:
        """Whether few ranks are missing and many wait: where one is late."""
        return 0 < len(self.missing) <= max(1, len(self.waiters))

    @property
    def collective(self) -> Collective | None:
        """The operation, where it is known."""
        return collective_of(self.blocked) if self.blocked is not None else None

    @property
    def group(self) -> ProcessGroup | None:
        """The group, where it is known."""
        return group_of(self.blocked) if self.blocked is not None else None

    @property
    def excerpts(self) -> tuple[Excerpt, ...]:
        """The lines of the wait."""
        if self.blocked is not None:
            return tuple(excerpts_of(self.blocked))
        return (Excerpt(self.first.place, self.first.quote, "messenger"),)


def scenes(job: Job) -> list[Scene]:
    """The waits of a job's training programs, the one that began first before the others."""
    seen = standing(job)
    barrier = _of_barrier(job, seen)
    found = [_of_stall(job, blocked, seen) for blocked in job.blocked]
    found = [scene for scene in found if not scene.serving]
    if barrier is not None and not any(s.blocked and s.blocked.stall.work.op for s in found):
        # gloo's own time-out below the barrier's names neither the operation nor who was absent
        return [barrier]
    if found:
        return found
    told = barrier or _of_desync(job, seen) or _of_stacks(job, seen)
    return [told] if told is not None else []


def _of_stall(job: Job, blocked: Blocked, seen: Standing) -> Scene:
    stall = blocked.stall
    waiters = tuple(sorted(rank for rank in stall.waiters if rank >= 0))
    support = [waiting(blocked), *absence(blocked), *began_evidence(job, blocked)]
    missing = blocked.absent
    # that a rank is missing is what all causes of a late, a strayed or a dead rank have in common
    for report in job.all(DesyncReport)[:1]:
        lagging = [rank for rank in report.lagging if rank not in waiters]
        if lagging:
            missing = tuple(sorted(lagging))
            support.append(_lagging(report, lagging, FAIR))
    return Scene(
        first=stall.first,
        waiters=waiters,
        missing=missing,
        program=blocked.program,
        blocked=blocked,
        began=began(job, blocked),
        limit_ms=stall.timeout_ms,
        support=capped(support, FAIR),
        seen=seen,
    )


def capped(items: Sequence[Evidence], most: float) -> tuple[Evidence, ...]:
    """Evidence for one conclusion, its weights scaled so that together they are at most that."""
    total = sum(item.weight for item in items)
    scale = min(1.0, most / total) if total > 0 else 1.0
    return tuple(
        msgspec.structs.replace(item, weight=round(item.weight * scale, 2)) for item in items
    )


def _lagging(report: DesyncReport, ranks: list[int], weight: float) -> Evidence:
    return evidence(
        say(
            "PyTorch's desync report names {ranks} as not having joined the operation",
            ranks=ranks_text(ranks),
        ),
        weight,
        report,
    )


def _of_barrier(job: Job, seen: Standing) -> Scene | None:
    failure = next((one for one in job.all(BarrierFailure) if one.absent), None)
    if failure is None:
        return None
    support = evidence(
        say(
            "a monitored barrier names who did not come: {ranks}",
            ranks=ranks_text(failure.absent),
        ),
        FAIR,
        failure,
    )
    program = job.owner(failure)
    everyone = job.ranks_of(program)
    at = job.chronology.moment_of(failure)
    if at is not None and failure.waited_ms is not None:
        at = job.chronology.with_year(at.earlier(failure.waited_ms))
    return Scene(
        first=failure,
        waiters=tuple(sorted(everyone - set(failure.absent))),
        missing=failure.absent,
        program=program,
        began=at if failure.waited_ms is not None else None,
        limit_ms=failure.waited_ms,
        support=(support,),
        seen=seen,
        told="barrier",
    )


def _of_desync(job: Job, seen: Standing) -> Scene | None:
    report = next((one for one in job.all(DesyncReport) if one.lagging), None)
    if report is None:
        return None
    program = job.owner(report)
    waiters = {rank for rank, state, *_ in report.states if state == "started"}
    return Scene(
        first=report,
        waiters=tuple(sorted(waiters - set(report.lagging))),
        missing=report.lagging,
        program=program,
        support=(_lagging(report, list(report.lagging), FAIR),),
        seen=seen,
        told="desync",
    )


def _of_stacks(job: Job, seen: Standing) -> Scene | None:
    if not seen.split:
        return None
    first = seen.together[0].stack
    program = job.owner(first)
    who = seen.apart[0].who if len(seen.apart) == 1 else say("{count} ranks", count=len(seen.apart))
    return Scene(
        first=first,
        waiters=seen.waiting,
        missing=seen.missing,
        program=program if program is not None else job.trainer,
        support=(
            evidence(
                say(
                    "by their stacks {count} processes wait in a collective and {who} is elsewhere",
                    count=len(seen.together),
                    who=who,
                ),
                WEAK,
                first,
            ),
        ),
        seen=seen,
        told="stacks",
    )


def outlasts(bar: Progress, scene: Scene) -> bool:
    """Whether a bar had run about as long as the others waited, as a busy rank's has by then.

    A bar that stopped long before shows no work that went on: it stands as all ranks left it.
    """
    if bar.elapsed is None or not scene.limit_ms or scene.told == "stacks":
        return True
    return bar.elapsed * 1000 >= 0.5 * scene.limit_ms


def elsewhere(job: Job, blocked: Blocked) -> list[tuple[Blocked, tuple[int, ...]]]:
    """Other groups of the same program in which this one's missing ranks wait.

    Such a rank is not late: it went another way. Only times are compared, never the sequence
    numbers of two groups.
    """
    found: list[tuple[Blocked, tuple[int, ...]]] = []
    mine = {rank for rank in blocked.stall.waiters if rank >= 0}
    for other in job.blocked:
        if other is blocked or other.program is not blocked.program:
            continue
        if other.stall.tag == blocked.stall.tag and other.stall.timeout_ms == (
            blocked.stall.timeout_ms
        ):
            continue
        theirs = {rank for rank in other.stall.waiters if rank >= 0} - mine
        if not theirs:
            continue
        gap = seconds_apart(blocked, other)
        if gap is not None and gap > TOGETHER:
            continue
        if (blocked.stall.began is None) != (other.stall.began is None):
            continue  # one torch stamps all its lines or none: these are two runs
        found.append((other, tuple(sorted(theirs))))
    return found


def seconds_apart(one: Blocked, other: Blocked) -> float | None:
    """Seconds between the beginnings of two waits; ``None`` where a time is missing."""
    first, second = one.stall.began, other.stall.began
    if first is None or second is None:
        return None
    return abs(first.seconds_since(second))


def waits_elsewhere(job: Job, scene: Scene) -> list[Evidence]:
    """That the missing ranks wait in another group: they went another way and are not late."""
    if scene.blocked is None:
        return []
    for other, ranks in elsewhere(job, scene.blocked):
        if set(scene.missing) & set(ranks):
            return [
                evidence(
                    say(
                        "{ranks} waits in another process group, begun at the same time: it went "
                        "another way and is not late",
                        ranks=ranks_text(ranks),
                    ),
                    STRONG + STRONG,
                    other.stall.first,
                )
            ]
    return []
