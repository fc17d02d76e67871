"""Deaths among each other: which was first, which was survived, whose rank it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unstall.causes.base import DECISIVE, STRONG, evidence
from unstall.causes.reasons import rank_behind, rank_by_process
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    CudaOutOfMemory,
    EngineLoad,
    Fact,
    NcclError,
    ProcessEnd,
    SignalSent,
    TrainingStep,
    WatchdogError,
)
from unstall.model.findings import Evidence
from unstall.model.text import say
from unstall.programs.speakers import rank_in_name

#: So many training steps, or statistics of a working engine, after an error show that it was
#: caught: one more may have been under way on another rank.
SURVIVED = 3

#: What is told of a device by whoever met it.
DEVICE_ERRORS = (CudaError, CudaOutOfMemory)


def survived(job: Job, fact: Fact) -> Fact | None:
    """What shows that the program went on after an error: several steps, requests served."""
    owner = job.owner(fact)
    limit = job.blocked[0].stall.first if job.blocked else None

    def counts(other: Fact) -> bool:
        if job.chronology.before(fact, other) is not True:
            return False
        if limit is not None and job.chronology.before(other, limit) is False:
            return False
        if apart(fact, other):
            return False
        return owner is None or job.owner(other) in (None, owner)

    steps = [step for step in job.all(TrainingStep) if counts(step)]
    if len(steps) >= SURVIVED:
        return steps[-1]
    loads = [load for load in job.all(EngineLoad) if (load.throughput or 0) > 0 and counts(load)]
    return loads[-1] if len(loads) >= SURVIVED else None


def survived_evidence(job: Job, fact: Fact) -> list[Evidence]:
    """That the work went on after it, against its having been fatal."""
    later = survived(job, fact)
    if later is None:
        return []
    return [evidence(say("the work went on after it: it was caught"), DECISIVE, later)]


def echo_evidence(job: Job, fact: Fact, *, besides: Sequence[type[Fact]] = ()) -> list[Evidence]:
    """That another process's own failure came before: this one is then its echo.

    Args:
        job: the job.
        fact: the death in question.
        besides: types of facts that are this very death in other words.
    """
    for death in job.deaths:
        other = death.fact
        if other is fact or isinstance(other, (*besides, type(fact), ProcessEnd, SignalSent)):
            continue
        if isinstance(other, WatchdogError) or job.chronology.before(other, fact) is not True:
            continue
        if isinstance(fact, DEVICE_ERRORS) and _only_passes_on(other):
            continue
        if not related(job, other, fact) or survived(job, other) is not None:
            continue
        return [
            evidence(
                say("something else failed before it: {quote}", quote=other.quote[:160]),
                STRONG,
                other,
            )
        ]
    return []


def _only_passes_on(fact: Fact) -> bool:
    """Whether NCCL says no more than that a call of CUDA failed: which, its last words tell."""
    return isinstance(fact, NcclError) and fact.result == "ncclUnhandledCudaError"


def apart(one: Fact, other: Fact) -> bool:
    """Whether names before their lines tell that two outputs of different jobs or pods said them.

    Ranks of one job may speak from several pods, so it says nothing where ranks are told.
    """
    first, second = one.speaker, other.speaker
    if first.container is None or second.container is None:
        return False
    return first.container != second.container and None in (first.rank, second.rank)


def related(job: Job, one: Fact, other: Fact) -> bool:
    """Whether two facts can be one program's."""
    first, second = job.owner(one), job.owner(other)
    return first is None or second is None or first is second


def ranks_told(job: Job, facts: Iterable[Fact]) -> tuple[int, ...]:
    """Global ranks that said the facts, by prefix, process id or the launcher's report."""
    return tuple(sorted({r for fact in facts if (r := rank_told(job, fact)) is not None}))


def rank_told(job: Job, fact: Fact) -> int | None:
    """The rank behind one fact."""
    known = rank_behind(job, fact)
    if known is None and isinstance(fact, (CudaError, WatchdogError)):
        # before PyTorch 2.2 only "[Rank 1]" tells it: the default group's ranks are global
        known = fact.group.rank if fact.group.pg_id in (None, 0) else None
    if known is None:
        known = rank_in_name(fact.speaker.name)
    if known is not None or fact.speaker.pid is None:
        return known
    return rank_of_pid(job, fact.speaker.pid)


def rank_of_pid(job: Job, pid: int | None) -> int | None:
    """The rank of a process id, by the launcher's report or a communicator's lines."""
    if pid is None:
        return None
    for end in job.all(ProcessEnd):
        if end.pid == pid and end.rank is not None:
            return end.rank
    found = {rank for (_, known), rank in rank_by_process(job).items() if known == pid}
    return found.pop() if len(found) == 1 else None
