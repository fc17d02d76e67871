"""``unknown``: something failed, and the input does not decide what; says what would."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unstall.causes.apart import motionless, stand
from unstall.causes.base import (
    STRONG,
    WEAK,
    Cause,
    collective_of,
    evidence,
    excerpt,
    group_of,
    origin_of,
)
from unstall.causes.deaths import rank_told, survived
from unstall.causes.deciding import deciding_step, parted_step, stall_step
from unstall.causes.engine_signs import distance, engine_waits, signs
from unstall.causes.headlines import headline
from unstall.causes.reasons import (
    absence,
    apart,
    began,
    boilerplate,
    excerpts_of,
    from_settings,
    overcome,
    waiting,
)
from unstall.job import Blocked, Job
from unstall.job.deaths import is_device, is_messenger
from unstall.model.facts import (
    BarrierFailure,
    CollectiveMismatch,
    CollectiveTimeout,
    CudaError,
    EngineLoad,
    EngineNotice,
    Fact,
    FatalSignal,
    GroupStatus,
    HcclError,
    HttpExchange,
    NcclError,
    NcclWarning,
    PeerLost,
    ProcessEnd,
    ProcessTakenDown,
    PythonException,
    Remark,
    StoppedProcess,
    StoreFailure,
    TrainingStep,
    WatchdogError,
    WatchdogStuck,
)
from unstall.model.findings import Evidence, Finding, Fix, Origin
from unstall.model.plan import Judgement
from unstall.model.text import Text, say
from unstall.programs.speakers import rank_in_name

#: What shows that something failed, even if nothing says what.
FAILURES: tuple[type[Fact], ...] = (
    CollectiveTimeout,
    WatchdogError,
    WatchdogStuck,
    CudaError,
    NcclError,
    PeerLost,
    StoreFailure,
    PythonException,
    ProcessTakenDown,
    HcclError,
    BarrierFailure,
    CollectiveMismatch,
    FatalSignal,
)

#: What shows that a program was at work.
WORK: tuple[type[Fact], ...] = (TrainingStep, EngineLoad, HttpExchange)


def examine(job: Job) -> Iterable[Finding]:
    """One claim wherever anything failed; it leads only where no cause explains enough."""
    lead = job.lead
    if lead is not None:
        yield _stalled(job, lead)
        return
    fact = _first_failure(job)
    stopped = _stopped(job, ())
    if fact is None and stopped:
        yield _only_stopped(job, stopped)
        return
    if fact is None:
        fact = next((r for r in job.all(Remark) if r.topic == "stuck"), None)
    conflicts = [one for one in job.plan.judgements if one.judgement == "conflict"]
    doubts = conflicts + [
        one for one in job.plan.judgements if one.judgement == "suspicious" and one.concerns
    ]
    waits = (stand(job) or motionless(job)) if fact is None or isinstance(fact, Remark) else None
    if waits is None and fact is None:
        waits = engine_waits(job)
    if waits is not None:
        yield waits  # stacks tell more than the words that it hangs
        return
    if fact is None and conflicts and not any(job.all(kind) for kind in WORK):
        yield _contradicted(conflicts)
    if fact is not None:
        yield Finding(
            cause="unknown",
            summary=headline(fact),
            support=(
                evidence(say("the first sign of it: {quote}", quote=_words(fact)), WEAK, fact),
                *from_settings(doubts[:3], 0.0),
            ),
            fixes=tuple(corrected(doubts)),
            next_step=deciding_step(job, fact),
            origin=_told_of(job, fact),
            started_at=job.chronology.with_year(fact.moment),
            excerpts=(excerpt(fact, "messenger"),),
        )


def _told_of(job: Job, fact: Fact) -> Origin | None:
    """Where it happened: the program of the first sign, and the ranks that it names as gone."""
    ranks: tuple[int, ...] = ()
    if isinstance(fact, BarrierFailure) and len(fact.absent) <= 2:
        ranks = fact.absent
    elif isinstance(fact, EngineNotice) and fact.kind == "worker-died":
        told = rank_in_name(_WORKER.sub("", fact.detail).partition(" ")[0])
        ranks = (told,) if told is not None else ()
    elif isinstance(fact, (ProcessEnd, FatalSignal)) and (rank := rank_told(job, fact)) is not None:
        ranks = (rank,)
    elif isinstance(fact, ProcessEnd) and fact.rank is not None:
        ranks = (fact.rank,)
    owner = job.owner(fact)
    return origin_of(owner, ranks) if owner is not None or ranks else None


#: What stands before a worker's name in vLLM's notice of its end.
_WORKER = re.compile(r"^Worker(?: proc)? ")


def _words(fact: Fact) -> str:
    """What a fact says: an exception's own words rather than the first line of its traceback."""
    if isinstance(fact, PythonException) and (fact.type or fact.message):
        return _cut(f"{fact.type}: {fact.message}".strip(": "))
    return _cut(fact.quote.strip())


def _cut(words: str) -> str:
    return words if len(words) <= 160 else words[:159] + "…"


