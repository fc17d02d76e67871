"""Process trees: who is alive, how all of them are stopped, what they leave behind.

Everything that an experiment starts is below one process that adopts orphans
(``PR_SET_CHILD_SUBREAPER`` on Linux): daemons and processes with sessions of their own are found
too, and no process is ever found by its name.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108 - the system's folder of shared-memory segments


def adopt_orphans() -> None:
    """Let orphans of this process's descendants become its children (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)


def below(root: int) -> list[int]:
    """Process ids of all living descendants of a process."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return [
            child.pid for child in psutil.Process(root).children(recursive=True) if _alive(child)
        ]
    return []


def _alive(process: object) -> bool:
    import psutil

    assert isinstance(process, psutil.Process)  # noqa: S101 - for the type checker
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return _alive(psutil.Process(pid))
    return False


def is_python(pid: int) -> bool:
    """Whether a process runs Python, so that py-spy can take its stack."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return "python" in psutil.Process(pid).exe().rpartition("/")[2].lower()
    return False


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a process, if it ends within so many seconds."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def kill_below(root: int, keep: Iterable[int] = (), seconds: float = 10.0) -> list[int]:
    """Kill all descendants of a process; those that are left after ``seconds`` are returned.

    Stopped processes are killed too. New ones that appear meanwhile are killed in the next round.
    """
    kept = set(keep)
    end = time.monotonic() + seconds
    while True:
        left = [pid for pid in below(root) if pid not in kept]
        if not left or time.monotonic() > end:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reap()
        time.sleep(0.02)


def reap() -> None:
    """Bury this process's own orphans that have ended, and only those that nobody waits for."""
    import psutil

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if child.status() == psutil.STATUS_ZOMBIE and child.pid not in _WAITED:
                    os.waitpid(child.pid, os.WNOHANG)


#: Children that a ``Popen`` of ours waits for.
_WAITED: set[int] = set()


def waited_elsewhere(pid: int) -> None:
    """Say that a child's end is collected by whoever started it."""
    _WAITED.add(pid)


def segments() -> set[str]:
    """Names of the shared-memory segments that exist."""
    with contextlib.suppress(OSError):
        return {entry.name for entry in SHM.iterdir()}
    return set()


def remove_segments(before: set[str], pids: Iterable[int], marks: Iterable[str] = ()) -> list[str]:
    """Remove the segments that these processes made and left behind; names of the removed.

    A segment is theirs where it is new and its name holds one of their process ids or marks
    (torch: ``torch_<pid>_…``; Python: ``psm_…`` has neither and is left to its resource tracker).
    """
    removed = []
    ids = {str(pid) for pid in pids}
    words = [f"_{pid}_" for pid in ids] + [mark for mark in marks if mark]
    for name in segments() - before:
        first, _, rest = name.partition("_")
        if first == "torch":  # its other numbers may happen to be a process id of this run
            own = rest.partition("_")[0] in ids
        else:
            own = any(word in f"_{name}_" for word in words)
        if own:
            with contextlib.suppress(OSError):
                (SHM / name).unlink()
                removed.append(name)
    return removed


def listening(pids: Iterable[int]) -> set[int]:
    """TCP ports on which these processes listen."""
    import psutil

    ports: set[int] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            for connection in psutil.Process(pid).net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr:
                    ports.add(connection.laddr.port)
    return ports


def remove_cgroups(listed: Path) -> None:
    """Remove the cgroups whose folders a file lists; their processes have ended."""
    with contextlib.suppress(OSError):
        for folder in dict.fromkeys(listed.read_text(encoding="utf-8").split()):
            for _ in range(50):
                with contextlib.suppress(FileNotFoundError):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        time.sleep(0.05)
                        continue
                break
