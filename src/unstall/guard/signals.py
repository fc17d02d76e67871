"""Signals that the user or a scheduler sends to ``unstall run``: they are the job's."""

from __future__ import annotations

import signal
from types import FrameType

_ENDS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: Slurm sends these where a job asks for a warning before its time is over (``--signal``).
_NEWS = tuple(
    getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGCONT") if hasattr(signal, name)
)


class Signals:
    """What was sent.

    Attributes:
        first: number of the first signal that asks for an end; ``None``: there was none.
        again: another came after it, so that there is no more patience.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.again = False
        self._news: list[int] = []

    def listen(self) -> None:
        """Take the signals; one that is ignored already (``nohup``) stays so."""
        for one in (*_ENDS, *_NEWS):
            if signal.getsignal(one) != signal.SIG_IGN:
                signal.signal(one, self._hear)

    def take(self) -> list[int]:
        """Signals that ask for no end, since the last call."""
        found, self._news = self._news, []
        return found

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if number in _NEWS:
            self._news.append(number)
        elif self.first is None:
            self.first = number
        else:
            self.again = True
