"""The cheapest step that would decide what the input leaves open."""

from __future__ import annotations

import re

from unstall.causes import engine_signs, hccl
from unstall.causes.reasons import began
from unstall.job import Blocked, Job
from unstall.model.facts import (
    BarrierFailure,
    CollectiveMismatch,
    CudaError,
    EngineNotice,
    Fact,
    GroupStatus,
    HcclError,
    NcclError,
    NcclWarning,
    PeerLost,
    ProcessEnd,
    ProcessStack,
    PythonException,
    Remark,
    StoreFailure,
    Terminated,
    WatchdogError,
    WatchdogStuck,
)
from unstall.model.text import Text, say

_REFUSED = re.compile(r"Connection refused|server can't be reached at")


def parted_step() -> Text:
    """Where ranks are known to differ, but not in what."""
    return say(
        "get Flight Recorder dumps of all ranks (unstall trace DUMPS): the first operation that "
        "differs names the line. Meanwhile look for collectives under a condition that only some "
        "ranks meet (a save, an evaluation, a log on rank 0) and for unequal numbers of batches"
    )


def _logs_of_the_group() -> Text:
    return say(
        "get the logs of all ranks of the group: who has no time-out at this sequence number "
        "is the one that was missing; or the Flight Recorder dumps of all ranks "
        "(unstall trace DUMPS)"
    )


def stall_step(job: Job, blocked: Blocked) -> Text:
    """Where ranks wait and it is not known for what."""
    if blocked.stall.first.backend == "hccl":
        return say(
            "compare all ranks' first errors (~/ascend/log/debug/plog, and run/plog for what "
            "heartbeats saw): a rank with another or no error is the one that the others waited "
            "for; if all waited alike, look for unequal numbers of samples or batches. "
            "HCCL_EXEC_TIMEOUT is how long they wait"
        )
    if blocked.stall.is_first_collective and blocked.everyone_waits:
        return say(
            "run once with NCCL_P2P_DISABLE=1, if that changes nothing with NCCL_SHM_DISABLE=1: "
            "all ranks are in the first collective, so the way between them is what to test. "
            "NCCL_DEBUG=INFO tells which way each pair takes"
        )
    few = len(blocked.absent) <= max(1, len(blocked.stall.waiters))
    if blocked.absent and few and not job.all(ProcessStack):
        if began(job, blocked) is None:
            return say(
                "look at the missing rank: the end of its log, and a stack while it hangs "
                "(py-spy dump --pid PID)"
            )
        return say(
            "look at the missing rank: its log before {time}, and a stack while it hangs "
            "(py-spy dump --pid PID)",
            time=_time(job, blocked),
        )
    if len(blocked.stall.waiters) == 1:
        return _logs_of_the_group()
    return say(
        "get Flight Recorder dumps of all ranks (unstall trace DUMPS), or stacks of all ranks "
        "while they hang (py-spy dump --pid PID)"
    )


def _time(job: Job, blocked: Blocked) -> str:
    moment = began(job, blocked)
    return moment.stamp.strftime("%H:%M:%S") if moment is not None else "?"


def _nccl_words(fact: Fact) -> bool:
    """Whether an exception or a watchdog only passes on that NCCL failed."""
    if isinstance(fact, WatchdogError):
        return "NCCL error" in fact.error
    return isinstance(fact, PythonException) and "NCCL error" in fact.message


def deciding_step(job: Job, fact: Fact) -> Text:
    """Where all that is known is the first sign of a failure."""
    if isinstance(fact, ProcessEnd):
        return _exit_step(job, fact)
    if isinstance(fact, EngineNotice):
        return engine_signs.step(fact)
    if isinstance(fact, CudaError) and "custom_all_reduce" in fact.quote:
        return say(
            "it failed in the engine's own all-reduce, which opens the memory of other processes: "
            "run once with --disable-custom-all-reduce. If that works, see whether the memory can "
            "be shared so: PYTORCH_CUDA_ALLOC_CONF without expandable_segments, containers with "
            "--ipc=host"
        )
    if isinstance(fact, GroupStatus):
        return _logs_of_the_group()
    if isinstance(fact, CollectiveMismatch) or (
        isinstance(fact, NcclWarning) and fact.topic == "mismatch"
    ):
        return parted_step()
    if isinstance(fact, PythonException) and "store based barrier" in fact.message:
        return say(
            "see that nothing is left of an earlier attempt (ps), and start again with another "
            "port and --rdzv_id; if fewer come than there are ranks, look at the logs of those "
            "that are missing"
        )
    if _nccl_words(fact) or isinstance(fact, (NcclError, NcclWarning, PeerLost)):
        return say(
            "look for the rank that failed first: a closed connection or remote error is "
            "what its peers see. NCCL_DEBUG=INFO shows NCCL's own last words on every rank"
        )
    if isinstance(fact, PythonException) and _REFUSED.search(fact.message):
        return say(
            "look at the log of the server that was asked: nothing listened at that address at "
            "that time. It was not started, had failed, still loaded its model, or listens at "
            "another host or port"
        )
    if isinstance(fact, HcclError):
        return hccl.step(fact)
    if isinstance(fact, BarrierFailure):
        return say(
            "look at the ranks that did not come: the end of their logs, and stacks while it hangs "
            "(py-spy dump --pid PID)"
        )
    if isinstance(fact, StoreFailure):
        return say(
            "see whether the host of the store (MASTER_ADDR, rank 0) was alive, and what its "
            "log says at that time"
        )
    if isinstance(fact, WatchdogStuck):
        return say(
            "take native stacks of that rank (py-spy dump --native --pid PID): the watchdog "
            "itself was stuck in a CUDA or NCCL call"
        )
    if isinstance(fact, Remark):
        return say(
            "take stacks of all processes of the job while it stands still "
            "(py-spy dump --pid PID) and diagnose them together with the log"
        )
    return say("get the whole log of every rank, from the start of the run to its end")


def _exit_step(job: Job, end: ProcessEnd) -> Text:
    if end.reporter == "ray" and end.exit_code is None:
        return say(
            "read the dead worker's own log (/tmp/ray/session_latest/logs/worker-*PID*.err and "
            ".out on its node): the reasons that Ray lists are the same for every death"
        )
    if end.exit_code == -6 and any(one.exception is None for one in job.all(Terminated)):
        # Python up to 3.13 ends a thread that asks for its lock while it shuts down; gloo's
        # threads do so when they drop a tensor (pytorch issue 190489, pull request 179291)
        return say(
            "C++ ended the process because a thread was ended in the midst of its work. That is "
            "typical of the very end of a process: Python shuts down while a library's thread "
            "still runs. See whether the work was done and saved by then: if so, only the exit "
            "code is wrong (end process groups with destroy_process_group before the program "
            "ends); if not, take a native stack of the abort (ulimit -c unlimited, gdb)"
        )
    if end.exit_code == -6:
        return say(
            "exit code -6 is SIGABRT: the process ended itself after a failed assertion, a "
            "watchdog or an uncaught C++ exception; the reason stands above this line in "
            "the same rank's output, which the input lacks"
        )
    if end.exit_code == -9:
        return say(
            "exit code -9 is SIGKILL from outside: see dmesg, the cgroup's memory.events and "
            "the scheduler's log at that time"
        )
    if end.exit_code == -15:
        return say(
            "exit code -15 is SIGTERM: look for who sent it and for the process that failed before"
        )
    return say(
        "get the output of the rank that ended first; the launcher's report does not hold "
        "its reason"
    )