def _contradicted(conflicts: Sequence[Judgement]) -> Finding:
    """A launch script whose settings contradict each other, and no line of a run."""
    return Finding(
        cause="unknown",
        summary=say(
            "No line of the input shows a failure, but settings of the launch script contradict "
            "each other."
        ),
        support=tuple(from_settings(conflicts[:3], 0.0)),
        fixes=tuple(corrected(conflicts)),
        next_step=say("mend these settings; if it fails still, give the log of that run as well"),
    )


def corrected(conflicts: Sequence[Judgement]) -> list[Fix]:
    """What the launch script should have instead, setting by setting."""
    return [
        Fix(say("in the launch script, {setting}: {change}", setting=one.name, change=text))
        for one in conflicts[:3]
        if (text := one.correction)
    ]


def _first_failure(job: Job) -> Fact | None:
    """The first sign of a failure that nothing overcame; what launchers pass on comes last."""
    found: list[Fact] = []
    for kind in FAILURES:
        found.extend(fact for fact in job.all(kind) if not _overcome(job, fact))
    found.extend(
        end
        for end in job.all(ProcessEnd)
        if (end.exit_code not in (0, None) or (end.reporter == "ray" and end.exit_code is None))
        and not overcome(job, end)
    )
    # a watchdog's status names what timed out where the line of the time-out itself is missing
    found.extend(s for s in job.all(GroupStatus) if s.reason == "failure" and s.failed is not None)
    found.extend(w for w in job.all(NcclWarning) if w.topic == "mismatch")
    found.extend(r for r in job.all(Remark) if r.topic in ("no-output", "gpu-idle"))
    found.extend(signs(job))
    return min(found, key=lambda fact: (_passed_on(fact), fact.place)) if found else None


def _overcome(job: Job, fact: Fact) -> bool:
    """Whether it stopped nothing; an exception is, too, where several steps were done after it."""
    caught = isinstance(fact, PythonException) and survived(job, fact) is not None
    return caught or overcome(job, fact)


def _passed_on(fact: Fact) -> int:
    """Whether a line only passes on another process's failure."""
    if isinstance(fact, EngineNotice):
        return distance(fact)
    if isinstance(fact, PythonException):
        # of a device's, NCCL's or a store's error a fact of its own tells more
        told = is_device(fact) or "monitoredBarrier" in fact.message
        return 3 if is_messenger(fact) else 1 if told else 0
    if isinstance(fact, (PeerLost, ProcessTakenDown)):
        return 1
    if isinstance(fact, (NcclError, WatchdogError)) and _of_a_peer(fact):
        return 1
    if isinstance(fact, ProcessEnd) and fact.reporter == "mpi":
        return 1  # why a rank called MPI_Abort, it has said before
    # a process that aborts has said why before: its watchdog did
    return 1 if isinstance(fact, ProcessEnd) and fact.exit_code in (-15, -6) else 0


def _of_a_peer(fact: NcclError | WatchdogError) -> bool:
    """Whether it tells no more than that another process was gone."""
    if isinstance(fact, NcclError):
        return fact.result == "ncclRemoteError"
    return "remote process exited" in fact.error or "ncclRemoteError" in fact.error


# --- processes that are stopped ----------------------------------------------------------------

_RANKS = re.compile(r"python|torchrun|ray::|vllm|sglang", re.IGNORECASE)


def _stopped(job: Job, waiters: Sequence[int]) -> list[StoppedProcess]:
    """Stopped processes that may be the job's, and are none of those that wait."""
    return [
        one
        for one in job.all(StoppedProcess)
        if _RANKS.search(one.command) and (one.rank is None or one.rank not in waiters)
    ][:4]


def _only_stopped(job: Job, stopped: Sequence[StoppedProcess]) -> Finding:
    """No line tells a failure, but a process does not run."""
    ranks = tuple(sorted({one.rank for one in stopped if one.rank is not None}))
    owner = job.owner(stopped[0]) or job.trainer
    return Finding(
        cause="unknown",
        summary=_stopped_summary(stopped[0]),
        support=tuple(_stopped_evidence(stopped)),
        next_step=_stopped_step(stopped[0]),
        origin=origin_of(owner, ranks) if owner is not None or ranks else None,
        excerpts=(excerpt(stopped[0], "origin"),),
    )


def _stopped_summary(one: StoppedProcess) -> Text:
    if one.rank is not None:
        return say(
            "Rank {rank} is alive and does not run: it is stopped. Who stopped it is not told.",
            rank=one.rank,
        )
    return say(
        "Process {pid} is alive and does not run: it is stopped. Who stopped it is not told.",
        pid=one.pid,
    )


def _stopped_evidence(stopped: Sequence[StoppedProcess]) -> list[Evidence]:
    """A stopped process neither computes nor answers, whatever it was doing."""
    return [
        evidence(_stopped_words(one), STRONG if number == 0 else 0.0, one)
        for number, one in enumerate(stopped)
    ]


