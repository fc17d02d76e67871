"""When a job's progress is overdue, by its own pace."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from unstall.processes.steps import bars_of, step_of

#: Without a given limit: how many times the longest of the last intervals between two steps.
TIMES = 5.0
#: Bounds of such a limit, in seconds.
LEAST, MOST = 10.0, 600.0
#: Intervals that have to be known before they tell anything; how many are remembered.
ENOUGH, REMEMBERED = 3, 50
#: Progress bars that are told apart.
BARS = 1000


class Pace:
    """The step that a job's output shows, and how long the next may take.

    Attributes:
        limit: seconds without progress, as the user gave it; ``None`` learns it from the job.
        start_up: the same as long as there is no pace to learn from.
        step: the last step, of metrics or else of the progress bar that moved last.
        started: whether the job makes steps. A bar that has come to its end makes none: what
            follows may be the loading of a model.
    """

    def __init__(
        self,
        limit: float | None,
        start_up: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.start_up = start_up
        self.step = 0
        self.started = False
        self._clock = clock
        self._told = False
        self._bars: dict[str, str] = {}
        self._rest = ""
        self._intervals: deque[float] = deque(maxlen=REMEMBERED)
        self._last_step: float | None = None
        self._moved = clock()
        self._wait: float | None = None

    @property
    def idle(self) -> float:
        """Seconds since the last progress."""
        return self._clock() - self._moved

    @property
    def usual(self) -> float | None:
        """The longest of the last intervals between two steps told; ``None``: too few are known."""
        return max(self._intervals) if len(self._intervals) >= ENOUGH else None

    def hear(self, lines: Sequence[str], rest: str = "") -> bool:
        """Take in what the job printed; whether that is progress.

        Args:
            lines: whole lines.
            rest: the beginning of the next one: a bar that only returns the carriage.
        """
        grown = rest not in ("", self._rest)
        self._rest = rest
        heard = [*lines, rest] if grown else lines
        # as long as neither steps nor bars were seen, every line is progress
        progress = bool(heard) and not self._told and not self._bars
        stepped = False
        for line in heard:
            step = step_of(line)
            if step is not None:
                stepped = stepped or not self._told or step > self.step
                self.step = max(self.step, step) if self._told else step
                self._told = self.started = True
            elif self._bar(line):
                progress = True
                stepped = stepped or (self.started and not self._told)
        now = self._clock()
        if stepped:
            if self._last_step is not None:
                self._intervals.append(now - self._last_step)
            self._last_step = now
        if progress or stepped:
            self._moved, self._wait = now, None
        return progress or stepped

    def _bar(self, line: str) -> bool:
        """Whether a progress bar in the line has moved. Bars are told apart by their totals."""
        moved = False
        for done, total in bars_of(line):
            if self._bars.get(total) == done:
                continue
            if len(self._bars) >= BARS:
                self._bars.clear()
            moved = moved or total in self._bars or done != "0"
            self._bars[total] = done
            if not self._told:
                self.step, self.started = int(done), 0 < int(done) < int(total)
        return moved

    @property
    def patience(self) -> float:
        """Seconds without progress after which the processes are looked at."""
        if self._wait is not None:
            return self._wait
        if not self.started:
            return max(self.start_up, self.limit or 0.0)
        if self.limit is not None:
            return self.limit
        usual = self.usual
        # until its pace is known a job that makes steps may still compile, or fill its caches
        return min(max(TIMES * usual, LEAST), MOST) if usual is not None else self.start_up

    @property
    def overdue(self) -> bool:
        """Whether the next progress should have come."""
        return self.idle > self.patience

    def excuse(self) -> None:
        """The processes were looked at: look again after as long once more."""
        self._wait = 2 * max(self.patience, self.idle)
