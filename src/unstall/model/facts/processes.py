"""How processes end, and what the system refused them."""

from __future__ import annotations

import re

import msgspec

from unstall.model.facts.base import Fact, Moment

#: A ``CalledProcessError`` of a tool that a program ran (a compiler, pip), not of a process of the
#: job whose parent tells its end: launchers run Python, another launcher or a shell.
RAN_A_TOOL = re.compile(
    r"CalledProcessError: Command ['\"(]?\[?['\"]"
    r"(?:(?!(?:[\w.+~-]*/)*(?:python|torchrun|accelerate|deepspeed|mpi|srun|bash|sh\b|ray\b|swift"
    r"|llamafactory))[\w./+~-]+|.{1,200}?(?:-m',? '?pip\b|\bsetup\.py))"
)


class Frame(msgspec.Struct, frozen=True):
    """One Python or native frame."""

    function: str
    file: str
    line: int | None = None
    native: bool = False


class PythonException(Fact, frozen=True, kw_only=True):
    """A Python traceback that ended in an exception.

    Attributes:
        type: exception class as written, dotted.
        message: first lines of its message, at most 2000 characters.
        frames: outermost first.
        notes: ``chained`` causes' types, innermost first.
        frames_from: what printed it when that is not the process itself: ``launcher``, ``ray``.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    notes: tuple[str, ...] = ()
    frames_from: str | None = None


class CutTraceback(Fact, frozen=True, kw_only=True):
    """A traceback whose last line, the exception, is not in the input: something failed.

    Attributes:
        frames: outermost first, as far as they were printed.
    """

    frames: tuple[Frame, ...] = ()


class ProcessEnd(Fact, frozen=True, kw_only=True):
    """A process ended, as a launcher, scheduler or parent reports it.

    Attributes:
        exit_code: as Python counts: negative for signals. 128+N of shells is turned into -N.
        signal: name such as ``SIGKILL``.
        rank, local_rank, pid, host: of the process that ended.
        reporter: ``torchrun``, ``deepspeed``, ``accelerate``, ``slurm``, ``ray``, ``spawn``,
            ``dataloader``, ``lightning``, ``composer``, ``vllm``, ``sglang``, ``shell``.
        first: the launcher's own claim that this was the first failure (not to be believed).
        moment_ended: when it ended, where the report gives it.
    """

    exit_code: int | None = None
    signal: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    reporter: str = "torchrun"
    first: bool = False
    moment_ended: Moment | None = None


class SignalSent(Fact, frozen=True, kw_only=True):
    """A launcher or operator sent a signal (``closing signal SIGTERM``).

    A consequence, unless it is the first event of the log.

    Attributes:
        target_pid: process that got it, where told.
        received: the speaker received it rather than sent it.
    """

    signal: str
    target_pid: int | None = None
    received: bool = False


class FatalSignal(Fact, frozen=True, kw_only=True):
    """faulthandler or the C library caught a fatal signal in the speaker.

    Attributes:
        what: ``Segmentation fault``, ``Aborted``, ``Bus error``, …
    """

    what: str
    frames: tuple[Frame, ...] = ()


class Terminated(Fact, frozen=True, kw_only=True):
    """The C++ runtime ended the speaker with SIGABRT (libstdc++'s ``terminate called …``).

    Attributes:
        exception: type of the exception that nobody caught; ``None`` where there was none: a
            thread was destroyed or unwound while it ran.
    """

    exception: str | None = None


class MemoryKill(Fact, frozen=True, kw_only=True):
    """The kernel, a cgroup, Slurm or Ray's memory monitor killed for host memory.

    Attributes:
        by: ``kernel``, ``cgroup``, ``slurm``, ``ray``, ``kubernetes``.
        pid, process: the victim.
    """

    by: str
    pid: int | None = None
    process: str | None = None


class HostMemory(Fact, frozen=True, kw_only=True):
    """A printed host memory figure, 0 to 100 percent, or GB used."""

    percent: float | None = None
    used_gb: float | None = None


class ResourceLimit(Fact, frozen=True, kw_only=True):
    """The system refused a resource.

    Attributes:
        kind: ``threads``, ``files``, ``shm``, ``memory``, ``disk``, ``semaphores``,
            ``locked-memory``.
        path: file or segment concerned.
        size: bytes wanted.
    """

    kind: str
    path: str | None = None
    size: int | None = None


class SchedulerEvent(Fact, frozen=True, kw_only=True):
    """What a scheduler did to the job.

    Attributes:
        kind: ``cancelled``, ``time-limit``, ``preempted``, ``node-failure``, ``evicted``,
            ``requeued``.
        scheduler: ``slurm``, ``kubernetes``, ``ray``, ``volcano`` …
    """

    kind: str
    scheduler: str = "slurm"
    node: str | None = None


class WorkerGroupRestart(Fact, frozen=True, kw_only=True):
    """A launcher started its workers again: what follows is another attempt."""

    attempt: int | None = None


class ResourceLeak(Fact, frozen=True, kw_only=True):
    """resource_tracker or a destructor complains at exit: a symptom, never a cause.

    Attributes:
        what: ``semaphore``, ``shared_memory``, ``process-group``.
    """

    what: str
    count: int | None = None


class StoppedProcess(Fact, frozen=True, kw_only=True):
    """A process that is alive and does not run, by a list of processes.

    Attributes:
        pid, command: of the process.
        how: by a ``signal``, a ``tracer`` (debugger) or a ``freezer`` (a cgroup that is frozen).
        rank: by its command line.
    """

    pid: int
    command: str
    how: str = "signal"
    rank: int | None = None