def _stopped_words(one: StoppedProcess) -> Text:
    command = _cut(one.command)
    if one.how == "tracer":
        return say(
            "process {pid} is held by a tracer (state t): {command}", pid=one.pid, command=command
        )
    if one.how == "freezer":
        return say(
            "process {pid} is in a cgroup that is frozen: {command}", pid=one.pid, command=command
        )
    return say(
        "process {pid} is stopped by a signal (state T): {command}", pid=one.pid, command=command
    )


def _stopped_step(one: StoppedProcess) -> Text:
    if one.how == "tracer":
        return say(
            "see who traces it: grep TracerPid /proc/{pid}/status; let that debugger go on or "
            "detach it",
            pid=one.pid,
        )
    if one.how == "freezer":
        return say(
            "see which cgroup is frozen (/proc/{pid}/cgroup, cgroup.freeze below /sys/fs/cgroup) "
            "and who froze it: docker pause, a container's suspension, a job manager; thaw it",
            pid=one.pid,
        )
    return say(
        "kill -CONT {pid} lets it go on (the others fail all the same once their time-out has "
        "passed); then look for who stopped it: a debugger, kill -STOP, Ctrl-Z, a tool that "
        "suspends jobs",
        pid=one.pid,
    )


# --- a stall -----------------------------------------------------------------------------------


def _stalled(job: Job, blocked: Blocked) -> Finding:
    stall = blocked.stall
    waiters = tuple(sorted(rank for rank in stall.waiters if rank >= 0))
    single = len(stall.waiters) == 1 and len(blocked.absent) != 1
    missing = blocked.absent
    different = len(apart(blocked)) > 1
    if different and not blocked.stall.behind:
        missing = ()
        summary = (
            say(
                "Ranks of one group waited in different operations: their sequences of collectives "
                "had parted before. The input does not tell where."
            )
            if stall.default_group is not None
            else say(
                "Ranks waited in different operations: if it was in one group, which the log does "
                "not name, their sequences of collectives had parted before."
            )
        )
    elif missing and len(missing) <= min(4, len(stall.waiters)):
        summary = say(
            "A collective timed out because a rank did not come; the input does not tell "
            "what that rank was doing."
        )
    elif single:
        summary = say(
            "One rank's time-out is all there is; it does not tell which rank was missing, nor why."
        )
    else:
        summary = say("A collective timed out; the input does not tell why.")
    stopped = _stopped(job, waiters)
    located = next((error for error in job.all(HcclError) if error.at is not None), None)
    if located is not None:
        summary = headline(located)
    if stopped:
        summary = _stopped_summary(stopped[0])
        missing = tuple(sorted({one.rank for one in stopped if one.rank is not None})) or missing
    return Finding(
        cause="unknown",
        summary=summary,
        support=(
            waiting(blocked),
            *_located(located),
            *_stopped_evidence(stopped),
            *(absence(blocked) if missing or not different else ()),
        ),
        fixes=()
        if blocked.stall.first.backend == "hccl"
        else (
            Fix(
                say(
                    "keep the Flight Recorder on in every rank (TORCH_FR_BUFFER_SIZE=2000, "
                    "TORCH_NCCL_TRACE_BUFFER_SIZE before PyTorch 2.8, and "
                    "TORCH_NCCL_DUMP_ON_TIMEOUT=1) so that the next time-out names the rank and "
                    "the line"
                )
            ),
        ),
        next_step=_stopped_step(stopped[0])
        if stopped
        else deciding_step(job, located)
        if located is not None
        else parted_step()
        if different and not missing
        else stall_step(job, blocked),
        origin=_origin(blocked, missing),
        collective=collective_of(blocked),
        waiting_ranks=() if single else waiters,
        started_at=began(job, blocked),
        exonerated=tuple(boilerplate(job)),
        excerpts=tuple(excerpts_of(blocked)),
    )


def _located(error: HcclError | None) -> list[Evidence]:
    """Where Ascend's heartbeats between the ranks saw the fault first."""
    if error is None or error.at is None:
        return []
    words = say("HCCL's heartbeats: {kind} at {place}", kind=error.code, place=error.at)
    return [evidence(words, STRONG, error)]


def _origin(blocked: Blocked, missing: tuple[int, ...]) -> Origin | None:
    """The ranks that did not come, where more of the group were heard than are missing."""
    ranks = missing if len(missing) <= 2 and len(missing) <= len(blocked.stall.waiters) else ()
    if blocked.program is None and not ranks:
        return None
    return origin_of(blocked.program, ranks, group=group_of(blocked))


CAUSE = Cause(
    id="unknown",
    family="none",
    title=say("the evidence does not decide"),
    about=say(
        "Something failed, and what the input holds fits several causes or none. The report then "
        "says what is certain (who waited, where, since when) and the cheapest step that would "
        "decide."
    ),
    shows=(
        say("a lone watchdog line of one rank"),
        say("a launcher's report without the output of the rank that failed"),
        say("a log that is cut off before the failure"),
        say("a list of processes with a rank in state T: it is stopped, by whom is not told"),
    ),
    decide=say("logs of all ranks, Flight Recorder dumps, or stacks while it hangs"),
    remedies=(say("keep the Flight Recorder on, and the logs of all ranks"),),
    look_alikes=(),
    examine=examine,
)
