"""Lines that follow a C++ record: frames, the failed collective's stack, the desync report.

They carry no header and no rank, so they belong to the last record of the same channel (outer
prefix). Sources: ``c10/util/Backtrace.cpp``, ``FlightRecorder.cpp`` (2.6 and later),
``ProcessGroupNCCL.cpp`` and ``TraceUtils.h`` (desync report, 1.13 to 2.15).
"""

from __future__ import annotations

import re
from collections import OrderedDict

from unstall.model.facts import Speaker
from unstall.reading.writers.drafts import Draft, channel
from unstall.reading.writers.tags import symbol

_OPEN_AT_MOST = 256
_IDLE = 6
"""Foreign lines after which a block of lines without marks counts as ended."""
_FRAMES = 128

_FRAME = re.compile(
    r"frame\s{1,4}\[?#(\d{1,4})(?:\]\([^\s()]{0,300}\))?\s{0,3}:\s?(.*)", re.ASCII | re.DOTALL
)
_RAISED = re.compile(r"Exception raised from ([^\s]{1,200}) at ", re.ASCII)
_NUMBERED = re.compile(r"^[\s>*|]{0,12}#(\d{1,4}) ", re.ASCII)

_NOT_JOINED = re.compile(
    r"\[([\d, ]{1,4000})\] (?:finished collective #\d{1,20}, )?but didn't join collective", re.ASCII
)
_NEVER = re.compile(r"ranks \[([\d, ]{1,4000})\] are the lagging ranks", re.ASCII)
_SEQUENCE = re.compile(r"#(\d{1,20}) (started|finished) ranks:", re.ASCII)
_STATE = re.compile(r"\[([\d, ]{1,4000})\] (started|finished) (\w{1,60})", re.ASCII)


class Stack:
    """Python frames of the failed collective, one a line: ``#0 all_reduce from a/b.py:12``."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._frames: list[tuple[str, str, int]] = []
        self.wants_more = True
        self._idle = 0

    def feed(self, text: str) -> None:
        """Take one line."""
        frame = numbered_frame(text)
        if frame is None:
            self._idle += 1
            if (not text.strip() and self._frames) or self._idle > _IDLE:
                self.wants_more = False
            return
        self._idle = 0
        if len(self._frames) < _FRAMES:
            self._frames.append(frame)
            self._draft.change(frames=tuple(self._frames))


class Frames:
    """C++ frames under an exception; a draft of ``None`` swallows frames that say nothing new."""

    def __init__(self, draft: Draft | None) -> None:
        self.wants_more = False
        self._draft = draft
        self._frames: list[str] = []
        self._raised = False
        self._ended = False

    def feed(self, text: str) -> None:
        """Take one line."""
        if "C++ CapturedTraceback:" in text:
            self.wants_more = True
            return
        name = cpp_frame(text)
        self.wants_more = self.wants_more and name is not None
        if self._draft is None or self._ended:
            return
        if (raised := _RAISED.search(text)) is not None:
            # A second trace (of the re-thrown exception) tells nothing of the cause.
            self._ended = self._raised
            if not self._raised:
                self._raised = True
                self._draft.change(raised_from=raised[1])
            return
        if name and len(self._frames) < _FRAMES:
            self._frames.append(name)
            self._draft.change(frames=tuple(self._frames))


class Desync:
    """The lines of one TORCH_NCCL_DESYNC_DEBUG report."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._lagging: dict[int, None] = {}
        self._states: list[tuple[int, str, str, int]] = []
        self._sequence = -1
        self._idle = 0
        self.wants_more = True

    def feed(self, text: str) -> None:
        """Take one line."""
        known = True
        if found := _NOT_JOINED.search(text) or _NEVER.search(text):
            self._lagging.update(dict.fromkeys(_ranks(found[1])))
            self._draft.change(lagging=tuple(sorted(self._lagging)))
        elif found := _SEQUENCE.search(text):
            self._sequence = int(found[1])
        elif found := _STATE.search(text):
            for rank in _ranks(found[1]):
                if len(self._states) < 16384:
                    self._states.append((rank, found[2], found[3], self._sequence))
            self._draft.change(states=tuple(self._states))
        else:
            known = any(words in text for words in DESYNC_WORDS)
        self._idle = 0 if known else self._idle + 1
        if self._idle > _IDLE:
            self.wants_more = False


Block = Stack | Frames | Desync

DESYNC_WORDS = (
    "Timeout at collective: ",
    "To our best knowledge",
    "but didn't join collective",
    "joined but didn't finish collective",
    "Snapshot of ranks' latest states",
    "started ranks:",
    "finished ranks:",
)


class Blocks:
    """The open block of every channel."""

    def __init__(self) -> None:
        self._open: OrderedDict[object, Block] = OrderedDict()
        self._wanting = 0

    @property
    def wants_more(self) -> bool:
        """Whether an open block needs lines without marks."""
        return self._wanting > 0

    def begin(self, speaker: Speaker, block: Block) -> None:
        """Open a block; it replaces the channel's earlier one."""
        self.end(speaker)
        self._open[channel(speaker)] = block
        self._wanting += block.wants_more
        if len(self._open) > _OPEN_AT_MOST:
            _, oldest = self._open.popitem(last=False)
            self._wanting -= oldest.wants_more

    def end(self, speaker: Speaker) -> None:
        """Close the channel's block."""
        block = self._open.pop(channel(speaker), None)
        if block is not None:
            self._wanting -= block.wants_more

    def feed(self, speaker: Speaker, text: str) -> None:
        """A line without header."""
        block = self._open.get(channel(speaker))
        if block is None:
            return
        before = block.wants_more
        block.feed(text)
        self._wanting += block.wants_more - before


def cpp_frame(text: str) -> str | None:
    """The symbol of a C++ frame line: ``""`` if unknown, ``None`` if it is no such line.

    Accepts ``frame #1: …``, what issue trackers make of it (``frame [#1](https://…) : …``) and
    ``#1 symbol from file:0`` of the other symbolizer.
    """
    found = _FRAME.search(text)
    if found is not None:
        return symbol(found[2])
    numbered = numbered_frame(text)
    return symbol(numbered[0]) if numbered is not None and "::" in numbered[0] else None


def numbered_frame(text: str) -> tuple[str, str, int] | None:
    """``#0 function from path:12`` as (function, path, line)."""
    found = _NUMBERED.match(text)
    if found is None:
        return None
    function, word, place = text[found.end() :].rpartition(" from ")
    path, _, number = place.rstrip(" \t\"'`*").rpartition(":")
    if not word or not path or not (number.isascii() and number.isdigit() and len(number) < 8):
        return None
    return function.strip(), path, int(number)


def _ranks(listed: str) -> list[int]:
    return [int(word) for word in re.split(r"[, ]+", listed) if word.isdigit() and len(word) < 10]
