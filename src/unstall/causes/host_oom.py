"""``host-oom``: the host's memory ran out and the kernel, a cgroup or Ray killed a process."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.aftermath import aftermath
from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
    ranks_text,
)
from unstall.causes.deaths import echo_evidence, rank_of_pid, survived
from unstall.job import Job
from unstall.model.facts import (
    CudaOutOfMemory,
    EngineNotice,
    Fact,
    HostMemory,
    MemoryKill,
    Phase,
    ProcessEnd,
    PythonException,
    ResourceLimit,
    SignalSent,
    WarningLine,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

#: Host memory in use from which on a kill is to be expected, in percent.
FULL, HIGH = 90.0, 80.0

#: DeepSpeed's agent prints the command of the process that it started last, whichever was killed.
LAST_COMMAND = "DeepSpeed deepspeed/launcher/launch.py 0.8-0.17: the loop variable cmd"

BY = {
    "kernel": say("the kernel's out-of-memory killer"),
    "cgroup": say("the kernel (the memory limit of the container was reached)"),
    "slurm": say("Slurm (the memory limit of the job was reached)"),
    "ray": say("Ray's memory monitor"),
    "kubernetes": say("Kubernetes (the memory limit of the container was reached)"),
}


def examine(job: Job) -> Iterable[Finding]:
    """One claim for a kill that was told, a SIGKILL that memory explains, or a refusal."""
    kills = list(job.all(MemoryKill))
    ends = [end for end in job.all(ProcessEnd) if end.exit_code == -9]
    refused = [limit for limit in job.all(ResourceLimit) if limit.kind == "memory"]
    signs: list[Fact] = [*kills, *ends, *refused]
    if not signs:
        return
    fact: Fact = (kills or ends or refused)[0]
    ranks = _ranks(job, kills, ends)
    after = aftermath(job, fact, ranks)
    program = after.program
    support: list[Evidence] = []
    against: list[Evidence] = []
    if kills:
        kill = kills[0]
        support.append(
            evidence(
                say(
                    "{by} killed {process}",
                    by=BY.get(kill.by, say("the system")),
                    process=_process(kill),
                ),
                DECISIVE,
                kill,
            )
        )
    if ends:
        support.append(_killed(ends[0], STRONG if not kills else 0.0))
        against.extend(_sent_by_others(job, ends[0], bool(kills)))
    if refused:
        support.append(
            evidence(
                say("the system refused memory: {quote}", quote=refused[0].quote[:120]),
                FAIR if kills or ends else STRONG + WEAK,
                refused[0],
            )
        )
    filling = _filling(job, fact)
    support.extend(filling)
    support.extend(_offload(job, program))
    if not kills:
        support.extend(_silent(job, fact, bool(ends)))
        if survived(job, fact) is not None:
            return
    against.extend(
        echo_evidence(job, fact, besides=(MemoryKill, ResourceLimit, HostMemory, PythonException))
        if kills or refused
        else echo_evidence(job, fact, besides=(MemoryKill, ResourceLimit, HostMemory))
    )
    yield after.finding(
        "host-oom",
        _summary(kills, ends, ranks, any(one.weight > 0 for one in filling)),
        support,
        against,
        fixes=_fixes(program, kills),
        next_step=say(
            "look who was killed and why: dmesg -T | grep -i -E 'killed process|oom', "
            "the cgroup's memory.events (oom_kill) and memory.max, or sacct -j JOB -o "
            "MaxRSS,State; then run once more and watch free -g"
        ),
        origin=origin_of(program, ranks, role="node", group=after.group),
        exonerated=_exonerated(job, ends),
        excerpts=[excerpt(one, "origin") for one in _shown(job, fact, kills, ends)],
        ceiling=0.97 if kills else 0.88,
    )


def _ranks(job: Job, kills: list[MemoryKill], ends: list[ProcessEnd]) -> tuple[int, ...]:
    """Ranks of the victims: by the kill's process id, or by the one rank that ended with -9."""
    named = {rank for kill in kills if (rank := rank_of_pid(job, kill.pid)) is not None}
    if named:
        return tuple(sorted(named))
    told = {_rank(end) for end in ends} - {None}
    return tuple(rank for rank in told if rank is not None) if len(told) == 1 else ()


def _rank(end: ProcessEnd) -> int | None:
    """Whose end it was; a loader's worker belongs to the rank that reports it."""
    if end.reporter == "dataloader":
        return end.speaker.rank
    return end.rank


def _process(kill: MemoryKill) -> Text:
    if kill.process is not None and kill.pid is not None:
        return say("{process} (process {pid})", process=kill.process, pid=kill.pid)
    if kill.pid is not None:
        return say("process {pid}", pid=kill.pid)
    return say("a process of the job")


