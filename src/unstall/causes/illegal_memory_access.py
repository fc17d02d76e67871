"""``illegal-memory-access``: a kernel touched memory it must not; who reports it did not."""

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
    origin_of,
    ranks_text,
)
from unstall.causes.deaths import related, survived_evidence
from unstall.causes.gpu_hardware import XIDS as HARDWARE_XIDS
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    CudaOutOfMemory,
    DeviceAssert,
    DriverEvent,
    NcclError,
    ResourceLeak,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix, ProcessGroup
from unstall.model.text import Text, say

#: CUDA errors that mean a kernel's bad access or end, after which the whole context is lost
#: (CUDA runtime 12.9: errors 700, 714-719).
NAMES = frozenset(
    {
        "IllegalAddress",
        "MisalignedAddress",
        "LaunchFailure",
        "IllegalInstruction",
        "HardwareStackError",
        "InvalidPc",
        "InvalidAddressSpace",
    }
)
XIDS = frozenset({13, 31, 43})


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first such error of each job."""
    errors = [error for error in job.all(CudaError) if error.name in NAMES]
    if not errors:
        return
    first = job.chronology.in_order(errors)[0]
    assert isinstance(first, CudaError)  # noqa: S101 - narrows for the type checker
    errors = [error for error in errors if related(job, error, first)]
    ranks = sorted({r for e in errors if (r := _rank(e)) is not None})
    after = aftermath(job, first, ranks)
    program = after.program
    support: list[Evidence] = [
        evidence(
            say("“{error}” was met by {who}", error=first.text, who=_who(first)),
            STRONG + FAIR,
            first,
        )
    ]
    against: list[Evidence] = list(survived_evidence(job, first))
    if first.through == "watchdog":
        support.append(
            evidence(
                say(
                    "the watchdog of {group} only asked the state of an event and was told of an "
                    "error that the whole process already had: it is the messenger, and this is "
                    "no error of NCCL",
                    group=_group_name(first),
                ),
                WEAK,
                first,
                source="PyTorch ProcessGroupNCCL.cpp, WorkNCCL::finishedGPUExecutionInternal",
            )
        )
    if first.frames and not first.blocking:
        support.append(
            evidence(
                say(
                    "launches were not blocking, so the Python line {place} is where the error "
                    "surfaced, not where it was made",
                    place=_frame(first),
                ),
                0.0,
                first,
            )
        )
    for event in job.all(DriverEvent):
        if event.code in XIDS:
            support.append(
                evidence(
                    say(
                        "the driver logged Xid {code}, a fault of a program's own access",
                        code=event.code or 0,
                    ),
                    FAIR,
                    event,
                )
            )
        elif event.code in HARDWARE_XIDS:
            against.append(
                evidence(
                    say(
                        "the driver logged Xid {code}, a fault of the hardware",
                        code=event.code or 0,
                    ),
                    STRONG,
                    event,
                )
            )
    for exhausted in job.all(CudaOutOfMemory)[:1]:
        if related(job, exhausted, first) and job.chronology.before(exhausted, first) is True:
            against.append(evidence(say("device memory had run out before"), STRONG, exhausted))
    for assertion in job.all(DeviceAssert)[:1]:
        against.append(
            evidence(
                say("a kernel's assertion was printed: an index was out of range there"),
                STRONG,
                assertion,
            )
        )
    if len(ranks) > 1:
        support.append(
            evidence(
                say(
                    "{count} ranks met it; which one was first cannot be told from errors "
                    "that are reported late",
                    count=len(ranks),
                ),
                0.0,
                first,
            )
        )
    for leak in job.all(ResourceLeak)[:1]:
        support.append(
            evidence(
                say(
                    "the leaked {what} is a consequence: its owner was ended",
                    what=leak.what.replace("_", " "),
                ),
                0.0,
                leak,
            )
        )
    if job.blocked and after.blocked is None:
        against.append(
            evidence(
                say("the rank that met it waited in the collective with the others"),
                WEAK,
                job.blocked[0].stall.first,
            )
        )
    exonerated = [
        Exonerated(
            "nccl",
            say(
                "the error belongs to the process's CUDA context; any kernel "
                "launched before can have caused it"
            ),
            (first.place,),
        ),
    ]
    if not job.all(NcclError) and not job.blocked:
        exonerated.append(
            Exonerated("network-transport", say("no NCCL or socket error stands in the input"), ())
        )
    group = first.group
    named = ProcessGroup(id=group.pg_id, guid=group.guid, name=group.description)
    told = group.pg_id is not None or group.description
    yield after.finding(
        "illegal-memory-access",
        _summary(ranks, after.waiting),
        support,
        against,
        fixes=_fixes(job),
        next_step=say(
            "run once more with CUDA_LAUNCH_BLOCKING=1 and CUDA graphs off; the Python line that "
            "then fails launched the kernel. Or set CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 and open "
            "the dump with cuda-gdb, which names the kernel"
        ),
        origin=origin_of(
            program,
            ranks[:1] if len(ranks) > 1 and first.through != "watchdog" else ranks,
            role="inference" if program is None and _serves(job) else "trainer",
            group=named if told else None,
        ),
        exonerated=exonerated,
        excerpts=[excerpt(leak, "consequence") for leak in job.all(ResourceLeak)[:1]],
        shown_as="messenger" if first.through == "watchdog" else "origin",
        # the error's class is plain; which kernel it was stays open until a blocking run
        ceiling=0.9,
    )


def _rank(error: CudaError) -> int | None:
    return error.speaker.rank if error.speaker.rank is not None else error.group.rank


def _who(error: CudaError) -> Text:
    rank = _rank(error)
    if rank is None:
        return say("a process whose rank the log does not tell")
    return say("rank {rank}", rank=rank)


def _group_name(error: CudaError) -> Text:
    group = error.group
    if group.description:
        return say("process group {name}", name=group.description)
    if group.pg_id is not None:
        return say("process group {name}", name=group.pg_id)
    return say("a process group")


def _frame(error: CudaError) -> str:
    function, file, line = error.frames[-1]
    return f"{file}:{line} ({function})"


def _summary(ranks: list[int], waiting: tuple[int, ...]) -> Text:
    if ranks and waiting:
        return say(
            "A CUDA kernel in the process of rank {rank} made an invalid memory access; {others} "
            "only waited or report a lost peer. The lines do not show which kernel it was.",
            rank=ranks[0],
            others=ranks_text(waiting),
        )
    if ranks:
        return say(
            "A CUDA kernel in the process of rank {rank} made an invalid memory access; the lines "
            "that report it do not show which kernel.",
            rank=ranks[0],
        )
    return say(
        "A CUDA kernel made an invalid memory access; the lines that report it do not show "
        "which kernel."
    )


def _serves(job: Job) -> bool:
    return bool(job.of_role("inference", "rollout"))


def _fixes(job: Job) -> tuple[Fix, ...]:
    fixes = [
        Fix(
            say(
                "find the kernel first: CUDA_LAUNCH_BLOCKING=1 with CUDA graphs off, or "
                "compute-sanitizer --tool memcheck on a small run"
            )
        ),
    ]
    if _serves(job):
        fixes.append(
            Fix(
                say(
                    "to narrow it down in an inference server, one at a time: graphs off "
                    "(--enforce-eager), custom all-reduce off (--disable-custom-all-reduce), "
                    "another attention back end, no quantised kernels"
                )
            )
        )
    fixes.append(
        Fix(
            say(
                "then update the library that holds the kernel, or report it there with "
                "the kernel's name"
            )
        )
    )
    return tuple(fixes)


CAUSE = Cause(
    id="illegal-memory-access",
    family="device",
    title=say("a kernel read or wrote memory it must not"),
    about=say(
        "A kernel accessed an invalid or misaligned address, or failed to launch. CUDA reports "
        "this later, at whatever call looks next, and every later call of the process fails the "
        "same way. The watchdog thread of a process group looks all the time, so it is often the "
        "first to meet the error; it did not make it, and neither did NCCL."
    ),
    shows=(
        say(
            "“CUDA error: an illegal memory access was encountered”, “misaligned address”, "
            "“unspecified launch failure”"
        ),
        say("the same text from “Process group watchdog thread terminated with exception”"),
        say("Xid 13, 31 or 43 in the kernel log"),
    ),
    decide=say(
        "a run with blocking launches and without CUDA graphs, or a GPU core dump: both "
        "name the kernel"
    ),
    remedies=(
        say("find the kernel: CUDA_LAUNCH_BLOCKING=1, graphs off, compute-sanitizer"),
        say("update or replace the library that holds it"),
    ),
    look_alikes=(
        LookAlike("device-assert", say("a kernel's own assertion prints its expression before")),
        LookAlike("gpu-hardware", say("ECC, NVLink or Xid 48, 74, 79, 94, 95 name the hardware")),
        LookAlike("engine-desync", say("a time-out, not a CUDA error, is what the watchdog tells")),
    ),
    examine=examine,
    sources=(
        "CUDA Runtime API, error codes 700-719",
        "PyTorch ProcessGroupNCCL.cpp 2.3-2.13",
        "NVIDIA Xid errors, GPU deployment documentation",
    ),
)
