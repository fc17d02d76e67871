"""The list of processes, as ``ps`` prints it: what a user looks at when a stack cannot be had."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: States of processes that are stopped by a signal or a tracer.
STOPPED = ("stopped", "tracing-stop")


def process_list(pids: Sequence[int], target: Path) -> bool:
    """Write the list of these processes if one of them is stopped; whether it was written.

    A stopped process answers no one: no stack can be taken of it, and no dump comes from it.
    """
    import psutil

    tool = shutil.which("ps")
    stopped = False
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            stopped = stopped or psutil.Process(pid).status() in STOPPED
    if tool is None or not stopped:
        return False
    command = [tool, "-o", "pid,ppid,stat,etime,wchan:20,args", "-p", ",".join(map(str, pids))]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
            env={**os.environ, "COLUMNS": "200", "LC_ALL": "C"},
        )
        if done.stdout:
            target.write_text(done.stdout, encoding="utf-8")
            return True
    return False
