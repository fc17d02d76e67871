"""Stands between unstall and a launch script, so that nothing outlives unstall, however it ends.

Processes of a script have sessions of their own and are not told when unstall is killed. The leash
adopts whatever loses its parent, reads a pipe whose other end only unstall has, and when that
closes it kills everything below it and removes the files that it was told of. It ends as the
script's shell does, with its exit code or signal; SIGTERM is handed on to the shell's group.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from unstall.processes import tree
from unstall.processes.own_python import running


def command(words: Sequence[str], remove: Sequence[Path] = ()) -> list[str]:
    """The command that runs another under a leash.

    Args:
        words: the command.
        remove: files and folders to remove if whoever started the leash ends before it.
    """
    paths = json.dumps([str(path.absolute()) for path in remove])
    return running("unstall.processes.leash", paths, *words)


def main() -> None:
    """Run a command; the pipe is standard input. Does not return."""
    _, paths, *words = sys.argv
    remove = [Path(path) for path in json.loads(paths)]
    segments = tree.segments()
    tree.adopt_orphans()
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # handlers, not SIG_IGN: the command would inherit that
        signal.signal(number, lambda number, _frame: told.append(number))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    shell = process.pid  # without the name above Popen would bury it in our place
    while (code := _buried(shell)) is None:
        if signal.SIGTERM in told:
            told.clear()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(shell, signal.SIGTERM)
        if select.select([0], [], [], 0.05)[0] and not os.read(0, 1):
            _alone(segments, remove)
    _end_as(code)


def _buried(shell: int) -> int | None:
    """Bury what has ended, adopted orphans too; the shell's exit code once it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == shell:
                code = os.waitstatus_to_exitcode(status)
            elif pid == 0:
                break
    return code


def _alone(segments: set[str], remove: Sequence[Path]) -> None:
    """Whoever started the leash has gone; does not return."""
    seen = tree.below(os.getpid())
    tree.kill_below(os.getpid())
    tree.remove_segments(segments, seen)
    for path in remove:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    os._exit(1)


def _end_as(code: int) -> None:
    if code < 0:
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
