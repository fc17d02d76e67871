"""faulthandler's dumps of processes that live: ``dump_traceback`` and ``dump_traceback_later``.

Formats of CPython 3.6 to 3.14 (``Python/traceback.c``, ``Modules/faulthandler.c``; 3.11 run): a
``Timeout (0:00:10)!`` line where a timer fired, then ``Thread 0x… (most recent call first):`` for
every thread, the newest first and the main thread last; 3.14 puts the thread's name in brackets.
The same text is what ``torch.distributed.debug``'s stacks page shows (torch 2.13). A dump after
``Fatal Python error`` is not this reader's: that process did not live on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unstall.model.facts import Fact, Frame, ProcessStack
from unstall.reading.line import Line
from unstall.reading.stacks import headings
from unstall.reading.stacks.block import LONGEST_NAME, Block, BlockReader, OpenThread

_TIMEOUT = re.compile(r"Timeout \((?:\d{1,9} days?, )?\d{1,4}:\d\d:\d\d(?:\.\d{1,6})?\)!$")
_THREAD = re.compile(
    r"(Current thread|Thread) 0x([0-9A-Fa-f]{1,16})"
    r"(?: \[(.{0,100})\])? \(most recent call first\):$"
)
_LONE = re.compile(r"Stack \(most recent call first\):$")
_FRAME = re.compile(r'File "(.{0,1000}?)", line (\d{1,9}|\?\?\?) in ?(.{0,500})$')
_FATAL = ("Fatal Python error", "Windows fatal exception")
_CRASHED = "crashed"


class FaulthandlerDump(BlockReader):
    """Dumps of living processes by faulthandler."""

    marks: tuple[str, ...] = ("(most recent call first):", "Timeout (", *_FATAL, *headings.MARKS)
    tool = "faulthandler"

    def begins(self, text: str) -> bool:  # noqa: ARG002 - no line of it looks like a heading
        """No line of faulthandler's looks like a heading."""
        return False

    def step(self, line: Line, text: str) -> Iterator[Fact]:
        """Reads one line."""
        stripped = text.strip()
        if any(stripped.startswith(words) for words in _FATAL):
            yield from self.end(line.speaker)
            self.open(line).mode = _CRASHED
            return
        if _TIMEOUT.match(stripped):
            yield from self.end(line.speaker)
            self.open(line)
            return
        found = _THREAD.match(stripped)
        if found is not None or _LONE.match(stripped):
            yield from self._thread(line, found)
            return
        block = self.block(line.speaker)
        if block is None:
            return
        frame = _FRAME.match(stripped)
        if frame is not None and block.thread is not None:
            number = int(frame[2]) if frame[2].isdigit() else None
            # A browser drops ``<module>`` as a tag.
            function = frame[3].strip() or "<module>"
            block.thread.add(Frame(function, frame[1][:LONGEST_NAME], number))
        elif stripped in ("", "...", "<no Python frame>", "<truncated rest of calls>"):
            return
        elif block.mode == _CRASHED and not block.threads:
            # ``Python runtime state: initialized`` stands between the error and the threads.
            block.strange += 1
            if block.strange > 6:
                yield from self.end(line.speaker)
        elif not stripped.startswith(("<cannot show all threads", "<tstate")):
            yield from self.end(line.speaker)

    def _thread(self, line: Line, found: re.Match[str] | None) -> Iterator[Fact]:
        tid = int(found[2], 16) if found else None
        block = self.block(line.speaker)
        if block is not None and block.threads:
            again = tid is None or any(thread.tid == tid for thread in block.threads)
            # faulthandler shows the dumping thread once; a second one is another process's dump
            # that a common log put right below.
            second = found is not None and found[1] == "Current thread"
            if again or (second and any(t.state == "dumping" for t in block.threads)):
                yield from self.end(line.speaker)
                block = None
        block = block or self.open(line)
        current = found is not None and found[1] == "Current thread"
        name = (found[3] or "") if found else ""
        block.start_thread(OpenThread(name, "dumping" if current else None, tid))

    def seal(self, block: Block) -> ProcessStack | None:
        """The fact of a dump; none for one that belongs to a fatal error."""
        return None if block.mode == _CRASHED else super().seal(block)
