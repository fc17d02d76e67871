"""Stack dumps of processes that live: one reader for each tool that writes them."""

from __future__ import annotations

from unstall.reading.line import Reader
from unstall.reading.stacks.faulthandler import FaulthandlerDump
from unstall.reading.stacks.gdb import Gdb
from unstall.reading.stacks.pyspy import PySpyJson, PySpyText
from unstall.reading.stacks.pystack import Pystack
from unstall.reading.stacks.torchdebug import DebugServerPage

STACK_READERS: tuple[type[Reader], ...] = (
    PySpyText,
    PySpyJson,
    Pystack,
    FaulthandlerDump,
    DebugServerPage,
    Gdb,
)
