"""Evidence that several causes share: who waits, who is missing, what was said just before."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.base import FAIR, STRONG, WEAK, evidence, excerpt, ranks_text
from unstall.job import Blocked, Job
from unstall.job.deaths import of_one_request
from unstall.model.facts import (
    CollectiveTimeout,
    EngineLoad,
    Fact,
    GroupStatus,
    HttpExchange,
    Moment,
    NcclError,
    NcclInit,
    NcclWarning,
    PeerLost,
    Phase,
    ProcessEnd,
    PythonException,
    Remark,
    StoreFailure,
    TrainingStep,
    WatchdogStuck,
)
from unstall.model.findings import Evidence, Excerpt, Exonerated
from unstall.model.plan import Judgement
from unstall.model.text import Text, say


def operation(fact: CollectiveTimeout) -> Text:
    """``ALLREDUCE 9391 (1 element)``: an operation as a user can find it in the log."""
    work = fact.work
    name = work.op or "collective"
    if work.seq is None:
        return say("{op}", op=name)
    if work.numel_in is None or work.numel_in > 1 << 62:
        return say("{op} {seq}", op=name, seq=work.seq)
    if work.numel_in == 1:
        return say("{op} {seq} (1 element)", op=name, seq=work.seq)
    return say("{op} {seq} ({numel} elements)", op=name, seq=work.seq, numel=work.numel_in)


def waiting(blocked: Blocked) -> Evidence:
    """Who waited, in what, for how long."""
    first = blocked.stall.first
    ranks = sorted(
        {rank for rank in blocked.stall.waiters if rank >= 0} | blocked.stall.waited_by_status
    )
    if not ranks:
        return evidence(say("a rank waited in {operation}", operation=operation(first)), 0.0, first)
    places = apart(blocked)
    if len(places) > 1:
        return evidence(
            say(
                "{ranks} waited in {operation}, {others} in {other}: they did not wait for each "
                "other in one operation",
                ranks=ranks_text(places[0][1]),
                operation=operation(places[0][0]),
                others=ranks_text(places[1][1]),
                other=operation(places[1][0]),
            ),
            0.0,
            first,
        )
    if len(ranks) == 1 and len(blocked.absent) != 1:
        return evidence(
            say(
                "{ranks} timed out in {operation}; what the other ranks did is not in the input",
                ranks=ranks_text(ranks),
                operation=operation(first),
            ),
            0.0,
            first,
        )
    return evidence(
        say(
            "{ranks} waited in {operation}: messengers, not the origin",
            ranks=ranks_text(ranks),
            operation=operation(first),
        ),
        0.0,
        first,
    )


def apart(blocked: Blocked) -> list[tuple[CollectiveTimeout, list[int]]]:
    """The different operations that ranks of a stall wait in, the first numbered first.

    Operations differ where their number, their name or their sizes do.
    """
    stall = blocked.stall
    found: list[tuple[CollectiveTimeout, list[int]]] = []
    for ranks in stall.operations.values():
        known = [rank for rank in ranks if rank >= 0]
        if known:
            found.append((stall.waiters[known[0]], known))
    found.sort(key=lambda pair: (pair[0].work.seq or 0, pair[1]))
    return found


def absence(blocked: Blocked) -> list[Evidence]:
    """Who was not there: behind by its own status, silent, or only told by others."""
    stall = blocked.stall
    found: list[Evidence] = []
    behind = stall.behind
    for rank, status in list(behind.items())[:4]:
        found.append(
            evidence(
                say(
                    "rank {rank} had not entered it: last enqueued {enqueued}, last completed "
                    "{completed}",
                    rank=rank,
                    enqueued=_number(status.last_enqueued),
                    completed=_number(status.last_completed),
                ),
                STRONG,
                status,
            )
        )
    silent = [rank for rank in blocked.absent if rank not in behind]
    told = [rank for rank in silent if rank in stall.heard]
    if told:
        found.append(
            evidence(
                say(
                    "{ranks} had no time-out there and only heard of the others'",
                    ranks=ranks_text(told),
                ),
                FAIR,
                stall.heard[told[0]],
            )
        )
    quiet = [rank for rank in silent if rank not in stall.heard]
    if quiet and len(quiet) <= max(1, len(stall.waiters)):
        found.append(
            evidence(
                say(
                    "{ranks} is missing from the time-outs of the others: deduced by absence",
                    ranks=ranks_text(quiet),
                )
                if len(quiet) == 1
                else say(
                    "{ranks} are missing from the time-outs of the others: deduced by absence",
                    ranks=ranks_text(quiet),
                ),
                FAIR if blocked.members_certain or any(r in stall.spoke for r in quiet) else WEAK,
                stall.first,
            )
        )
    return found


def missing_ranks(blocked: Blocked) -> tuple[int, ...]:
    """The ranks that the others waited for, as far as can be told."""
    return blocked.absent


def began(job: Job, blocked: Blocked) -> Moment | None:
    """When the wait began, with its year where any line tells it."""
    return job.chronology.with_year(blocked.stall.began)


def began_evidence(job: Job, blocked: Blocked) -> list[Evidence]:
    """That the fault is older than its report, by the time that the operation ran."""
    first = blocked.stall.first
    moment = began(job, blocked)
    if moment is None or first.ran_ms is None:
        return []
    return [
        evidence(
            say(
                "the wait began at {time}, {seconds} s before the watchdog spoke",
                time=clock(moment),
                seconds=round(first.ran_ms / 1000),
            ),
            0.0,
            first,
        )
    ]


def clock(moment: Moment) -> str:
    """A time as a user reads it: the date where it is known, to the second."""
    return moment.stamp.strftime("%Y-%m-%d %H:%M:%S" if moment.year_known else "%m-%d %H:%M:%S")


def excerpts_of(blocked: Blocked) -> list[Excerpt]:
    """The lines of a stall: messengers, and the origin's own status."""
    stall = blocked.stall
    found = [excerpt(fact, "messenger") for fact in list(stall.waiters.values())[:8]]
    for rank, status in list(stall.behind.items())[:4]:
        if rank in blocked.absent:
            found.append(excerpt(status, "origin"))
    return found


