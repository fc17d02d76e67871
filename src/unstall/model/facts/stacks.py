"""Stacks of live processes and Flight Recorder dumps."""

from __future__ import annotations

import msgspec

from unstall.model.facts.base import Fact
from unstall.model.facts.processes import Frame


class ThreadStack(msgspec.Struct, frozen=True):
    """One thread's stack; frames innermost first."""

    name: str
    frames: tuple[Frame, ...]
    state: str | None = None
    tid: int | None = None
    holds_gil: bool = False


class ProcessStack(Fact, frozen=True, kw_only=True):
    """A live process's stacks.

    Attributes:
        pid, command: of the process.
        threads: main thread first.
        tool: ``py-spy``, ``pystack``, ``faulthandler``, ``torch-debug``, ``gdb``.
        waits_for: what its main thread waits for: ``collective``, ``point-to-point``, ``queue``,
            ``pipe``, ``http``, ``lock``, ``store``, ``disk``, ``process``, ``sleep``, ``gpu``,
            ``computing``, ``unknown``.
        within: the frame that tells: function and file.
        parent: process id of the process that started it, where the dump told.
    """

    pid: int | None = None
    command: str | None = None
    threads: tuple[ThreadStack, ...] = ()
    tool: str = "py-spy"
    waits_for: str = "unknown"
    within: Frame | None = None
    parent: int | None = None


class RecorderDump(Fact, frozen=True, kw_only=True):
    """A Flight Recorder dump was among the inputs; the dump itself stays with ``recorder``.

    Attributes:
        rank: rank by file name.
        state: ``ok``, ``empty``, ``truncated``, ``refused``.
        key: under which ``recorder`` keeps its content.
    """

    rank: int | None = None
    state: str = "ok"
    key: str = ""
