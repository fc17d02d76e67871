"""``cuda-oom``: a GPU's memory ran out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.causes.aftermath import Aftermath, aftermath
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
from unstall.causes.python_exception import user_frame
from unstall.causes.reasons import judged
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    CudaOutOfMemory,
    Fact,
    NcclError,
    NcclWarning,
    Phase,
    PythonException,
    ResourceLimit,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

#: A CUDA context without tensors takes 250 to 700 MiB on current devices (driver 470 to 580).
CONTEXT = 900.0
#: A share of the device from which on another process is a program, not a context.
FOREIGN = 0.15
#: PyTorch's words for a size beyond reason: a length received from a peer that was never sent.
_NO_SIZE = re.compile(r"more than 1EB memory")
#: NCCL's words for a failed allocation on the device (``src/include/alloc.h``).
REFUSED = re.compile(r"Failed to CUDA (?:calloc|malloc)(?! host)")


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first exhausted device."""
    told = list(job.all(CudaOutOfMemory))
    errors = [error for error in job.all(CudaError) if error.name == "OutOfMemory"]
    if not told and not errors:
        yield from _refused(job)
        return
    first: Fact = job.chronology.in_order([*told, *errors])[0]
    detail = next((t for t in told if t.total is not None), told[0] if told else None)
    after = aftermath(job, first, ranks_told(job, [*told, *errors]))
    support: list[Evidence] = [_told(first, detail)]
    against: list[Evidence] = [
        *survived_evidence(job, first),
        *echo_evidence(
            job, first, besides=(CudaError, CudaOutOfMemory, PythonException, ResourceLimit)
        ),
    ]
    support += _where(job, first)
    contexts = _contexts(detail)
    if detail is not None:
        support.extend(_shares(detail, against, contexts))
    if _NO_SIZE.search(first.quote):
        text = say("no device has so much: the size that was asked for was garbage, not a need")
        against.append(evidence(text, STRONG + FAIR, first, source="c10/cuda: kMaxSize"))
    for judgement in judged(job, "device-overlap", "conflict")[:1]:
        against.append(
            evidence(
                say(
                    "the launch script gives one device to two programs ({setting}): each leaves "
                    "the other too little",
                    setting=judgement.name,
                ),
                STRONG,
                judgement.places[0] if judgement.places else None,
                source=None if judgement.places else "launch script",
            )
        )
    warned = next(
        (
            w
            for w in job.all(NcclWarning)
            if w.topic == "cuda" and "out of memory" in w.values.get("error", "")
        ),
        None,
    )
    if warned is not None:
        support.append(
            evidence(
                say("NCCL met it too: its buffers need device memory of their own"), 0.0, warned
            )
        )
    phase = _phase(job, first)
    if phase is not None:
        support.append(
            evidence(
                say("the last phase told before it: {quote}", quote=phase.quote[:100]), 0.0, phase
            )
        )
    yield after.finding(
        "cuda-oom",
        _summary(after, detail, contexts),
        support,
        against,
        fixes=_fixes(after.program, contexts),
        next_step=say(
            "look at the device while it fills: nvidia-smi (who else is on it), and "
            "torch.cuda.memory_summary() or torch.cuda.memory._dump_snapshot() on that rank just "
            "before"
        ),
        origin=after.origin(role="trainer"),
        exonerated=[
            Exonerated(
                "host-oom",
                say("it is the memory of a GPU: the process ended by an exception, not by SIGKILL"),
                (first.place,),
            ),
            *_waiters(after),
        ],
        excerpts=[excerpt(one, "origin") for one in told[1:2]],
        ceiling=0.96,
    )


