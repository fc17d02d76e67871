"""Progress while experiments run: one line that is rewritten on a terminal, few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from unstall.experiments.outcome import Run
from unstall.model.text import Text, say

_WHAT = {
    "start": say("starting"),
    "step": say("running"),
    "gather": say("gathering evidence"),
    "diagnose": say("diagnosing"),
}


class Teller:
    """Tells of runs on standard error, and knows them.

    Attributes:
        ended: runs that have ended, in order.
        name: of the run that goes on; empty between two.
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self.quiet = sys.stderr is None  # closed by whoever started this
        self.live = not self.quiet and sys.stderr.isatty()
        self._open = False
        self._last = 0.0
        self.name = ""
        self._step = 0
        self._done: Run | None = None
        self._begun = time.monotonic()
        self.ended: list[Run] = []

    def begin(self, name: str, of: Text) -> None:
        """A run begins."""
        self.name, self._step, self._done = name, 0, None
        self._begun = time.monotonic()
        if not self.live:
            self._line(f"{name}: {of.render(self.language)}")

    def __call__(self, what: str, step: int) -> None:
        """Something happens in the run: see :data:`unstall.experiments.runner.Tell`."""
        self._step = step or self._step
        if self.quiet or not self.live:
            return
        now = time.monotonic()
        if what == "step" and now - self._last < 0.2:
            return
        self._last = now
        words = _WHAT.get(what, say("running")).render(self.language)
        spent = int(now - self._begun)
        shown = say("step {step}", step=step).render(self.language) if step else ""
        sys.stderr.write(f"\r\x1b[K{self.name}  {words}  {shown}  {spent // 60}:{spent % 60:02d}")
        sys.stderr.flush()
        self._open = True

    def end(self, run: Run) -> None:
        """A run has ended."""
        self._close()
        self.name = ""
        self.ended.append(run)
        self._line(f"{run.name}: {outcome(run).render(self.language)}")

    def diagnosing(self, run: Run) -> None:
        """A run's outcome is clear; its evidence is diagnosed next."""
        self._done = run
        self("diagnose", run.step)

    def stopped(self, folders: Sequence[Path]) -> Run | None:
        """The run that was going on when the user stopped it, told; ``None`` between two.

        Args:
            folders: where its evidence may be: the first that there is.
        """
        if not self.name:
            return None
        run = self._done or Run(
            name=self.name,
            outcome="stopped",
            step=self._step,
            seconds=round(time.monotonic() - self._begun, 2),
            folder=str(next((one for one in folders if one.is_dir()), folders[-1])),
        )
        self.end(run)
        return run

    def note(self, text: Text) -> None:
        """Something the user should know before or between runs."""
        self._close()
        self._line(text.render(self.language))

    def _line(self, text: str) -> None:
        if not self.quiet:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def _close(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            self._open = False


def outcome(run: Run) -> Text:
    """What became of a run, in a few words."""
    step, seconds = run.step, int(run.seconds + 0.5)
    codes = ", ".join(
        f"{end.program} {end.rank}: {end.code}" for end in run.ends if end.code not in (0, None)
    )
    if run.outcome == "hung":
        if step:
            return say("hung at step {step} after {seconds} s", step=step, seconds=seconds)
        return say("hung before its first step, after {seconds} s", seconds=seconds)
    if run.outcome == "failed" and not codes:
        return say("failed after {seconds} s, though with exit code 0", seconds=seconds)
    if run.outcome == "failed":
        return say("failed after {seconds} s (exit codes {codes})", seconds=seconds, codes=codes)
    if run.outcome == "finished":
        if step:
            return say("finished {step} steps in {seconds} s", step=step, seconds=seconds)
        return say("finished in {seconds} s", seconds=seconds)
    if run.outcome == "slow":
        return say(
            "still in progress at step {step} when its limit of {seconds} s was reached",
            step=step,
            seconds=seconds,
        )
    if step:
        return say("stopped by you at step {step} after {seconds} s", step=step, seconds=seconds)
    return say("stopped by you after {seconds} s", seconds=seconds)
