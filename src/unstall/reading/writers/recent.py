"""The Python frames that stand just above an error's text, for each stream of a log."""

from __future__ import annotations

import re
from collections import OrderedDict, deque

from unstall.model.facts import Speaker
from unstall.reading.line import Line

FRAME_MARKS = ('File "', "Traceback (most recent call last)")
_FRAME = re.compile(r'File "([^"]{1,400})", line (\d{1,7})(?:, in (\S{1,200}))?')
_STREAMS = 256
_DEPTH = 64

PythonFrame = tuple[str, str, int]


class RecentFrames:
    """Frames of each stream's last traceback, outermost first: ``(function, file, line)``."""

    def __init__(self) -> None:
        self._stacks: OrderedDict[Speaker, deque[PythonFrame]] = OrderedDict()

    def feed(self, line: Line) -> None:
        """Take a line of a traceback; other lines are ignored."""
        if "Traceback (most recent call last)" in line.text:
            self._stacks.pop(line.speaker, None)
            return
        found = _FRAME.search(line.text)
        if found is None:
            return
        stack = self._stacks.get(line.speaker)
        if stack is None:
            stack = self._stacks[line.speaker] = deque(maxlen=_DEPTH)
            if len(self._stacks) > _STREAMS:
                self._stacks.popitem(last=False)
        stack.append((found[3] or "", found[1], int(found[2])))

    def take(self, speaker: Speaker) -> tuple[PythonFrame, ...]:
        """The stream's frames; they belong to one error only."""
        return tuple(self._stacks.pop(speaker, ()))