def _refused(job: Job) -> Iterable[Finding]:
    """NCCL got no device memory for its own buffers, and says no more than that.

    ``alloc.h`` tells the failed call in a warning before; where logs lack it only its size is left.
    Any error of the device makes the call fail, so another one that is named explains it.
    """
    refusals: list[Fact] = [
        *(error for error in job.all(NcclError) if REFUSED.search(error.last_error or "")),
        *(warning for warning in job.all(NcclWarning) if REFUSED.search(warning.message)),
    ]
    if not refusals or job.all(CudaError):
        return
    first = job.chronology.in_order(refusals)[0]
    after = aftermath(job, first, ranks_told(job, refusals))
    yield after.finding(
        "cuda-oom",
        say("NCCL found no device memory for its own buffers: most likely the GPU was full."),
        [
            evidence(
                say(
                    "NCCL could not allocate on the device: its buffers need memory beside "
                    "what PyTorch has reserved"
                ),
                STRONG + WEAK,
                first,
                source="NCCL src/include/alloc.h, 2.4-2.28",
            )
        ],
        list(survived_evidence(job, first)),
        fixes=_fixes(after.program, ()),
        next_step=say(
            "run once more with NCCL_DEBUG=WARN: the warning before this one names the CUDA error; "
            "and look at the device while it fills (nvidia-smi)"
        ),
        origin=after.origin(role="trainer"),
        exonerated=_waiters(after),
        ceiling=0.8,
    )


def _told(first: Fact, detail: CudaOutOfMemory | None) -> Evidence:
    if detail is None:
        return evidence(
            say("device memory ran out: {quote}", quote=first.quote[:160]), STRONG + FAIR, first
        )
    if detail.device is not None and detail.wanted is not None:
        text = say(
            "GPU {device} (as that process counts its devices) had no room for {wanted} MiB more",
            device=detail.device,
            wanted=round(detail.wanted),
        )
    elif detail.wanted is not None:
        text = say("a device had no room for {wanted} MiB more", wanted=round(detail.wanted))
    else:
        text = say("device memory ran out: {quote}", quote=detail.quote[:160])
    return evidence(text, STRONG + FAIR, detail)


def _where(job: Job, first: Fact) -> list[Evidence]:
    """The program's own line that asked for the memory, by the traceback of the same rank."""
    for raised in job.all(PythonException):
        memory = raised.type.endswith("OutOfMemoryError") or "CUDA out of memory" in raised.message
        frame = user_frame(raised) if memory else None
        if frame is not None and raised.speaker.rank == first.speaker.rank:
            text = say(
                "it was asked for in {function} ({file}:{line})",
                function=frame.function,
                file=frame.file,
                line=frame.line or 0,
            )
            return [evidence(text, 0.0, raised)]
    return []


def _contexts(detail: CudaOutOfMemory | None) -> tuple[tuple[int | None, float], ...]:
    """Small foreign contexts on one device: ranks that chose the wrong one."""
    if detail is None:
        return ()
    small = tuple(one for one in detail.others if 0 < one[1] <= CONTEXT)
    return small if len(small) >= 2 else ()


def foreign(detail: CudaOutOfMemory) -> list[tuple[int | None, float]]:
    """Other programs on the device: process ids and MiB."""
    # torch lists the process itself among them where ids differ: the least that fits its figure
    found = [one for one in detail.others if one[1] > CONTEXT]
    if detail.mine is not None:
        return found
    if detail.allocated is not None:
        own = [one for one in found if one[1] >= detail.allocated]
        if own:
            found.remove(min(own, key=lambda one: one[1]))
    elif found:
        found.remove(max(found, key=lambda one: one[1]))
    return found


def _shares(
    detail: CudaOutOfMemory,
    against: list[Evidence],
    contexts: tuple[tuple[int | None, float], ...],
) -> list[Evidence]:
    """Whose memory filled the device: its own, contexts of other ranks, or another program's."""
    found: list[Evidence] = []
    total = detail.total
    if contexts:
        found.append(
            evidence(
                say(
                    "{count} other processes hold a small context each ({each} MiB) on the same "
                    "device: ranks that did not choose their own device",
                    count=len(contexts),
                    each=round(sum(size for _, size in contexts) / len(contexts)),
                ),
                FAIR,
                detail,
            )
        )
    if total is None or total <= 0:
        return found
    other = sum(size for _, size in foreign(detail))
    if other / total >= FOREIGN:
        against.append(
            evidence(
                say(
                    "another process holds {other} of {total} MiB of the device: it is shared with "
                    "a second program",
                    other=round(other),
                    total=round(total),
                ),
                STRONG + FAIR,
                detail,
            )
        )
    elif detail.allocated is not None and detail.allocated / total >= 0.5:
        found.append(
            evidence(
                say(
                    "its own tensors fill it: {allocated} of {total} MiB",
                    allocated=round(detail.allocated),
                    total=round(total),
                ),
                FAIR,
                detail,
            )
        )
    return found


