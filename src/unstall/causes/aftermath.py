"""What a death left behind: the waits, closed connections, ends and signals that it explains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    WEAK,
    collective_of,
    evidence,
    excerpt,
    group_of,
    origin_of,
    ranks_text,
)
from unstall.causes.reasons import (
    boilerplate,
    clock,
    excerpts_of,
    rank_behind,
    waiting,
)
from unstall.job import Blocked, Job
from unstall.model.facts import (
    DriverEvent,
    EngineNotice,
    Fact,
    MemoryKill,
    Moment,
    NcclError,
    PeerLost,
    ProcessEnd,
    SchedulerEvent,
    SignalSent,
)
from unstall.model.findings import (
    Collective,
    Evidence,
    Excerpt,
    Exonerated,
    Finding,
    Fix,
    Origin,
    ProcessGroup,
)
from unstall.model.plan import Program
from unstall.model.text import Text, say

#: A wait that began within so many seconds after a death is the wait for the dead.
CAUSED = 900.0
#: Clocks of ranks and the buffering of their output differ by about so many seconds.
SLACK = 90.0


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """A death and its consequences.

    Attributes:
        fact: what tells of the death.
        program: whose process it was.
        ranks: its global ranks; empty where they cannot be told.
        blocked: the stall that it explains.
        messengers: ranks that only report it, by closed connections and remote errors.
        support, against: whether the consequences fit.
        excerpts, timeline, exonerated: what to show of them.
    """

    fact: Fact
    program: Program | None
    ranks: tuple[int, ...] = ()
    blocked: Blocked | None = None
    messengers: tuple[int, ...] = ()
    support: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    timeline: tuple[Evidence, ...] = ()
    exonerated: tuple[Exonerated, ...] = ()
    began: Moment | None = None

    @property
    def waiting(self) -> tuple[int, ...]:
        """Ranks that only waited or only report."""
        stuck = {r for r in self.blocked.stall.waiters if r >= 0} if self.blocked else set()
        return tuple(sorted((stuck | set(self.messengers)) - set(self.ranks)))

    @property
    def collective(self) -> Collective | None:
        """The operation that the others waited in."""
        return collective_of(self.blocked) if self.blocked is not None else None

    @property
    def group(self) -> ProcessGroup | None:
        """The group that they waited in."""
        return group_of(self.blocked) if self.blocked is not None else None

    def origin(self, role: str = "trainer", group: ProcessGroup | None = None) -> Origin:
        """The dead ranks as the origin."""
        return origin_of(self.program, self.ranks, role=role, group=group or self.group)

    def finding(
        self,
        cause: str,
        summary: Text,
        support: Sequence[Evidence],
        against: Sequence[Evidence] = (),
        *,
        fixes: Sequence[Fix] = (),
        next_step: Text | None = None,
        origin: Origin | None = None,
        exonerated: Sequence[Exonerated] = (),
        excerpts: Sequence[Excerpt] = (),
        shown_as: str = "origin",
        ceiling: float = 0.97,
    ) -> Finding:
        """The claim that this death is what happened, with its consequences.

        ``shown_as`` is the role of the fact's line among the excerpts: a watchdog's line can be all
        that tells of a death and is still a messenger's.
        """
        ruled_out = {item.id: item for item in (*self.exonerated, *exonerated) if item.id != cause}
        return Finding(
            cause=cause,
            summary=summary,
            support=(*support, *self.support),
            against=(*against, *self.against),
            fixes=tuple(fixes),
            next_step=next_step,
            origin=origin or self.origin(),
            collective=self.collective,
            waiting_ranks=self.waiting,
            started_at=self.began,
            exonerated=tuple(ruled_out.values()),
            excerpts=(excerpt(self.fact, shown_as), *excerpts, *self.excerpts),
            timeline=self.timeline,
            ceiling=ceiling,
        )


def aftermath(job: Job, fact: Fact, ranks: Iterable[int] = ()) -> Aftermath:
    """The consequences of a death.

    Args:
        job: the job.
        fact: what tells of the death, the earliest line of it.
        ranks: the dead ranks as far as lines tell; else they are deduced from who is missing.
    """
    program = job.owner(fact)
    dead = tuple(sorted(set(ranks)))
    blocked = _stall_of(job, program, dead)
    if program is None and blocked is not None:
        program = blocked.program
    support: list[Evidence] = []
    against: list[Evidence] = []
    if blocked is not None:
        support.append(waiting(blocked))
        dead = _missing(blocked, dead, support, against)
        _in_time(job, fact, blocked, dead, support, against)
    elif dead:
        against.extend(_waited_first(job, fact, program, dead))
    if not dead:
        dead = _by_exit(job, support)
    peers = _messengers(job, fact, dead, support)
    return Aftermath(
        fact=fact,
        program=program,
        ranks=dead,
        blocked=blocked,
        messengers=tuple(sorted({r for p in peers if (r := rank_behind(job, p)) is not None})),
        support=tuple(support),
        against=tuple(against),
        excerpts=tuple(_excerpts(job, fact, blocked, peers)),
        timeline=tuple(_timeline(job, fact, blocked, peers)),
        exonerated=tuple(_exonerated(job, dead, peers)),
        began=_began(job, fact, blocked),
    )


def _stall_of(job: Job, program: Program | None, dead: Sequence[int]) -> Blocked | None:
    for blocked in job.blocked:
        if None not in (program, blocked.program) and blocked.program is not program:
            continue
        if dead and set(dead) <= set(blocked.stall.waiters):
            continue
        return blocked
    return None


def _waited_first(
    job: Job, fact: Fact, program: Program | None, dead: Sequence[int]
) -> list[Evidence]:
    """That the rank had timed out with the others before: its end is a consequence of that."""
    for blocked in job.blocked:
        if None not in (program, blocked.program) and blocked.program is not program:
            continue
        mine = next((t for r, t in blocked.stall.waiters.items() if r in dead), None)
        if mine is not None and job.chronology.before(mine, fact) is True:
            return [
                evidence(
                    say("the same rank had timed out in a collective before: it waited itself"),
                    STRONG + FAIR,
                    mine,
                )
            ]
    return []


def _missing(
    blocked: Blocked, dead: tuple[int, ...], support: list[Evidence], against: list[Evidence]
) -> tuple[int, ...]:
    """The dead among the missing: known ranks confirmed, or one deduced by absence."""
    first = blocked.stall.first
    absent = blocked.absent
    if dead:
        gone = [rank for rank in dead if rank not in blocked.stall.waiters]
        exact = bool(absent) and set(gone) == set(absent)
        support.append(
            evidence(
                say(
                    "the others waited for {ranks}, which did not time out",
                    ranks=ranks_text(gone),
                ),
                STRONG if exact else FAIR,
                first,
            )
        )
        return dead
    if 0 < len(absent) <= 2:
        support.append(
            evidence(
                say(
                    "deduced by absence: of the group only {ranks} did not time out",
                    ranks=ranks_text(absent),
                ),
                FAIR,
                first,
            )
        )
        return absent
    if blocked.everyone_waits:
        against.append(
            evidence(
                say("every rank of the group is in the operation: nobody was missing"),
                STRONG,
                first,
            )
        )
    return ()


def _in_time(
    job: Job,
    fact: Fact,
    blocked: Blocked,
    dead: Sequence[int],
    support: list[Evidence],
    against: list[Evidence],
) -> None:
    """Whether the wait began when the process died."""
    began = blocked.stall.began
    if fact.moment is not None and began is not None:
        late = began.seconds_since(fact.moment)
        hours = _other_clock(fact, late)
        if hours:
            support.append(
                evidence(
                    say(
                        "the node's own clock seems to be {hours} h from the log's (a container "
                        "counts in UTC): corrected for that, the wait of the others began then",
                        hours=f"{hours:+d}",
                    ),
                    FAIR,
                    fact,
                )
            )
        elif -SLACK <= late <= CAUSED:
            support.append(
                evidence(
                    say(
                        "the wait of the others began at {time}, within {seconds} s of it",
                        time=clock(began),
                        seconds=round(abs(late)),
                    ),
                    STRONG,
                    blocked.stall.first,
                )
            )
        elif late < -SLACK:
            against.append(
                evidence(
                    say(
                        "the others waited since {time}, before it: it does not explain why",
                        time=clock(began),
                    ),
                    DECISIVE if not dead else STRONG,
                    blocked.stall.first,
                )
            )
        return
    if job.chronology.before(blocked.stall.first, fact) is True and not dead:
        # a node's kernel and its scheduler are asked afterwards: their lines are pasted below
        weight = WEAK if isinstance(fact, (MemoryKill, DriverEvent)) else STRONG
        against.append(evidence(say("it stands after the time-outs"), weight, blocked.stall.first))
    elif job.chronology.before(fact, blocked.stall.first) is True:
        support.append(evidence(say("it stands before the time-outs of the others"), WEAK, fact))


def _other_clock(fact: Fact, late: float) -> int:
    """By how many hours the clock of a kernel's line is ahead of a log's, if that explains all.

    ``dmesg -T`` and Kubernetes' nodes tell local time, most containers UTC.
    """
    if not isinstance(fact, (MemoryKill, DriverEvent)) or -SLACK <= late <= CAUSED:
        return 0
    fitting = (h for h in range(-14, 15) if -SLACK <= late + h * 3600 <= CAUSED)
    return next(fitting, 0)


def _by_exit(job: Job, support: list[Evidence]) -> tuple[int, ...]:
    """The one rank that ended by itself, where all others were stopped by signals."""
    ends = [end for end in job.all(ProcessEnd) if end.rank is not None and end.exit_code]
    own = {e.rank for e in ends if (e.exit_code or 0) > 0}
    if len(own) != 1 or len(ends) < 2:
        return ()
    end = next(e for e in ends if e.rank in own)
    support.append(
        evidence(
            say(
                "rank {rank} ended with exit code {code}, the others by signals",
                rank=end.rank or 0,
                code=end.exit_code or 0,
            ),
            WEAK,
            end,
        )
    )
    return (end.rank or 0,)


def _messengers(job: Job, fact: Fact, dead: Sequence[int], support: list[Evidence]) -> list[Fact]:
    """Ranks that only report: closed connections and remote errors."""
    found: list[Fact] = [e for e in job.all(NcclError) if e.result == "ncclRemoteError"]
    found.extend(lost for lost in job.all(PeerLost) if not lost.remote_error)
    found = [
        one
        for one in found
        if one.speaker.rank not in dead
        and job.chronology.before(one, fact) is not True
        and job.owner(one) in (None, job.owner(fact))
    ]
    if not found:
        return []
    ranks = sorted({r for one in found if (r := rank_behind(job, one)) is not None})
    remote = next((one for one in found if isinstance(one, NcclError)), None)
    text = (
        say(
            "a lost peer (ncclRemoteError) is all that {who} report: messengers of this death, "
            "no fault of the network",
            who=ranks_text(ranks) if ranks else say("the others"),
        )
        if remote is not None
        else say(
            "a closed connection is all that {who} report: messengers of this death",
            who=ranks_text(ranks) if ranks else say("the others"),
        )
    )
    support.append(evidence(text, FAIR, remote or found[0]))
    return found


def _consequences(job: Job, fact: Fact) -> list[Fact]:
    """Signals and scheduler's words that came after."""
    found: list[Fact] = [
        *[signal for signal in job.all(SignalSent) if not signal.received][:1],
        *job.all(SchedulerEvent)[:1],
        *[n for n in job.all(EngineNotice) if n.kind in ("engine-dead", "worker-died")][:1],
    ]
    return [one for one in found if one is not fact and job.chronology.before(fact, one) is True]


def _excerpts(
    job: Job, fact: Fact, blocked: Blocked | None, peers: Sequence[Fact]
) -> list[Excerpt]:
    found = excerpts_of(blocked) if blocked is not None else []
    found.extend(excerpt(peer, "messenger") for peer in peers[:4])
    found.extend(excerpt(one, "consequence") for one in _consequences(job, fact))
    found.extend(excerpt(end, "consequence") for end in job.all(ProcessEnd)[:2] if end is not fact)
    return found


def _timeline(
    job: Job, fact: Fact, blocked: Blocked | None, peers: Sequence[Fact]
) -> list[Evidence]:
    found = [evidence(say("the process fails: {quote}", quote=fact.quote[:120]), 0.0, fact)]
    if blocked is not None:
        found.append(
            evidence(say("the watchdogs of the others report it"), 0.0, blocked.stall.first)
        )
    if peers:
        found.append(evidence(say("peers report a lost connection"), 0.0, peers[0]))
    for one in _consequences(job, fact):
        if isinstance(one, SchedulerEvent):
            text = say("the scheduler ends the job ({kind}): a consequence", kind=one.kind)
        elif isinstance(one, SignalSent):
            text = say(
                "the launcher sends {signal} to the survivors: a consequence", signal=one.signal
            )
        else:
            text = say("the front end notices that its engine is gone: a consequence")
        found.append(evidence(text, 0.0, one))
    return found