def _killed(end: ProcessEnd, weight: float) -> Evidence:
    """That a process was killed from outside; a bare -9 does not say why."""
    if end.reporter == "deepspeed":
        text = say(
            "a process ended with -9 (SIGKILL) from outside; which one is not told: the launcher "
            "prints the command that it started last"
        )
        return evidence(text, weight / 2, end, source=LAST_COMMAND)
    if end.reporter == "dataloader":
        text = say(
            "a data loader's worker was killed (SIGKILL): they are the first that the "
            "out-of-memory killer takes"
        )
        return evidence(text, weight, end)
    if end.rank is not None:
        text = say("rank {rank} ended with -9 (SIGKILL) from outside", rank=end.rank)
    else:
        text = say("a process ended with -9 (SIGKILL) from outside")
    return evidence(text, weight / 2, end)


def _sent_by_others(job: Job, end: ProcessEnd, certain: bool) -> list[Evidence]:
    """That the launcher or a scheduler killed it after something else."""
    found: list[Evidence] = []
    for notice in job.all(EngineNotice):
        # srt/utils: kill_process_tree ends a server's processes, itself included, by SIGKILL
        own = notice.kind == "watchdog" or "sigquit" in notice.detail.lower()
        if own and not certain and job.chronology.before(notice, end) is True:
            found.append(
                evidence(
                    say("SGLang had given up before: it then kills its own processes (SIGKILL)"),
                    STRONG,
                    notice,
                )
            )
            break
    for signal in job.all(SignalSent):
        if signal.signal == "SIGKILL" and signal.target_pid in (None, end.pid):
            found.append(
                evidence(say("the launcher itself sent SIGKILL to a survivor"), STRONG, signal)
            )
            break
    stall = job.lead
    if stall is not None and not certain and job.chronology.before(stall.stall.first, end) is True:
        waiter = end.rank in stall.stall.waiters if end.rank is not None else True
        if waiter:
            found.append(
                evidence(
                    say("the time-outs came before: survivors of a stall are killed too"),
                    STRONG,
                    stall.stall.first,
                )
            )
    return found


def _filling(job: Job, fact: Fact) -> list[Evidence]:
    """How full the host's memory was before."""
    figures = [
        figure
        for figure in job.all(HostMemory)
        if figure.percent is not None
        and (job.chronology.before(fact, figure) is not True or _beside(fact, figure))
    ]
    if not figures:
        return []
    last, first = figures[-1], figures[0]
    peak = max(figures, key=lambda one: one.percent or 0.0)
    percent = peak.percent or 0.0
    weight = STRONG + FAIR if percent >= FULL else FAIR if percent >= HIGH else 0.0
    if len(figures) > 1 and (first.percent or 0.0) < (last.percent or 0.0):
        text = say(
            "the host's memory rose from {before} % to {percent} % in use before it",
            before=f"{first.percent:.0f}",
            percent=f"{percent:.0f}",
        )
    else:
        text = say("the host's memory was {percent} % in use before it", percent=f"{percent:.0f}")
    return [evidence(text, weight, peak)]


def _beside(kill: Fact, figure: HostMemory) -> bool:
    """Whether a figure belongs to the kill's own message: Ray tells it on the next lines."""
    near = 0 <= figure.place.line - kill.place.line <= 8
    return isinstance(kill, MemoryKill) and near and figure.place.source == kill.place.source


def _offload(job: Job, program: Program | None) -> list[Evidence]:
    """That the job keeps states in host memory."""
    for judgement in job.plan.judgements:
        if judgement.name != "offload":
            continue
        return [
            evidence(
                say(
                    "in the launch script, {setting}: {why}",
                    setting=judgement.name,
                    why=judgement.why,
                ),
                WEAK,
                judgement.places[0] if judgement.places else None,
                source=None if judgement.places else "launch script",
            )
        ]
    for phase in job.all(Phase):
        if phase.kind == "compile" and "cpu_adam" in phase.quote:
            return [
                evidence(
                    say("the optimizer runs on the CPU: its states are in host memory"),
                    WEAK,
                    phase,
                )
            ]
    workers = next((w for w in job.all(WarningLine) if w.topic == "oversubscribed"), None)
    if workers is not None:
        return [evidence(say("more loader workers than processors, each with memory of its own"),
                         WEAK, workers)]  # fmt: skip
    if program is not None and any("offload" in flag for flag in program.flags):
        return [
            evidence(say("its options keep states in host memory (offload)"), WEAK, program.place)
        ]
    return []


def _silent(job: Job, fact: Fact, killed: bool) -> list[Evidence]:
    """That nothing of the program's own speaks before the kill: no traceback, no device error."""
    if not killed or any(
        not isinstance(death.fact, (ProcessEnd, SignalSent)) for death in job.deaths
    ):
        return []
    return [evidence(say("no traceback and no device error stands before it"), WEAK, fact)]


