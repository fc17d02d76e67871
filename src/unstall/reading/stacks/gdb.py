"""gdb and cuda-gdb attached to a process: ``thread apply all bt``, ``py-bt`` and both.

Formats of gdb 13.1 with CPython 3.11's ``python-gdb.py`` (run) and of older ``py-bt-full``, whose
frames read ``#5 Frame 0x…, for file f.py, line 3, in work (…)``. Where a thread has both a native
and a Python stack, they are joined: the native frames inside the interpreter's innermost loop,
then the Python ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unstall.model.facts import Fact, Frame, ProcessStack
from unstall.reading.line import Line
from unstall.reading.stacks import headings
from unstall.reading.stacks.block import LONGEST_NAME, Block, BlockReader, OpenThread

_THREAD = re.compile(
    r"Thread (\d{1,9}) \((?:Thread 0x[0-9a-f]{1,16} )?\(?(?:LWP|process) (\d{1,10})\)?"
)
_NAME = re.compile(r'\) "([^"]{1,100})"')
_FRAME = re.compile(r"#(\d{1,5}) +(?:0x[0-9a-f]{1,16} in )?(\S.*)$")
_PYTHON = re.compile(
    r"(?:#\d{1,5} )?Frame 0x[0-9a-f]{1,16}, for file (.{1,1000}?), "
    r"line (\d{1,9}), in (\S{1,500}) \("
)
_PYTHON_BT = re.compile(r'File "(.{0,1000}?)", line (\d{1,9}), in (.{1,500})$')
_INFERIOR = re.compile(r"\[Inferior \d{1,9} \(process (\d{1,10})\)")
_ADDRESS = re.compile(r"#0 +0x[0-9a-f]{1,16} in ")
_PLACE = re.compile(r" at (\S{1,1000}):(\d{1,9})$")
_LIBRARY = re.compile(r" from (\S{1,1000})$")
_STRANGE_LINES = 25
_LOOP = "_PyEval_EvalFrame"


def native_frame(text: str) -> Frame | None:
    """``#3  0x… in f (a=1) at f.c:2`` or ``… from lib.so`` as a frame."""
    found = _FRAME.match(text.strip())
    if found is None:
        return None
    rest = found[2]
    place, library = _PLACE.search(rest), _LIBRARY.search(rest)
    cut = rest.find(" (")
    function = (rest[:cut] if cut > 0 else rest.split(" ", 1)[0])[:LONGEST_NAME]
    if cut <= 0 and place is None and library is None:
        return None
    if place is not None:
        return Frame(function, place[1][:LONGEST_NAME], int(place[2]), True)
    return Frame(function, library[1][:LONGEST_NAME] if library else "", None, True)


def _begins_backtrace(text: str) -> bool:
    """Whether ``#0 …`` is gdb's: other programs number their lines and frames so, too."""
    frame = native_frame(text)
    return frame is not None and (frame.line is not None or _ADDRESS.match(text) is not None)


class Gdb(BlockReader):
    """Backtraces of gdb."""

    marks: tuple[str, ...] = (
        "Thread ",
        "#0 ",
        "Traceback (most recent call first):",
        "[Inferior ",
        *headings.MARKS,
    )
    tool = "gdb"

    def begins(self, text: str) -> bool:  # noqa: ARG002 - no line of it looks like a heading
        """No line of gdb's looks like a heading."""
        return False

    def step(self, line: Line, text: str) -> Iterator[Fact]:
        """Reads one line."""
        stripped = text.strip()
        block = self.block(line.speaker)
        inferior = _INFERIOR.match(stripped)
        if inferior is not None and block is not None:
            block.pid = int(inferior[1])
            yield from self.end(line.speaker)
            return
        found = _THREAD.match(stripped)
        if found is not None:
            self._thread(line, block, found, stripped)
        elif stripped == "Traceback (most recent call first):":
            block = block or self.open(line)
            block.mode = "python"
            if not block.threads:
                block.start_thread(OpenThread("MainThread"))
        elif stripped.startswith("#0 ") and _begins_backtrace(stripped):
            block = block or self.open(line)
            if not block.threads or (block.thread is not None and block.thread.native):
                block.start_thread(OpenThread())
            block.mode = "native"
            self._frame(block, stripped)
        elif block is not None:
            yield from self._inside(line, block, stripped)

    def _thread(self, line: Line, block: Block | None, found: re.Match[str], stripped: str) -> None:
        block = block or self.open(line)
        block.mode = "native"
        block.strange = 0
        tid = int(found[2])
        known = next((thread for thread in block.threads if thread.tid == tid), None)
        if known is not None:
            # The second pass over the threads: ``thread apply all py-bt`` after ``… bt``.
            block.threads.remove(known)
            block.start_thread(known)
            return
        name = _NAME.search(stripped)
        # gdb numbers threads in the order of their making: the first is the main one.
        first = "MainThread" if found[1] == "1" else (name[1] if name else "")
        block.start_thread(OpenThread(first, None, tid))

    def _inside(self, line: Line, block: Block, stripped: str) -> Iterator[Fact]:
        thread = block.thread
        if not stripped or thread is None:
            return
        if self._frame(block, stripped):
            block.strange = 0
            return
        block.strange += 1
        if block.strange > _STRANGE_LINES:
            yield from self.end(line.speaker)

    def _frame(self, block: Block, stripped: str) -> bool:
        thread = block.thread
        if thread is None:
            return False
        python = _PYTHON.match(stripped)
        if python is None and block.mode == "python":
            python = _PYTHON_BT.match(stripped)
        if python is not None:
            thread.add(Frame(python[3][:LONGEST_NAME], python[1][:LONGEST_NAME], int(python[2])))
            return True
        native = native_frame(stripped)
        if native is not None and len(thread.native) < 1000:
            thread.native.append(native)
        return native is not None

    def seal(self, block: Block) -> ProcessStack | None:
        """The fact, native and Python stacks joined."""
        for thread in block.threads:
            if not thread.frames:
                thread.frames = thread.native[:300]
                continue
            inner: list[Frame] = []
            for frame in thread.native:
                if frame.function.startswith(_LOOP):
                    break
                inner.append(frame)
            thread.frames = [*inner[:100], *thread.frames]
        block.threads = [thread for thread in block.threads if thread.frames]
        return super().seal(block)
