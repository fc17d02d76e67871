"""A process that has loaded torch and forks the ranks of scenarios, run after run.

Loading torch takes seconds a rank; forking from a process that has it takes milliseconds. The
ranks are processes of their own in every respect that matters here: memory, descriptors, signals,
sessions. The nursery adopts orphans, so that nothing that a scenario started can get lost, and
ends with the process that started it.

Run as ``python -m unstall.experiments.nursery``: one JSON request a line on standard input, one
JSON answer a line on standard output.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from unstall.experiments.child import Lab, die_with_parent, set_title
from unstall.processes import tree

#: Room for the titles that forked processes give themselves.
PADDING = "." * 200


def main() -> None:
    """Serve requests until standard input closes."""
    die_with_parent()  # while torch loads, nothing is there to be cleared away
    tree.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    segments = tree.segments()
    answer: dict[str, Any] = {"ready": True}
    try:
        _load()
    except ImportError as error:
        answer = {"ready": False, "error": str(error)}
    die_with_parent(0)
    folders: set[str] = set()
    try:
        _tell(answer)
        _serve(folders)
    except BrokenPipeError:
        pass
    finally:  # whoever started this has gone, or would have killed it
        _clear(folders, segments)


def _serve(folders: set[str]) -> None:
    watched: set[int] = set()
    pending = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.05)
        if ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            pending += data
            while b"\n" in pending:
                line, pending = pending.split(b"\n", 1)
                request = json.loads(line)
                folders.add(request["folder"])
                watched.add(_start(request))
        _reap(watched)


def _clear(folders: set[str], segments: set[str]) -> None:
    """Kill what was started and remove what it left: segments, cgroups, the runs' own folders."""
    seen = tree.below(os.getpid())
    tree.kill_below(os.getpid())
    tree.remove_segments(segments, seen, [Path(folder).name for folder in folders])
    for folder in folders:
        tree.remove_cgroups(Path(folder) / "cgroups")
        shutil.rmtree(folder, ignore_errors=True)


def _load() -> None:
    import warnings

    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch
    import torch.distributed
    import torch.nn

    torch.set_num_threads(1)
    # the first use of some parts imports much more; let the ranks find it done
    import torch.distributed.fsdp
    import torch.distributed.tensor


def _tell(answer: dict[str, Any]) -> None:
    os.write(1, (json.dumps(answer) + "\n").encode())


def _reap(watched: set[int]) -> None:
    """Tell of the ends of started processes; adopted orphans are only buried."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in watched:
            watched.discard(pid)
            _tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _start(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        _tell({"started": pid, "key": request["key"]})
        return pid
    try:
        _become(request)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _become(request: dict[str, Any]) -> None:
    """In the fork: turn into the process that was asked for."""
    os.setsid()
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 256)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    set_title(request["title"])
    sys.argv = [request["module"]]
    run_main(request["module"])


def run_main(module: str) -> None:
    """Run a scenario's ``main`` as Python runs a script: hooks, exit codes and all."""
    code = 0
    try:
        importlib.import_module(module).main(Lab())
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException as error:
        trace = error.__traceback__
        error = error.with_traceback(trace.tb_next if trace is not None else None)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