def _summary(
    kills: list[MemoryKill], ends: list[ProcessEnd], ranks: tuple[int, ...], full: bool
) -> Text:
    if kills and ranks:
        return say(
            "The host ran out of memory: {by} killed {who}.",
            by=BY.get(kills[0].by, say("the system")),
            who=ranks_text(ranks),
        )
    if kills:
        return say(
            "The host ran out of memory: {by} killed a process.",
            by=BY.get(kills[0].by, say("the system")),
        )
    if not ends:
        return say("The host's memory ran out: the system refused to give a process more.")
    if not full:
        return say(
            "A process was killed from outside (SIGKILL, exit code -9) without a word of its own: "
            "the kernel's out-of-memory killer is the usual one to do that."
        )
    return say(
        "A process was killed from outside (SIGKILL, exit code -9) while the host's memory was "
        "nearly full: most likely by the kernel's out-of-memory killer."
    )


def _fixes(program: Program | None, kills: list[MemoryKill]) -> list[Fix]:
    fixes: list[Fix] = []
    serves = program is not None and program.role in ("rollout", "inference", "reward")
    if serves and program is not None and "swap_space" in program.flags:
        fixes.append(
            Fix(say("less swap space in host memory"), Change(program.label, {"swap_space": "0"}))
        )
    fixes.append(
        Fix(
            say(
                "keep less in host memory: no optimizer or parameter offload to the CPU (or "
                "offload to NVMe instead), fewer loader workers, load the weights on one rank "
                "(low_cpu_mem_usage, meta device) rather than on all at once"
            )
        )
    )
    if any(kill.by in ("cgroup", "kubernetes", "slurm") for kill in kills):
        fixes.append(
            Fix(
                say(
                    "raise the limit that was reached: the container's memory limit, or --mem of "
                    "the job"
                )
            )
        )
    fixes.append(Fix(say("more RAM for each node, or the same job on more nodes")))
    return fixes


def _exonerated(job: Job, ends: list[ProcessEnd]) -> list[Exonerated]:
    found: list[Exonerated] = []
    if not job.all(CudaOutOfMemory):
        found.append(
            Exonerated(
                "cuda-oom",
                say(
                    "no device memory error stands in the input: CUDA's is an exception with a "
                    "traceback, not a SIGKILL"
                ),
                (),
            )
        )
    blamed = next((e for e in ends if e.reporter == "deepspeed" and e.local_rank is not None), None)
    if blamed is not None:
        found.append(
            Exonerated(
                "launcher-report",
                say(
                    "the local rank in the launcher's line is that of the process that it started "
                    "last, not of the one that was killed"
                ),
                (blamed.place,),
            )
        )
    return found


def _shown(job: Job, fact: Fact, kills: list[MemoryKill], ends: list[ProcessEnd]) -> list[Fact]:
    figures = [figure for figure in job.all(HostMemory) if figure.percent is not None]
    return [*[k for k in kills if k is not fact][:2], *[e for e in ends if e is not fact][:1],
            *figures[-1:]]  # fmt: skip


CAUSE = Cause(
    id="host-oom",
    family="one process died first",
    title=say("the host's memory ran out"),
    about=say(
        "The host's memory, or the limit of the container or job, was used up, and a process was "
        "killed with SIGKILL. It leaves no traceback: the launcher sees exit code -9, and the "
        "other ranks see closed connections or time out. Offloaded optimizer states, weights that "
        "every rank loads for itself, and loader workers are the usual reasons."
    ),
    shows=(
        say("exit code -9 (137 in a shell) without a traceback"),
        say("“Out of memory: Killed process …” in dmesg, “oom_kill” of Slurm, OOMKilled"),
        say("“killed due to memory pressure” of Ray's memory monitor"),
    ),
    decide=say("dmesg, the cgroup's memory.events, or the scheduler's accounting at that time"),
    remedies=(
        say("less offload, fewer workers, weights loaded once"),
        say("more RAM, or a higher limit"),
    ),
    look_alikes=(
        LookAlike("cuda-oom", say("an OutOfMemoryError names a GPU; the exit code is 1")),
        LookAlike(
            "process-limit", say("“Resource temporarily unavailable”: processes, not memory")
        ),
        LookAlike("graph-capture-race", say("exit code -6 is SIGABRT, the process ended itself")),
        LookAlike("preempted", say("SIGTERM or a scheduler's cancellation comes first")),
    ),
    examine=examine,
    sources=("Linux mm/oom_kill.c", "Ray memory monitor, 2.2-2.52", LAST_COMMAND),
)
