"""When a job's progress is overdue, by its own pace."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from unstall.experiments.script_run import Steps

#: Without a given limit: how many times the longest of the last intervals between two steps.
TIMES = 5.0
#: Bounds of such a limit, in seconds.
LEAST, MOST = 10.0, 600.0
#: Intervals that have to be known before they tell anything; how many are remembered.
ENOUGH, REMEMBERED = 3, 50


class Pace:
    """The step that a job's output shows, and how long the next may take.

    Attributes:
        limit: seconds without progress, as the user gave it; ``None`` learns it from the job.
        start_up: the same as long as there is no pace to learn from.
    """

    def __init__(
        self,
        limit: float | None,
        start_up: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.start_up = start_up
        self._clock = clock
        self._steps = Steps()
        self._intervals: deque[float] = deque(maxlen=REMEMBERED)
        self._last_step: tuple[int, float] | None = None
        self._moved = clock()
        self._wait: float | None = None

    @property
    def step(self) -> int:
        """The highest step seen."""
        return self._steps.step

    @property
    def started(self) -> bool:
        """Whether a step was seen."""
        return self._steps.started

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

        As long as no step is told every line is progress, afterwards steps alone.
        """
        before = self._steps.since
        self._steps.look(list(lines), rest)
        if self._steps.since == before:
            return False
        now = self._clock()
        if self._steps.started:
            self._count(now)
        self._moved, self._wait = now, None
        return True

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

    def _count(self, now: float) -> None:
        step = self._steps.step
        if self._last_step is not None:
            last, since = self._last_step
            if step > last:
                self._intervals.append(now - since)
        if self._last_step is None or step > self._last_step[0]:
            self._last_step = (step, now)
