"""A command that runs: its processes, what it prints, its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unstall.guard.output import Kept, Stream
from unstall.guard.pace import Pace
from unstall.guard.record import Attempt
from unstall.processes import tree


@dataclass(kw_only=True)
class Job:
    """A command that runs.

    Attributes:
        process: the leash that holds it.
        before: process ids that were there before it.
        place: folder of the attempt.
        state: folder of its pipes and dumps.
        log: what it prints, kept; ``streams`` carry it on.
        attempt: what is told of it.
        environment: of the command.
        pace: of its progress.
        begun: monotonic time.
        stalled_at, stalled: when the last stall was seen, and how often there had been progress
            before it.
    """

    process: subprocess.Popen[bytes]
    before: set[int]
    place: Path
    state: Path
    log: Kept
    streams: Sequence[Stream]
    attempt: Attempt
    environment: dict[str, str]
    pace: Pace
    begun: float = field(default_factory=time.monotonic)
    stalled_at: float = 0.0
    stalled: int = 0

    def hear(self) -> bool:
        """Let the pace hear what was printed; whether it is progress."""
        progress = False
        for stream in self.streams:
            lines, rest = stream.news()
            if lines or rest:
                progress = self.pace.hear(lines, rest) or progress
        if self.attempt.first_step is None and self.pace.started:
            self.attempt.first_step = self.pace.step
        self.attempt.step = self.pace.step
        return progress

    def pids(self) -> list[int]:
        """The job's living processes, without the leash."""
        return [
            pid
            for pid in tree.below(os.getpid())
            if pid not in self.before and pid != self.process.pid
        ]

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        import psutil

        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.process.pid).children():
                with contextlib.suppress(OSError):
                    if os.getpgid(child.pid) == child.pid:
                        os.killpg(child.pid, number)


def end(job: Job) -> None:
    """End what is left of the job."""
    tree.kill_below(os.getpid(), {*job.before, job.process.pid})
    code = tree.wait_for(job.process, 5.0)
    if job.attempt.code is None:
        job.attempt.code = code
    tree.kill_below(os.getpid(), job.before)
    tree.wait_for(job.process, 10.0)
    if job.process.stdin is not None:
        job.process.stdin.close()
    tree.reap()
