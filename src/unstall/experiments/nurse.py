"""The runner's side of the nursery: start it, ask it for processes, hear of their ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from unstall.model.text import Text, say
from unstall.processes import tree
from unstall.processes.own_python import running


class LabError(Exception):
    """An experiment cannot be run; ``text`` says why and what to do."""

    def __init__(self, text: Text) -> None:
        super().__init__(text.render())
        self.text = text


TORCH_MISSING = say(
    "torch is not installed: scenarios run real torch.distributed processes. Install it with: "
    "pip install '.[lab]' in the folder of unstall's source (or pip install torch psutil py-spy)"
)
PSUTIL_MISSING = say(
    "psutil is not installed: it is needed to stop what an experiment starts. Install it with: "
    "pip install '.[lab]' in the folder of unstall's source (or pip install torch psutil py-spy)"
)


def require_lab() -> None:
    """Check what experiments need, without loading torch.

    Raises:
        LabError: torch or psutil is missing.
    """
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise LabError(TORCH_MISSING)
    if importlib.util.find_spec("psutil") is None:
        raise LabError(PSUTIL_MISSING)


class Nurse:
    """Starts processes through a nursery; a context manager that leaves nothing behind."""

    def __init__(self, seconds: float = 180.0) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._started: dict[str, int] = {}
        self._ended: dict[int, int] = {}

    def __enter__(self) -> Nurse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The nursery's process id, once it runs."""
        return self._process.pid if self._process is not None else None

    def open(self) -> None:
        """Start the nursery and wait until it has loaded torch.

        Raises:
            LabError: torch is missing or does not load.
        """
        if self._process is not None:
            return
        from unstall.experiments.nursery import PADDING

        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYTHONUNBUFFERED": "1",
        }
        self._process = subprocess.Popen(
            running("unstall.experiments.nursery", PADDING),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        tree.waited_elsewhere(self._process.pid)
        first = self._next(self._seconds)
        if first is None or not first.get("ready"):
            error = (first or {}).get("error", "the process that loads it ended")
            self.close()
            raise LabError(
                say(
                    "torch could not be loaded: {error}. Install it with: "
                    "pip install '.[lab]' in the folder of unstall's source (or pip install torch "
                    "psutil py-spy)",
                    error=str(error),
                )
            )

    def start(
        self, *, module: str, title: str, log: Path, folder: Path, environment: dict[str, str]
    ) -> int:
        """Start a process; its id.

        Raises:
            LabError: the nursery has gone.
        """
        self.open()
        key = f"{module}.{time.monotonic_ns()}"
        request = {
            "key": key,
            "module": module,
            "title": title,
            "log": str(log),
            "folder": str(folder),
            "environment": environment,
        }
        assert self._process is not None and self._process.stdin is not None  # noqa: S101, PT018
        with contextlib.suppress(OSError):
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        end = time.monotonic() + 60
        while key not in self._started:
            if self._next(max(end - time.monotonic(), 0)) is None:
                raise LabError(say("The process that starts the ranks ended unexpectedly."))
        return self._started.pop(key)

    def ended(self) -> dict[int, int]:
        """Exit codes of the processes that have ended so far, by process id."""
        while self._next(0) is not None:
            pass
        return dict(self._ended)

    def clear(self) -> list[int]:
        """Kill everything below the nursery but itself; those that could not be killed."""
        self._ended.clear()
        if self._process is None or self._process.poll() is not None:
            return []
        left = tree.kill_below(self._process.pid)
        self.ended()
        self._ended.clear()
        return left

    def close(self) -> None:
        """Stop everything, the nursery too."""
        process, self._process = self._process, None
        if process is None:
            return
        tree.kill_below(process.pid)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _next(self, seconds: float) -> dict[str, Any] | None:
        """The next answer of the nursery, ``None`` where there is none in time."""
        if self._process is None or self._process.stdout is None:
            return None
        end = time.monotonic() + seconds
        while b"\n" not in self._pending:
            left = max(end - time.monotonic(), 0)
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            if not ready:
                return None
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "started" in answer:
            self._started[answer["key"]] = answer["started"]
        elif "ended" in answer:
            self._ended[answer["ended"]] = answer["code"]
        return answer
