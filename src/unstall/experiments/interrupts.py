"""Ctrl-C and its like while experiments run: the first stops them, later ones wait for that."""

from __future__ import annotations

import signal
from types import FrameType

_STOPS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def stop_once() -> None:
    """Let the first Ctrl-C, SIGTERM or hang-up of the terminal raise ``KeyboardInterrupt``.

    What comes after it is not heard: stopping what was started takes seconds, and a second Ctrl-C
    in the middle of it would leave processes and folders behind. One that is ignored already
    (``nohup``) stays so.
    """
    for one in _STOPS:
        if signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, _stop)


def _stop(_number: int, _frame: FrameType | None) -> None:
    for one in _STOPS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt
