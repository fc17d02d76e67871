"""Evidence of a run that hangs or fails, gathered as a user would who knows how."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

#: Names that torch gives to dumps since 2.9 (FlightRecorder.hpp).
DUMP_NAME = "nccl_trace_rank_"


def py_spy() -> str | None:
    """The py-spy beside this Python or on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def stacks(pids: Sequence[int], target: Path, seconds: float = 20.0) -> bool:
    """Write the stacks of living processes; whether there were any.

    py-spy does not tell a rank; where a launcher's variables do, a line above the stack says it.
    """
    tool = py_spy()
    if tool is None:
        return False
    # two at a time: py-spy itself takes longer than the process that it stops
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(lambda pid: _stack(tool, pid, seconds), pids))
    parts = [one for one in found if one]
    if parts:
        target.write_text("\n".join(parts), encoding="utf-8")
    return bool(parts)


def _stack(tool: str, pid: int, seconds: float) -> str:
    # a process that writes itself is asked again once; more would hold up the rest
    for _ in range(2):
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            done = subprocess.run(
                [tool, "dump", "--pid", str(pid)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
            if done.returncode == 0 and done.stdout:
                rank = rank_of(pid)
                heading = f"##### rank {rank}, pid {pid}\n" if rank is not None else ""
                return heading + done.stdout.rstrip("\n") + "\n"
    return ""


#: Variables that a launcher gives to each rank that it starts: torchrun, accelerate and deepspeed;
#: Open MPI's mpirun.
_RANKS = (("RANK", "LOCAL_RANK"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"))


def rank_of(pid: int) -> int | None:
    """The rank of a process that a launcher started; of what it starts in turn there is none.

    What a rank starts inherits its variables: only where the parent has others they are its own.
    """
    import psutil

    with contextlib.suppress(psutil.Error, OSError, ValueError):
        process = psutil.Process(pid)
        own, parent = process.environ(), process.parent()
        above = parent.environ() if parent is not None else {}
        for names in _RANKS:
            values = [own.get(name, "") for name in names]
            if all(values) and values != [above.get(name) for name in names]:
                return int(values[0])
    return None


def ask(pipe: Path) -> bool:
    """Ask the process that reads a pipe for its Flight Recorder dump; whether one was asked.

    Raises:
        OSError: the pipe is there and cannot be opened.
    """
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):  # nobody reads: the process has gone
            return False
        raise
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode) and os.write(descriptor, b"1") == 1
    except OSError:  # it went just now
        return False
    finally:
        os.close(descriptor)


Asked = list[tuple[str, str]]


def ask_for_dumps(folder: Path) -> Asked:
    """Ask every process for its recorder dump; who was asked, as program and rank.

    Args:
        folder: of the run, with the processes' pipes.
    """
    asked: Asked = []
    for pipe in sorted(folder.glob("pipe.*")):
        _, program, rank = pipe.name.rsplit(".", 2)
        (folder / f"dump.{program}.{rank}").unlink(missing_ok=True)
        if ask(pipe):
            asked.append((program, rank))
    return asked


def collect_dumps(folder: Path, asked: Asked, target: Path, seconds: float) -> dict[str, int]:
    """Collect the dumps that come; their number by program.

    A process that does not answer (stopped, dead) has no dump: that is evidence too.

    Args:
        folder: of the run.
        asked: by :func:`ask_for_dumps`.
        target: folder of the evidence; a program's dumps go into a folder of its name.
        seconds: how long to wait for the slowest.
    """
    end = time.monotonic() + seconds
    waiting = asked
    while waiting and time.monotonic() < end:
        waiting = [one for one in waiting if not (folder / f"dump.{one[0]}.{one[1]}").exists()]
        if waiting:
            time.sleep(0.05)
    found: dict[str, int] = {}
    for program, rank in asked:
        source = folder / f"dump.{program}.{rank}"
        if source.exists():
            place = target / f"{program}-dumps"
            place.mkdir(exist_ok=True)
            shutil.copyfile(source, place / f"{DUMP_NAME}{rank}")
            found[program] = found.get(program, 0) + 1
    return found


def kernel_log() -> list[str]:
    """The kernel's log, oldest line first; empty where it may not be read."""
    tool = shutil.which("dmesg")
    if tool is None:
        return []
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [tool], capture_output=True, text=True, errors="replace", timeout=5, check=False
        )
        return done.stdout.splitlines()
    return []


def kernel_news(before: list[str], target: Path) -> bool:
    """Write what the kernel said since ``before``, if it was about memory or a kill."""
    known = set(before)
    news = [line for line in kernel_log() if line not in known]
    if not any("oom" in line or "Killed process" in line for line in news):
        return False
    target.write_text("\n".join(news) + "\n", encoding="utf-8")
    return True
