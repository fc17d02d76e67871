"""``graph-capture-race``: a CUDA graph was being captured while another thread used the device."""

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
    CudaError,
    CudaOutOfMemory,
    Fact,
    Phase,
    ProcessEnd,
    Progress,
    PythonException,
    ResourceLimit,
    WatchdogError,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix, ProcessGroup
from unstall.model.plan import Program
from unstall.model.text import Text, say

#: Errors of a capture (CUDA runtime 12.9, codes 900 to 908). ``CapturedEvent`` is what a thread
#: gets that asks for an event recorded in a capturing stream, as the watchdog does.
CAPTURED = ("CapturedEvent",)
BROKEN = (
    "StreamCaptureUnsupported",
    "StreamCaptureInvalidated",
    "StreamCaptureMerge",
    "StreamCaptureImplicit",
    "StreamCaptureIsolation",
    "StreamCaptureUnjoined",
    "StreamCaptureWrongThread",
)


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first error of a capture."""
    errors = [e for e in job.all(CudaError) if e.name in CAPTURED or e.name in BROKEN]
    if not errors:
        return
    found = job.chronology.in_order(errors)[0]
    assert isinstance(found, CudaError)  # noqa: S101 - narrows for the type checker
    first = next((e for e in errors if e.through == "watchdog"), found)
    after = aftermath(job, first, ranks_told(job, errors))
    watched = first.through == "watchdog"
    support: list[Evidence] = []
    if watched:
        support.append(
            evidence(
                say(
                    "a watchdog thread asked for an event while a stream was being captured and "
                    "got “{text}”: two threads met, no kernel failed",
                    text=first.text,
                ),
                STRONG + FAIR,
                first,
                source="CUDA Runtime API, cudaStreamCaptureModeGlobal; PyTorch "
                "ProcessGroupNCCL.cpp, WorkNCCL::finishedGPUExecutionInternal",
            )
        )
    else:
        support.append(
            evidence(
                say("“{text}”: the device was used during a capture", text=first.text),
                # "a previous error during capture" only says that there was another before
                STRONG
                if first.name in CAPTURED
                else WEAK
                if first.name == "StreamCaptureInvalidated"
                else FAIR,
                first,
            )
        )
    capturing = _capturing(job, first)
    if capturing is not None:
        support.append(
            evidence(
                say("a graph capture was in progress: {quote}", quote=capturing.quote[:120]),
                FAIR + WEAK,
                capturing,
            )
        )
    aborted = next((end for end in job.all(ProcessEnd) if end.exit_code == -6), None)
    if aborted is not None and watched:
        support.append(
            evidence(
                say("exit code -6 is SIGABRT: the watchdog's uncaught exception ended the process"),
                WEAK,
                aborted,
            )
        )
    against: list[Evidence] = [
        *survived_evidence(job, first),
        *echo_evidence(
            job, first, besides=(CudaError, PythonException, WatchdogError, ResourceLimit)
        ),
    ]
    exhausted = job.first(CudaOutOfMemory)
    if exhausted is not None and job.chronology.before(exhausted, first) is not False:
        against.append(
            evidence(
                say("device memory ran out during the capture, which breaks it too"),
                STRONG,
                exhausted,
            )
        )
    other = next((e for e in job.all(CudaError) if e.name not in (*CAPTURED, *BROKEN)), None)
    if other is not None and job.chronology.before(other, first) is True:
        against.append(
            evidence(say("another CUDA error came first: {text}", text=other.text), STRONG, other)
        )
    group = first.group
    named = (
        ProcessGroup(id=group.pg_id, guid=group.guid, name=group.description)
        if group.pg_id is not None or group.description
        else None
    )
    serves = _serves(job, after.program)
    yield after.finding(
        "graph-capture-race",
        _summary(after.ranks, watched),
        support,
        against,
        fixes=_fixes(after.program, serves),
        next_step=say(
            "start once with CUDA graphs off (vLLM: --enforce-eager; SGLang: --disable-cuda-graph; "
            "torch.compile: mode without cudagraphs): if it then starts every time, it was the "
            "capture"
        ),
        origin=after.origin(role="inference" if serves else "trainer", group=named),
        exonerated=_exonerated(first, aborted),
        excerpts=[excerpt(one, "origin") for one in (capturing,) if one is not None],
        ceiling=0.92 if watched else 0.75,
    )


def _capturing(job: Job, first: CudaError) -> Fact | None:
    """A capture that had begun and not ended before the error."""
    begun: Fact | None = None
    for phase in job.all(Phase):
        if phase.kind != "graph-capture" or job.chronology.before(phase, first) is False:
            continue
        begun = None if phase.finished else phase
    for bar in job.all(Progress):
        label = bar.label.lower()
        if "captur" not in label and "cuda graph" not in label:
            continue
        if job.chronology.before(bar, first) is False:
            continue
        begun = None if bar.total is not None and bar.done == bar.total else bar
    return begun


def _serves(job: Job, program: Program | None) -> bool:
    if program is not None:
        return program.role in ("inference", "rollout", "reward")
    return bool(job.of_role("inference", "rollout"))


def _summary(ranks: tuple[int, ...], watched: bool) -> Text:
    if watched and ranks:
        return say(
            "The watchdog thread of {who} asked for an event while the process captured a CUDA "
            "graph; the capture and the process ended by that race.",
            who=ranks_text(ranks),
        )
    if watched:
        return say(
            "A watchdog thread asked for an event while the process captured a CUDA graph; the "
            "capture and the process ended by that race."
        )
    return say("The device was used in a way that a CUDA graph's capture does not allow.")


def _fixes(program: Program | None, serves: bool) -> list[Fix]:
    fixes = [
        Fix(
            say(
                "update PyTorch, NCCL and the engine: newer releases keep the watchdog away from "
                "events of a capture"
            )
        )
    ]
    software = (program.engine or program.software) if program is not None else ""
    if serves and program is not None and software == "sglang":
        fixes.append(
            Fix(
                say("until then start without graphs: --disable-cuda-graph (slower)"),
                Change(program.label, {"disable_cuda_graph": "true"}),
            )
        )
    elif serves and program is not None:
        prefix = "vllm_" if program.software == "ms-swift" else ""
        fixes.append(
            Fix(
                say("until then start without graphs: --enforce-eager (slower)"),
                Change(program.label, {f"{prefix}enforce_eager": "true"}),
            )
        )
    else:
        fixes.append(Fix(say("until then run without CUDA graphs (slower)")))
    fixes.append(
        Fix(
            say(
                'in code of your own: capture with capture_error_mode="thread_local", and '
                "synchronize all outstanding collectives before the capture"
            )
        )
    )
    return fixes


def _exonerated(first: CudaError, aborted: ProcessEnd | None) -> list[Exonerated]:
    found = [
        Exonerated(
            "nccl",
            say("the error belongs to CUDA's capture; the collective itself did not fail"),
            (first.place,),
        )
    ]
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
    return found


CAUSE = Cause(
    id="graph-capture-race",
    family="device",
    title=say("another thread used the device during a graph capture"),
    about=say(
        "While a CUDA graph is captured, many calls are forbidden to the whole process. The "
        "watchdog thread of a process group asks for its events all the time; if one of them was "
        "recorded in the capturing stream, or the capture is of the global mode, the call fails, "
        "the capture becomes invalid and the watchdog ends the process. It happens now and then, "
        "at start-up."
    ),
    shows=(
        say("“operation not permitted on an event last recorded in a capturing stream”"),
        say("“operation failed due to a previous error during capture”"),
        say("“Capturing CUDA graphs” not finished, exit code -6"),
    ),
    decide=say("starts with graphs off: none fails"),
    remedies=(
        say("a newer PyTorch, NCCL and engine"),
        say("graphs off, to confirm or until then"),
    ),
    look_alikes=(
        LookAlike("host-oom", say("exit code -9, no capture error")),
        LookAlike("cuda-oom", say("an OutOfMemoryError during the capture comes first")),
        LookAlike(
            "illegal-memory-access",
            say("the error says “illegal memory access” and not “capture”"),
        ),
    ),
    examine=examine,
    sources=("CUDA Runtime API, errors 900-908", "PyTorch ProcessGroupNCCL.cpp 2.1-2.13"),
)
