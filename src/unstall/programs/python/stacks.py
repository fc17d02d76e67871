"""Stacks of any Python server."""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "event-loop-idle",
        ("BaseEventLoop._run_once",),
        "asyncio/base_events.py",
        ("queue",),
        say("the event loop is idle: it waits for a request or an answer"),
        "CPython 3.11, asyncio/base_events.py",
    ),
    Circumstance(
        "event-loop-idle",
        ("run", "Runner.run"),
        "asyncio/runners.py",
        ("queue",),
        say("the event loop is idle: it waits for a request or an answer"),
        "CPython 3.11, asyncio/runners.py; uvloop's loop has no Python frames",
    ),
)