def died_before(job: Job, blocked: Blocked | None) -> list[Evidence]:
    """Deaths of ranks before the time-outs: they explain a wait better than lateness does."""
    found: list[Evidence] = []
    if blocked is None:
        return found
    for death in job.deaths_before(blocked):
        if death.rank is not None and death.rank in blocked.stall.waiters:
            continue
        if isinstance(death.fact, ProcessEnd):
            continue  # launchers count ends after the time-outs too, without a time of their own
        found.append(
            evidence(
                say(
                    "a process failed by itself before the time-outs: {quote}",
                    quote=death.fact.quote[:160],
                ),
                STRONG,
                death.fact,
            )
        )
        if len(found) == 2:
            break
    return found


def network_trouble(job: Job) -> list[Fact]:
    """Errors of sockets or the fabric anywhere in the job."""
    found: list[Fact] = [w for w in job.all(NcclWarning) if w.topic in ("socket", "ib")]
    found.extend(e for e in job.all(NcclError) if e.result == "ncclRemoteError")
    found.extend(job.all(PeerLost))
    return found


def network_before(job: Job, first: Fact) -> list[Evidence]:
    """That the network complained before a wait was told of."""
    for trouble in network_trouble(job)[:1]:
        if job.chronology.before(trouble, first) is not False and not _echo(job, trouble):
            return [evidence(say("the network complained before the time-outs"), FAIR, trouble)]
    return []


def _echo(job: Job, trouble: Fact) -> bool:
    """Whether a connection was lost behind a time-out: the rank that gave up had closed it."""
    return isinstance(trouble, PeerLost) and any(
        job.chronology.before(timeout, trouble) for timeout in job.all(CollectiveTimeout)
    )


def no_network_trouble(job: Job) -> list[Exonerated]:
    """That the network is not to blame, where nothing in the input complains of it."""
    if network_trouble(job):
        return []
    return [
        Exonerated(
            "network-transport",
            say("no socket, InfiniBand or remote error stands in the input"),
            (),
        )
    ]


def boilerplate(job: Job) -> list[Exonerated]:
    """The dump message's list of possible reasons is the same in every dump."""
    dumps = [s for s in job.all(GroupStatus) if s.reason in ("local-dump", "remote-dump")]
    if not dumps:
        return []
    return [
        Exonerated(
            "size-mismatch",
            say(
                "“wrong sizes”, “order of collectives” and “GIL deadlock” are words that PyTorch "
                "prints with every dump, not findings"
            ),
            (dumps[0].place,),
        )
    ]


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


#: Phases that a job reaches only once its processes have found each other.
_WORKING = ("train", "end", "evaluate", "save", "generate")


def went_on(job: Job, fact: Fact) -> Fact | None:
    """What shows that the work went on after a complaint: a retry that succeeded, a mere notice."""
    owner = job.owner(fact)
    later: list[Fact] = [
        *job.all(TrainingStep),
        *(phase for phase in job.all(Phase) if phase.kind in _WORKING),
        *(load for load in job.all(EngineLoad) if (load.throughput or 0) > 0),
        *(init for init in job.all(NcclInit) if init.stage == "complete"),
    ]
    for other in later:
        if job.chronology.before(fact, other) is not True:
            continue
        if owner is None or job.owner(other) in (None, owner):
            return other
    return None


def finished(job: Job) -> Phase | None:
    """The line that says that the work came to its end, where no time-out followed it."""
    ends = [phase for phase in job.all(Phase) if phase.kind == "end" and phase.finished]
    for phase in ends:
        if not any(job.chronology.before(phase, late) for late in job.all(CollectiveTimeout)):
            return phase
    return None


def overcome(job: Job, fact: Fact) -> bool:
    """Whether a complaint stopped nothing: a retry succeeded, or the work was at its end.

    An exception counts as overcome only where the work came to its end all the same; a connection
    that was retried already where the work went on.
    """
    end = finished(job)
    if isinstance(fact, (StoreFailure, PeerLost, HttpExchange)) and went_on(job, fact) is not None:
        return True
    if isinstance(fact, PythonException) and (
        fact.frames_from == "ignored" or of_one_request(fact)
    ):
        return True
    if end is None:
        return False
    if isinstance(fact, ProcessEnd):
        return fact.exit_code in (-15, -2) and job.chronology.before(end, fact) is not False
    return isinstance(fact, (PythonException, PeerLost, StoreFailure, WatchdogStuck))


def worked_before(job: Job, fact: Fact) -> Fact | None:
    """What shows that training or serving was under way before a fact: the latest sign of it."""
    earlier: list[Fact] = [
        *job.all(TrainingStep),
        *(load for load in job.all(EngineLoad) if (load.throughput or 0) > 0),
    ]
    known = [one for one in earlier if job.chronology.before(one, fact) is True]
    return max(known, key=lambda one: one.place) if known else None


def first_death_before(job: Job, fact: Fact, *kinds: str) -> Fact | None:
    """A process's own failure that came before a fact (which is then perhaps its echo)."""
    for death in job.deaths:
        if death.fact is fact or isinstance(death.fact, ProcessEnd):
            continue
        if kinds and death.kind not in kinds:
            continue
        if job.chronology.before(death.fact, fact) is True:
            return death.fact
    return None


def judged(job: Job, cause: str, *verdicts: str) -> list[Judgement]:
    """The launch plan's judgements of these kinds that concern a cause."""
    return [
        one
        for one in job.plan.judgements
        if cause in one.concerns and one.judgement in (verdicts or ("conflict",))
    ]


def from_settings(judgements: Iterable[Judgement], weight: float) -> list[Evidence]:
    """What the launch script shows; the first counts, the others are named."""
    found: list[Evidence] = []
    for one in judgements:
        found.append(
            evidence(
                say("in the launch script, {setting}: {why}", setting=one.name, why=one.why),
                0.0 if found else weight,
                one.places[0] if one.places else None,
                source=None if one.places else "launch script",
            )
        )
    return found


def hosts_of(job: Job) -> tuple[str, ...]:
    """Hosts that said anything, in order of their first line."""
    return tuple(dict.fromkeys(f.speaker.host for f in job.facts if f.speaker.host))


def several_nodes(job: Job) -> bool:
    """Whether the job is known to run on more than one machine."""
    if any((program.nodes or 1) > 1 for program in job.programs):
        return True
    if len(hosts_of(job)) > 1:
        return True
    # Ray names the node only of lines that come from another node than the driver's
    return any(", ip=" in fact.quote[:80] and fact.speaker.host for fact in job.facts)


def rank_by_process(job: Job) -> dict[tuple[str | None, int], int]:
    """(host, process id) to rank, where a communicator's lines tell: NCCL prints no ranks else.

    Only communicators of the job's full size are taken: a smaller one counts its own ranks.
    """
    inits = [i for i in job.all(NcclInit) if i.size is not None and i.speaker.pid is not None]
    size = max((i.size or 0 for i in inits), default=0)
    found: dict[tuple[str | None, int], int] = {}
    for init in inits:
        if init.size == size and init.rank is not None and init.speaker.pid is not None:
            found.setdefault((init.speaker.host, init.speaker.pid), init.rank)
    return found


def _tasks_are_ranks(job: Job) -> bool:
    """Whether Slurm's tasks are the ranks: so where several lines tell both, and always the same.

    With torchrun under each task there are more ranks than tasks.
    """
    told = {
        (one.speaker.task, one.speaker.rank)
        for one in job.facts
        if one.speaker.task is not None and one.speaker.rank is not None
    }
    return len(told) > 1 and all(task == rank for task, rank in told)


def rank_behind(job: Job, fact: Fact) -> int | None:
    """The rank that said a line: by its prefix, or by its process's communicator."""
    if fact.speaker.rank is not None:
        return fact.speaker.rank
    if fact.speaker.task is not None and _tasks_are_ranks(job):
        return fact.speaker.task
    if fact.speaker.pid is None:
        return None
    return rank_by_process(job).get((fact.speaker.host, fact.speaker.pid))


def remark_on(job: Job, *topics: str) -> Remark | None:
    """The first thing that a person wrote about one of these topics."""
    return next((one for one in job.all(Remark) if one.topic in topics), None)


def reported(told: Remark, weight: float) -> Evidence:
    """A person's words as evidence."""
    return evidence(say("reported: {quote}", quote=told.quote[:200]), weight, told)
