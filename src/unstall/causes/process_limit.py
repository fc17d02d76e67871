"""``process-limit``: the system refused a process, thread or open file for want of a limit."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.aftermath import aftermath
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    ranks_text,
)
from unstall.causes.deaths import echo_evidence, ranks_told, survived_evidence
from unstall.job import Job
from unstall.model.facts import (
    Fact,
    HostMemory,
    MemoryKill,
    PythonException,
    ResourceLimit,
    WarningLine,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import say

KINDS = ("threads", "files", "semaphores", "locked-memory")


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first refusal of a thread, process or file."""
    refused = [limit for limit in job.all(ResourceLimit) if limit.kind in KINDS]
    figures = [w for w in job.all(WarningLine) if w.topic == "thread-limit"]
    if not refused:
        return
    first: Fact = job.chronology.in_order(refused)[0]
    assert isinstance(first, ResourceLimit)  # noqa: S101 - narrows for the type checker
    kind = first.kind
    after = aftermath(job, first, ranks_told(job, refused))
    support: list[Evidence] = [
        evidence(
            say("the system refused another thread or process: {quote}", quote=first.quote[:140])
            if kind == "threads"
            else say("the system refused another open file: {quote}", quote=first.quote[:140])
            if kind == "files"
            else say("RDMA could not pin memory: {quote}", quote=first.quote[:140])
            if kind == "locked-memory"
            else say("the system refused a resource: {quote}", quote=first.quote[:140]),
            STRONG if kind == "semaphores" else STRONG + FAIR,
            first,
        )
    ]
    if first.copies > 1 or len(refused) > 1:
        support.append(
            evidence(
                say(
                    "{count} such lines: a limit that all processes of the user or container share",
                    count=sum(one.copies for one in refused),
                ),
                WEAK,
                refused[-1],
            )
        )
    for figure in figures[:1]:
        limit = figure.values.get("limit", "")
        support.append(
            evidence(say("the limit in force: {limit} processes", limit=limit), FAIR, figure)
            if limit and limit != "-1"
            else evidence(
                say("the user's own limit is open: the container's or the node's is meant"),
                WEAK,
                figure,
            )
        )
    workers = next((w for w in job.all(WarningLine) if w.topic == "oversubscribed"), None)
    if workers is not None:
        support.append(
            evidence(
                say(
                    "a loader alone starts {workers} worker processes in each rank",
                    workers=workers.values.get("workers", "?"),
                ),
                FAIR,
                workers,
            )
        )
    against: list[Evidence] = [
        *survived_evidence(job, first),
        *echo_evidence(job, first, besides=(ResourceLimit, PythonException)),
    ]
    memory: list[Fact] = [
        *job.all(MemoryKill),
        *[h for h in job.all(HostMemory) if (h.percent or 0) >= 90],
        *[limit for limit in job.all(ResourceLimit) if limit.kind == "memory"],
    ]
    if memory:
        against.append(
            evidence(
                say("the host's memory was short too, which refuses processes as well"),
                STRONG if isinstance(memory[0], MemoryKill) else FAIR,
                memory[0],
            )
        )
    yield after.finding(
        "process-limit",
        say("{who} could not start another thread or process: a limit is reached, not memory.",
            who=ranks_text(after.ranks))
        if kind == "threads" and after.ranks
        else say("No further thread or process could be started: a limit is reached, not memory.")
        if kind == "threads"
        else say("No further file could be opened: a limit is reached.")
        if kind == "files"
        else say(
            "RDMA could not pin its buffers: most likely the limit on locked memory is reached."
        )
        if kind == "locked-memory"
        else say("A limit of the system is reached."),
        support,
        against,
        fixes=_fixes(kind),
        next_step=say(
            "print ulimit -l in the very environment that the ranks get (under mpirun, srun, in "
            "the container, over ssh): RDMA needs it unlimited"
        )
        if kind == "locked-memory"
        else say(
            "compare what is used with what is allowed, in the same container: ulimit -u; ulimit "
            "-n; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current; ps -eLf | wc -l"
        ),
        exonerated=_pinned(first) if kind == "locked-memory" else [] if memory else [
            Exonerated(
                "host-oom",
                say(
                    "“Resource temporarily unavailable” (EAGAIN) is a limit on processes; memory "
                    "would be “Cannot allocate memory”"
                ),
                (first.place,),
            )
        ],
        excerpts=[excerpt(one, "origin") for one in refused[1:3]],
        ceiling=0.85 if kind == "locked-memory" else 0.95,
    )  # fmt: skip


def _pinned(first: ResourceLimit) -> list[Exonerated]:
    return [
        Exonerated(
            "host-oom",
            say("what was refused is memory that RDMA pins, which has a limit of its own"),
            (first.place,),
        )
    ]


def _fixes(kind: str) -> list[Fix]:
    if kind == "files":
        return [
            Fix(
                say(
                    "raise the limit on open files: ulimit -n 65536 (docker: --ulimit "
                    "nofile=65536:65536) before the launcher starts"
                )
            ),
            Fix(
                say(
                    "share tensors of loader workers by files rather than descriptors: "
                    "torch.multiprocessing.set_sharing_strategy('file_system'); fewer workers"
                )
            ),
        ]
    if kind == "locked-memory":
        return [
            Fix(say("raise the limit on locked memory: ulimit -l unlimited (docker: --ulimit "
                    "memlock=-1), which RDMA needs"))
        ]  # fmt: skip
    return [
        Fix(
            say(
                "raise the limit: ulimit -u, and the container's or pod's limit on processes "
                "(docker: --pids-limit -1; Kubernetes: podPidsLimit; systemd: TasksMax)"
            )
        ),
        Fix(
            say(
                "start fewer threads: OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 in every rank, "
                "TOKENIZERS_PARALLELISM=false, fewer loader workers and num_proc"
            )
        ),
    ]


CAUSE = Cause(
    id="process-limit",
    family="one process died first",
    title=say("a limit on processes, threads or files is reached"),
    about=say(
        "Every rank starts threads of its own (BLAS, OpenMP, NCCL, loaders, tokenizers), and all "
        "count against one limit of the user, container or node. When it is reached, the next "
        "thread, process or file is refused, on whichever rank asks; the others wait for that rank."
    ),
    shows=(
        say("“Resource temporarily unavailable”, “can't start new thread”"),
        say("“pthread_create failed” of OpenBLAS with RLIMIT_NPROC"),
        say("“Too many open files”, “received 0 items of ancdata”"),
    ),
    decide=say("ulimit -u, pids.max and the number of threads while it runs"),
    remedies=(
        say("raise ulimit -u and the container's pids limit"),
        say("fewer threads and workers in each rank"),
    ),
    look_alikes=(
        LookAlike("host-oom", say("“Cannot allocate memory” (ENOMEM) or a SIGKILL")),
        LookAlike("shm-too-small", say("a path under /dev/shm and a size, or a bus error")),
    ),
    examine=examine,
    sources=(
        "Linux man pages: fork(2), pthread_create(3), setrlimit(2)",
        "OpenBLAS driver/others/blas_server.c",
    ),
)
