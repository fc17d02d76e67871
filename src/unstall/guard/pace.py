"""When a job's progress is overdue, by its own pace."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence

from unstall.processes.steps import bars_of, step_of

#: Without a given limit: how many times the longest of the last intervals between two steps.
TIMES = 5.0
#: Bounds of such a limit, in seconds.
LEAST, MOST = 10.0, 600.0
#: Seconds of silence after which a job is looked at while nothing is known of its pace: one that
#: loads or compiles is at work, and a rank that the others wait for is told early.
EARLY = 60.0
#: Intervals that have to be known before they tell anything; how many are remembered.
ENOUGH, REMEMBERED = 3, 50
#: Progress bars that are told apart.
BARS = 1000
#: Lines that are told apart by what is no number in their beginnings, of so many characters.
SHAPES, _SHAPE = 10_000, 200
_NUMBERS = re.compile(r"[0-9a-f]+")


def _latest(line: str) -> str:
    """What stands last where a bar was drawn over itself, and before it if that is not whole."""
    return "\r".join(line.rstrip("\r").split("\r")[-2:]) if "\r" in line else line


class Counter:
    """Whether a number that is told again and again advances.

    It does where it is higher than ever, and where it begins anew, as it does with each epoch: at
    or below where it began. Lower numbers in between are those of ranks that tell theirs later, or
    of a job that stands still and tells every few seconds where.

    Attributes:
        top: the highest number since it last began.
    """

    def __init__(self, first: int) -> None:
        self.top = self._first = first

    def advances(self, number: int) -> bool:
        """Take the next number in."""
        if number > self.top:
            self.top = number
        elif number <= self._first and number < self.top:
            self.top = self._first = number
        else:
            return False
        return True


class Pace:
    """The step that a job's output shows, and how long the next may take.

    Attributes:
        limit: seconds without progress, as the user gave it; ``None`` learns it from the job.
        start_up: the same as long as there is no pace to learn from.
        step: the last step, of metrics or else of the progress bar that moved last.
        moves: how often there was progress.
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
        self.moves = 0
        self.started = False
        self._clock = clock
        self._counter: Counter | None = None
        self._bars: dict[str, Counter] = {}
        self._shapes: set[str] = set()
        self._news = clock()
        self._rest = ""
        self._intervals: deque[float] = deque(maxlen=REMEMBERED)
        self._last_step: float | None = None
        self._moved = clock()
        self._wait: float | None = None
        self._floor = LEAST

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
        heard = [_latest(line) for line in ([*lines, rest] if grown else lines)]
        # as long as neither steps nor bars were seen, every line is progress
        progress = self._counter is None and not self._bars and self._said(heard)
        stepped = False
        for line in heard:
            step = step_of(line)
            if step is not None:
                if self._counter is None:
                    self._counter, self.started, new = Counter(step), True, True
                else:
                    new = self._counter.advances(step)
                stepped = stepped or new
                self.step = self._counter.top
            elif self._bar(line):
                progress = True
                stepped = stepped or (self.started and self._counter is None)
        now = self._clock()
        if stepped:
            if self._last_step is not None:
                self._intervals.append(now - self._last_step)
            self._last_step = now
        if progress or stepped:
            if self._wait is not None:
                # it was looked at, and was no hang: a silence as long is none the next time
                self._floor = min(max(self._floor, 2 * (now - self._moved)), MOST)
            self._moved, self._wait = now, None
            self.moves += 1
        return progress or stepped

    def _bar(self, line: str) -> bool:
        """Whether a progress bar in the line has moved. Bars are told apart by their totals."""
        moved = False
        for done, total in bars_of(line):
            known = self._bars.get(total)
            if known is None:
                if len(self._bars) >= BARS:
                    self._bars.clear()
                self._bars[total] = Counter(int(done))
                moved = moved or int(done) > 0
            elif known.advances(int(done)):
                moved = True
            else:
                continue
            if self._counter is None:
                self.step, self.started = int(done), 0 < int(done) < int(total)
        return moved

    def _said(self, lines: Sequence[str]) -> bool:
        """Whether any line says something new. The same but for its numbers is new for a while.

        A server that waits tells so every few seconds, for ever.
        """
        new = False
        for line in lines:
            shape = _NUMBERS.sub("0", line[:_SHAPE])
            if shape not in self._shapes:
                if len(self._shapes) >= SHAPES:
                    self._shapes.clear()
                self._shapes.add(shape)
                new = True
        now = self._clock()
        if new:
            self._news = now
        return bool(lines) and now - self._news <= max(self.start_up, self.limit or 0.0)

    @property
    def patience(self) -> float:
        """Seconds without progress after which the processes are looked at, or looked at again."""
        if self._wait is not None:
            return self._wait
        return self.base if self.paced else min(self.base, EARLY)

    @property
    def paced(self) -> bool:
        """Whether it is known how long a step may take."""
        return self.started and (self.limit is not None or self.usual is not None)

    @property
    def base(self) -> float:
        """Seconds without progress that are too many."""
        if not self.started:
            return max(self.start_up, self.limit or 0.0)
        if self.limit is not None:
            return self.limit
        usual = self.usual
        # until its pace is known a job that makes steps may still compile, or fill its caches
        return min(max(TIMES * usual, self._floor), MOST) if usual is not None else self.start_up

    @property
    def overdue(self) -> bool:
        """Whether the next progress should have come."""
        return self.idle > self.patience

    def excuse(self) -> None:
        """The processes were looked at: look again after as long once more."""
        self._wait = 2 * max(self.patience, self.idle)

    def look_after(self, idle: float) -> None:
        """Look again after so many seconds without progress in all."""
        self._wait = idle
