"""pystack: ``pystack remote PID`` and ``pystack core``.

Format of pystack 1.7.2 (run: plain, ``--native``, ``--locals``): frames outermost first, each with
its source line below it; ``(C)`` before native ones, ``(inlined)`` and the library behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unstall.model.facts import Fact, Frame
from unstall.reading.line import Line
from unstall.reading.stacks import headings
from unstall.reading.stacks.block import LONGEST_NAME, BlockReader, OpenThread

_THREAD = re.compile(
    r"Traceback for thread (\d{1,20})(?: \((.{0,100}?)\))? \[(.{0,200})\] "
    r"\(most recent call last\):$"
)
_FRAME = re.compile(
    r'\((Python|C)\) File "(.{0,1000}?)", line (\d{1,9}), in (.{1,2000}?)'
    r"(?: \(inlined\))?(?: \((/[^()]{0,1000})\))?$"
)
# A local's value is printed raw and may have lines of its own; so many are borne.
_LINES_OF_A_VALUE = 200


class Pystack(BlockReader):
    """Dumps of pystack."""

    marks: tuple[str, ...] = ("Traceback for thread ", *headings.MARKS)
    tool = "pystack"
    outermost_first = True

    def step(self, line: Line, text: str) -> Iterator[Fact]:
        """Reads one line."""
        stripped = text.strip()
        found = _THREAD.match(stripped)
        block = self.block(line.speaker)
        if found is not None:
            tid = int(found[1])
            if block is not None and any(thread.tid == tid for thread in block.threads):
                yield from self.end(line.speaker)
                block = None
            block = block or self.open(line)
            block.mode = ""
            block.strange = 0
            state = found[3].strip()
            # pystack gives the system's name of a thread, not Python's: ``python`` for all.
            block.start_thread(OpenThread("", state or None, tid, "Has the GIL" in state))
            return
        if block is None or block.thread is None:
            return
        frame = _FRAME.match(stripped)
        if frame is not None:
            file = frame[2] if frame[2] != "???" or not frame[5] else frame[5]
            block.mode = ""
            block.thread.add(
                Frame(
                    frame[4][:LONGEST_NAME],
                    file[:LONGEST_NAME],
                    int(frame[3]) or None,
                    frame[1] == "C",
                )
            )
        elif stripped in ("Arguments:", "Locals:"):
            block.mode = "locals"
        elif block.mode == "locals":
            block.strange += 1
            if block.strange > _LINES_OF_A_VALUE:
                yield from self.end(line.speaker)
        elif stripped and not text.startswith("      "):
            yield from self.end(line.speaker)
