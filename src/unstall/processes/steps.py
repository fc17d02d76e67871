"""The training step that a job's output shows."""

from __future__ import annotations

import re
import time

#: Metrics of transformers and ms-swift, DeepSpeed, verl, torchtitan (``step: 10``), Megatron
#: (``iteration 10/ 500``), and what loops print. A capital may begin a heading (``Step 1: …``), so
#: that more is asked of it.
_STEP = re.compile(
    r"'global_step/max_steps': '(\d{1,9})/|\b(?:global_)?step[ :=']{1,4}(\d{1,9})\b"
    r"|\biteration\s{1,12}(\d{1,9})/"
    r"|\b(?:[Ss]tep|STEP)[ :=]{0,3}\[?(\d{1,9})(?=[/\],|]| \||\s{1,3}loss)"
    r"|\b[Ii]ter(?:ation)?[ :=]{1,12}\[?(\d{1,9})(?=[/\],|:]| \||\s{1,3}loss)",
    re.ASCII,
)
_BAR = re.compile(r"(?<!\d)(\d{1,9})/(\d{1,9}) \[", re.ASCII)
_LONGEST = 4000


def step_of(line: str) -> int | None:
    """The training step that a line tells."""
    found = _STEP.search(line[-_LONGEST:])
    return int(found[found.lastindex or 1]) if found is not None else None


def bars_of(line: str) -> list[tuple[str, str]]:
    """The progress bars in a line (tqdm's ``12/500 [``): how much is done, and of how much."""
    return _BAR.findall(line[-_LONGEST:])


class Steps:
    """The training step that a log shows, and when it last moved.

    Metrics lines tell it; without them the progress bar with the most steps in all does, or the
    one with ``total`` steps where that is known beforehand (loading a model has its bar too). While
    neither was seen, every new line counts as progress.
    """

    def __init__(self, total: int | None = None) -> None:
        self.step = 0
        self.since = time.monotonic()
        self._told = False
        self._wanted = total
        self._total = 0
        self._rest: dict[str, str] = {}

    def look(self, lines: list[str], rest: str = "", of: str = "") -> None:
        """Take new lines of a file in, and the end of the line that is still being written."""
        before, known = self.step, self._told or self._total
        grown = rest not in ("", self._rest.get(of))
        self._rest[of] = rest
        for line in [*lines, rest] if grown else lines:
            if (step := step_of(line)) is not None:
                if not self._told:
                    self._told, self.step = True, 0
                self.step = max(self.step, step)
            elif not self._told:
                for done, total in bars_of(line):
                    if self._wanted is not None and int(total) != self._wanted:
                        continue
                    if int(total) > self._total:
                        self._total, self.step = int(total), int(done)
                    elif int(total) == self._total:
                        self.step = max(self.step, int(done))
        if self.step != before or ((lines or grown) and not known):
            self.since = time.monotonic()

    @property
    def started(self) -> bool:
        """Whether any step was told, be it step 0."""
        return self._told or self.step > 0 or (self._wanted is not None and self._total > 0)

    @property
    def idle(self) -> float:
        """Seconds without progress."""
        return time.monotonic() - self.since