def _phase(job: Job, first: Fact) -> Phase | None:
    before = [p for p in job.all(Phase) if job.chronology.before(p, first) is True]
    return before[-1] if before else None


def _waiters(after: Aftermath) -> list[Exonerated]:
    if after.blocked is None:
        return []
    return [
        Exonerated(
            "time-out",
            say(
                "the time-outs are consequences: with a longer one the others would wait longer "
                "for a rank that is gone"
            ),
            (after.blocked.stall.first.place,),
        )
    ]


def _summary(
    after: Aftermath,
    detail: CudaOutOfMemory | None,
    contexts: tuple[tuple[int | None, float], ...],
) -> Text:
    if contexts:
        return say(
            "A GPU's memory ran out because several ranks put a context on the same device: they "
            "did not choose their own."
        )
    if after.ranks:
        return say("The GPU's memory ran out on {who}.", who=ranks_text(after.ranks))
    if detail is not None and detail.device is not None:
        return say(
            "The memory of GPU {device} (as the process counts its devices) ran out.",
            device=detail.device,
        )
    return say("A GPU's memory ran out.")


def _fixes(program: Program | None, contexts: tuple[tuple[int | None, float], ...]) -> list[Fix]:
    fixes: list[Fix] = []
    if contexts:
        fixes.append(
            Fix(
                say(
                    "choose the right device in every process before anything touches CUDA: "
                    "torch.cuda.set_device(local_rank), and load files with map_location"
                )
            )
        )
    if program is not None and program.role in ("rollout", "inference", "reward"):
        fixes.extend(_serving(program))
    else:
        fixes.append(
            Fix(
                say(
                    "shorter samples or a smaller batch on each device (with more accumulation), "
                    "gradient checkpointing, a higher ZeRO stage or more shards"
                )
            )
        )
    fixes.append(
        Fix(
            say(
                "against fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
                "(PYTORCH_ALLOC_CONF from PyTorch 2.9 on)"
            ),
            Change(program.label, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
            if program is not None
            else None,
        )
    )
    return fixes


def _serving(program: Program) -> list[Fix]:
    engine = program.engine or program.software
    if engine == "sglang":
        return [
            Fix(
                say(
                    "leave more room: --mem-fraction-static lower by 0.05 to 0.1, or a shorter "
                    "context"
                )
            )
        ]
    flag = (
        "vllm_gpu_memory_utilization"
        if program.software == "ms-swift"
        else ("gpu_memory_utilization")
    )
    return [
        Fix(
            say(
                "leave more room: {flag} lower by 0.05 to 0.1, fewer sequences at once "
                "(max_num_seqs), or a shorter max_model_len",
                flag=flag,
            )
        )
    ]


CAUSE = Cause(
    id="cuda-oom",
    family="one process died first",
    title=say("a GPU's memory ran out"),
    about=say(
        "An allocation on a GPU failed. The rank leaves with an OutOfMemoryError and exit code 1; "
        "the others wait for it or report a lost peer. Memory figures in the message tell whose "
        "memory it was: its own tensors, small contexts of ranks on the wrong device, or a second "
        "program."
    ),
    shows=(
        say("“CUDA out of memory. Tried to allocate …” with a GPU's number"),
        say("“Process … has … MiB memory in use” for each process on the device"),
        say("NCCL: “Cuda failure 2 'out of memory'”"),
    ),
    decide=say("nvidia-smi while it fills; a memory snapshot of that rank"),
    remedies=(
        say("shorter samples, smaller batches, checkpointing, more shards"),
        say("the right device for every rank"),
    ),
    look_alikes=(
        LookAlike("host-oom", say("exit code -9 and no traceback: the host's memory")),
        LookAlike(
            "device-overlap",
            say("another process holds a large share of the device: two programs share it"),
        ),
        LookAlike(
            "graph-capture-race",
            say("the error says that a stream is capturing; memory is only what it was doing"),
        ),
    ),
    examine=examine,
    sources=("PyTorch c10/cuda/CUDACachingAllocator.cpp, 1.13-2.14",),
)
