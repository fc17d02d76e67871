"""What ``unstall run`` says: little, and on standard error, between the job's own lines."""

from __future__ import annotations

import select
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from unstall.model.text import Text, say
from unstall.reports.words import clean

if TYPE_CHECKING:
    from unstall.guard.checkpoints import Checkpoint
    from unstall.guard.look import Look
    from unstall.guard.pace import Pace
    from unstall.guard.record import Attempt, Stall


#: Seconds that a line of ours waits for its reader.
_TAKEN = 2.0


def span(seconds: float) -> str:
    """``34 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Teller:
    """Lines that begin with ``unstall:``."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        #: Whether the job's last output does not end a line: a bar.
        self.mid_line: Callable[[], bool] = lambda: False
        self._gone = False
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def tell(self, text: Text, style: str = "yellow") -> None:
        """One line."""
        if self._gone or not self._taken():
            return
        words = escape(clean(text.render(self.language)))
        begin = "\n" if self.mid_line() else ""
        try:
            self._console.print(f"{begin}[{style}]unstall:[/] {words}")
        except (OSError, ValueError, SystemExit):  # the last: rich, where the reader has gone
            self._gone = True

    def _taken(self) -> bool:
        """Whether somebody takes what is told; to wait for that would be to leave the job alone."""
        try:
            descriptor = self._console.file.fileno()
            return bool(select.select([], [descriptor], [], _TAKEN)[1])
        except (OSError, ValueError, AttributeError):
            return True

    def unread(self, pace: Pace) -> None:
        """A job is overdue, and it may wait until its output is read."""
        self.tell(
            say(
                "no progress for {idle} after step {step}, but nobody takes the job's output: it "
                "may wait for that",
                idle=span(pace.idle),
                step=pace.step,
            )
        )

    def stalled(self, stall: Stall, found: Look, pace: Pace) -> None:
        """A job stands still."""
        usual = pace.usual
        if not pace.started:
            self.tell(say("no first step for {idle}", idle=span(stall.idle)), "red")
        elif usual is None:
            self.tell(
                say(
                    "no progress for {idle} after step {step}",
                    idle=span(stall.idle),
                    step=stall.step,
                ),
                "red",
            )
        else:
            self.tell(
                say(
                    "no progress for {idle} after step {step}; until then it came every {usual} "
                    "or sooner",
                    idle=span(stall.idle),
                    step=stall.step,
                    usual=span(usual),
                ),
                "red",
            )
        self.tell(found.said)

    def diagnosed(self, stall: Stall) -> None:
        """The evidence of a stall was read."""
        if stall.cause is not None:
            self._verdict(stall.cause, stall.confidence, stall.summary)
        self.tell(say("evidence: {folder}", folder=stall.folder))

    def went_on(self, stall: Stall, step: int) -> None:
        """It was no deadlock after all."""
        self.tell(
            say(
                "progress again after {seconds}, step {step}",
                seconds=span(stall.went_on or 0.0),
                step=step,
            ),
            "green",
        )

    def quiet_but(self, found: Look, pace: Pace) -> None:
        """A job is overdue and there is no stall to be seen."""
        self.tell(
            say(
                "no progress for {idle} after step {step}, but {said}",
                idle=span(pace.idle),
                step=pace.step,
                said=found.said,
            )
        )

    def patient(self, least: float) -> None:
        """A stalled job will be ended, if it stays one."""
        self.tell(
            say(
                "it is ended after {least} without progress, if nothing moves until then",
                least=span(least),
            )
        )

    def stopping(self, grace: float) -> None:
        """A stalled job is ended."""
        self.tell(say("the job is ended (SIGTERM, SIGKILL after {grace})", grace=span(grace)))

    def handing_on(self, number: int, grace: float) -> None:
        """The user's signal goes to the job."""
        self.tell(
            say(
                "{signal} goes to the job, which has {grace} to end; a second one kills it at once",
                signal=signal.Signals(number).name,
                grace=span(grace),
            )
        )

    def failed(self, attempt: Attempt) -> None:
        """The command failed."""
        code = attempt.code if attempt.code is not None else 1
        shown = signal.Signals(-code).name if code < 0 else str(code)
        if attempt.first_step is None:
            self.tell(say("the job failed ({code}) before its first step", code=shown), "red")
        else:
            self.tell(
                say("the job failed ({code}) after step {step}", code=shown, step=attempt.step),
                "red",
            )
        if attempt.cause is not None:
            self._verdict(attempt.cause, attempt.confidence, attempt.summary)
        self.tell(say("evidence: {folder}", folder=attempt.evidence or "-"))

    def left_behind(self, count: int) -> None:
        """The command ended and left processes."""
        self.tell(
            say("the command has ended; {count} processes it left behind are ended", count=count)
        )

    def again(
        self, attempt: Attempt, checkpoint: Checkpoint | None, most: int, wanted: bool = False
    ) -> None:
        """Another attempt begins; ``wanted``: it should have begun from a checkpoint."""
        number = attempt.number - 1
        if checkpoint is None and wanted:
            self.tell(
                say(
                    "restart {number} of {most}, as the first time: this run has no whole "
                    "checkpoint yet",
                    number=number,
                    most=most,
                )
            )
        elif checkpoint is None:
            self.tell(say("restart {number} of {most}", number=number, most=most))
        else:
            self.tell(
                say(
                    "restart {number} of {most}, from {checkpoint}",
                    number=number,
                    most=most,
                    checkpoint=str(checkpoint.path),
                )
            )

    def _verdict(self, cause: str, confidence: float, summary: str) -> None:
        if cause == "unknown":
            self.tell(say("not decided: {summary}", summary=summary))
        else:
            self.tell(
                say(
                    "{cause} ({confidence}): {summary}",
                    cause=cause,
                    confidence=f"{confidence:.0%}",
                    summary=summary,
                )
            )
