"""Processes that failed by themselves, told from those that were taken down by others.

When one rank dies, the others report remote errors, closed connections, time-outs and signals. A
death here is an event that needs no other rank's failure to explain it.
"""

from __future__ import annotations

import re

import msgspec

from unstall.model.facts import (
    CudaError,
    CudaOutOfMemory,
    DeviceAssert,
    Fact,
    FatalSignal,
    MemoryKill,
    NcclError,
    ProcessEnd,
    PythonException,
    ResourceLimit,
    SignalSent,
    WatchdogError,
)
from unstall.model.facts.processes import RAN_A_TOOL

#: Exceptions that only pass on what happened elsewhere: launchers' summaries, closed connections,
#: aborted communicators, dead engines, interrupts. Matched against "type: message".
MESSENGERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException"
    r"|RendezvousClosedError|RendezvousGracefulExitError"
    r"|SignalException|KeyboardInterrupt|EngineDeadError|EngineGenerateError|ActorDiedError"
    r"|RayActorError|WorkerCrashedError|BrokenProcessPool|SystemExit|BrokenPipeError|EOFError"
    r"|communicator was aborted|Connection (closed|reset) by peer|Socket closed|Broken pipe"
    r"|originated at tensorpipe"
    r"|ncclRemoteError|remote process exited|NCCL operation timed out|collective operation timeout"
    r"|Connection was likely closed|Timed out waiting \d+ ?ms for (recv|send)"
    r"|wait timeout after|Socket Timeout|Engine core (initialization failed|proc)"
    r"|Background loop has errored|died unexpectedly|ConnectionResetError|ServerDisconnected"
    r"|RPC server|MQLLMEngine|Executor failed|worker died|scheduler died|CancelledError"
    r"|Engine loop (?:has died|is (?:dead|not running))|Task finished unexpectedly"
    r"|RPC call to \w{1,60} timed out|RayChannelTimeoutError"
    r"|[Ss]ee (?:the )?(?:stack trace|root cause)(?: \(?above\)?)?(?: for (?:the )?root cause)?"
    r"|DataLoader worker .{0,80}(exited|is killed)"
)

#: Handlers of one HTTP request: vLLM 0.6 to 0.33 and SGLang 0.4 to 0.5, ``entrypoints``.
_HANDLER = re.compile(r"/entrypoints/(?:\w{1,40}/){0,4}serving(?:_\w{1,40})?\.py$")

#: ``torch/_utils.py``, ``ExceptionWrapper``: the parent's copy of a worker's exception.
RAISED_AGAIN = re.compile(r"Caught \w{1,80} in \w")

#: Exceptions of which a more exact fact stands beside them: the device's and NCCL's errors.
DEVICE = re.compile(
    r"CUDA error|HIP error|cuda (?:runtime )?error \(|Triton Error|out of memory"
    r"|OutOfMemoryError|CUDA out of"
    r"|AcceleratorError|device-side assert"
    r"|NCCL error|DistBackendError|cublas|CUBLAS|cudnn|CUDNN|EADDRINUSE|[Aa]ddress already in use"
    r"|DistNetworkError|DistStoreError|Resource temporarily unavailable|can't start new thread"
    # a full disk is named by its path, and is an exception like others
    r"|No space left on device(?!: ['\"]?/(?!dev/shm))"
    # Ascend's device and HCCL: what a rank waited for, or a code that HCCL explains beside it
    r"|HCCL (?:function )?error|function error: (?:Hccl|aclrtSynchronize|AclrtSynchronize)"
    r"|npuSynchronize"
    # Intel's devices, by Level Zero
    r"|UR_RESULT_ERROR_|level_zero backend failed"
    r"|Detected mismatch between collectives|Bus error|bus error"
    r"|unable to (?:open|allocate|resize|mmap|write).{0,40}shared memory"
)


class Death(msgspec.Struct, frozen=True):
    """A process's own failure.

    Attributes:
        kind: ``exception``, ``device``, ``memory``, ``signal``, ``exit``.
        fact: what tells it.
        rank: global rank, where known.
    """

    kind: str
    fact: Fact
    rank: int | None = None


def is_messenger(exception: PythonException) -> bool:
    """Whether an exception only passes on another process's failure."""
    if exception.frames_from in ("launcher", "ignored"):
        return True
    # what a loader's worker raised is raised again in its parent; the worker's own is told too
    if exception.notes and RAISED_AGAIN.match(exception.message):
        return True
    # a destructor's exception is ignored by Python, also where the line that says so was cut off
    if exception.frames and exception.frames[0].function in ("__del__", "_python_exit"):
        return True
    # vLLM's queue between an engine and its workers: no answer came, the RPC's time-out follows
    if exception.frames and exception.frames[-1].file.endswith("shm_broadcast.py"):
        return True
    words = f"{exception.type}: {exception.message}"[:4000]
    return bool(MESSENGERS.search(words)) and not RAN_A_TOOL.search(words)


def of_one_request(exception: PythonException) -> bool:
    """Whether a server's handler of requests met it: it answers with an error and goes on."""
    return bool(
        exception.frames
        and _HANDLER.search(exception.frames[0].file.replace("\\", "/"))
        and not is_messenger(exception)
        and not is_device(exception)
    )


#: A line that says of an error that what failed is tried once more.
_AGAIN = re.compile(
    r"\b(?:retry(?:ing)?|try(?:ing)? again|will retry|retries left)\b|重试"
    r"|[Aa]ttempt \d{1,6} ?(?:/|of)"
)


def tried_again(exception: PythonException) -> bool:
    """Whether a line without a traceback names an error only to say that it is tried again."""
    return not exception.frames and bool(_AGAIN.search(exception.message[:2000]))


def is_device(exception: PythonException) -> bool:
    """Whether an exception is the Python side of a device, NCCL, port or limit error."""
    return bool(DEVICE.search(f"{exception.type}: {exception.message}"[:4000]))


def death_of(fact: Fact) -> Death | None:
    """The death that a fact tells, if it tells one."""
    rank = fact.speaker.rank
    if isinstance(fact, PythonException):
        if is_messenger(fact) or is_device(fact) or of_one_request(fact) or tried_again(fact):
            return None
        return Death("exception", fact, rank)
    if isinstance(fact, (CudaError, DeviceAssert, CudaOutOfMemory)):
        return Death("device", fact, rank)
    if isinstance(fact, MemoryKill):
        return Death("memory", fact, rank)
    if isinstance(fact, FatalSignal):
        # SIGABRT is how a watchdog or a failed assertion ends a process: told elsewhere
        return None if fact.what.startswith("Abort") else Death("signal", fact, rank)
    if isinstance(fact, ProcessEnd):
        known = rank if fact.rank is None else fact.rank
        if fact.exit_code in (-9, -11, -7, -4, -8):
            return Death("signal", fact, known)
        if fact.exit_code is not None and fact.exit_code > 0:
            return Death("exit", fact, known)
        return None
    if isinstance(fact, WatchdogError) and "CUDA error" in fact.error:
        return Death("device", fact, rank if rank is not None else fact.group.rank)
    if isinstance(fact, SignalSent) and fact.received and fact.signal in ("SIGTERM", "SIGKILL"):
        return Death("signal", fact, rank)
    if isinstance(fact, ResourceLimit):
        return Death("exit", fact, rank)
    if isinstance(fact, NcclError) and fact.result not in ("ncclRemoteError", "ncclInProgress"):
        return Death("device", fact, rank)
    return None