def _began(job: Job, fact: Fact, blocked: Blocked | None) -> Moment | None:
    moment = fact.moment
    if moment is None and blocked is not None:
        moment = blocked.stall.began
    return job.chronology.with_year(moment or job.chronology.moment_of(fact))


def _exonerated(job: Job, dead: Sequence[int], peers: Sequence[Fact]) -> list[Exonerated]:
    found = boilerplate(job)
    if peers:
        found.append(
            Exonerated(
                "network-transport",
                say("the remote errors and closed connections came from a peer that had died"),
                (peers[0].place,),
            )
        )
    aborted = next((end for end in job.all(ProcessEnd) if end.exit_code == -6), None)
    if aborted is not None:
        found.append(
            Exonerated(
                "host-oom",
                say(
                    "exit code -6 is SIGABRT: the process ended itself; a kill for host memory "
                    "would be -9"
                ),
                (aborted.place,),
            )
        )
    blamed = next(
        (
            end
            for end in job.all(ProcessEnd)
            if end.first and end.rank is not None and dead and end.rank not in dead
        ),
        None,
    )
    if blamed is not None:
        found.append(
            Exonerated(
                "launcher-report",
                say(
                    "the launcher's “first observed failure” is rank {rank}: the first end that it "
                    "saw, not the first failure",
                    rank=blamed.rank or 0,
                ),
                (blamed.place,),
            )
        )
    return found
