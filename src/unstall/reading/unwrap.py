"""Lines that a terminal or a copy broke at a fixed column, joined again.

Two signs are used. A text whose lines stop at one column, and go on in lines that begin no record,
was wrapped there. A sentence whose end is known and is not on its line goes on in the next.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_LONGEST = 64 * 1024
_NARROWEST, _WIDEST = 60, 500

# How records and other lines begin that are certainly no continuation.
_FRESH = re.compile(
    r"""\s*(?:
      \[(?:rank\d|[VIWEF][\d\ ]|default\d|\d{4}-\d\d|[A-Z]+[\]:|]|PG\ |TC\])
    | \((?:[^\s()]{1,60}\ )?(?:rank=\d+\ )?pid=
    | (?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL|FATAL)\b
    | \d{4}[-/]\d\d[-/]\d\d | [VIWEF]\d{4}\ \d\d: | \d\d:\d\d:\d\d
    | Traceback\ \(most | File\ " | terminate\ called | what\(\) | frame\ +\[?\#\d
    | Exception\ raised | During\ handling | The\ above\ exception
    | [\w.-]{1,64}:\d{1,8}:\d{1,8}\ \[ | \d{1,3}%\| | slurmstepd | srun:
    | [=\-_*~]{5} | [|+>] | \$\  | ``` | \#
    )""",
    re.VERBOSE | re.ASCII,
)
# Sentences that are always longer than a terminal, and how they end.
_SENTENCES = (
    ("Watchdog caught collective operation timeout: WorkNCCL(", "milliseconds before timing out"),
    ("Watchdog caught collective operation timeout:", "before timing out"),
    ("failure detected by watchdog at work sequence id:", "last completed work:"),
    ("Received a dump signal due to a collective timeout", "last completed NCCL work:"),
    ("Timeout at NCCL work:", "last completed NCCL work:"),
    ("is running collective: CollectiveFingerPrint(", "but Rank"),
)
HINTS = ("atchdog", "NCCL work", "dump signal", "CollectiveFingerPrint(")
"""Literals of which one stands in every line that begins such a sentence."""
_LINES = 8  # that such a sentence may take
_COMMON = frozenset({72, 78, 79, 80, 96, 100, 110, 120, 128, 130, 132, 140, 150, 160, 180, 200})


def width(text: str) -> int:
    """Columns that a terminal gives to a text: wide East Asian characters take two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(char) in "WF" for char in text)


def wrapped_at(lines: Sequence[str]) -> int | None:
    """The column at which a text was wrapped, or ``None``.

    Args:
        lines: its first lines, as written (terminal colours removed).
    """
    widths = [width(line) if len(line) <= _WIDEST else _WIDEST + 1 for line in lines]
    counts = Counter(
        size
        for size, line in zip(widths, lines, strict=True)
        if _NARROWEST <= size <= _WIDEST and len(set(line)) > 5
    )
    for column, count in counts.most_common(3):
        longer = sum(size > column for size in widths)
        if count < 3 or longer > count // 10:
            continue
        starts = follows = total = 0
        for (size, line), (_, after) in pairwise(zip(widths, lines, strict=True)):
            if size == column:
                total += 1
                starts += _FRESH.match(line) is not None
                follows += bool(after.strip()) and _FRESH.match(after) is None
        # Rows of equal length are no wrapping: there, a row follows a row.
        if follows >= 0.6 * total and starts >= 0.3 * total and starts:
            return column
    return None


class Unwrapper:
    """Joins the lines of one source; what it holds back is bounded."""

    def __init__(self, column: int | None = None) -> None:
        self.column = column
        self._number = 0
        self._parts: list[str] = []
        self._size = 0
        self._end = ""  # how the sentence held back ends; empty while joining by column
        self._last = ""

    @property
    def idle(self) -> bool:
        """Whether lines without any of the :data:`HINTS` come out as they go in."""
        return self.column is None and not self._parts

    def feed(self, number: int, text: str) -> Sequence[tuple[int, str]]:
        """The lines that are complete once this one has come, each with its first number."""
        done: Sequence[tuple[int, str]] = ()
        if self._parts:
            if self._goes_on(text):
                self._parts.append(text)
                self._last = text
                self._size += len(text)
                if self._end and self._end in text[-2000:] + self._tail():
                    return self.flush()
                return ()
            done = self.flush()
        full = self.column is not None and self._full(text)
        end = "" if full or not any(hint in text for hint in HINTS) else _open_end(text)
        if end or full:
            self._number, self._parts, self._end = number, [text], end
            self._last, self._size = text, len(text)
            return done
        return [*done, (number, text)] if done else ((number, text),)

    def flush(self) -> Sequence[tuple[int, str]]:
        """What was held back."""
        parts, self._parts = self._parts, []
        if not parts:
            return ()
        if not self._end:
            return ((self._number, "".join(parts)),)
        joined = parts[0]
        for part in parts[1:]:
            joined += _between(joined, part) + part
        if self._end in joined:
            return ((self._number, joined),)
        return list(enumerate(parts, self._number))

    def _full(self, text: str) -> bool:
        column = self.column
        if column is None or not column // 2 <= len(text) <= column:
            return False
        return width(text) == column

    def _goes_on(self, text: str) -> bool:
        if not text.strip() or _FRESH.match(text) or self._size + len(text) > _LONGEST:
            return False
        if self._end:
            return len(self._parts) < _LINES
        return self._full(self._last)

    def _tail(self) -> str:
        """The end of a joint: the sentence's last words may be broken themselves."""
        return " ".join(part.strip() for part in self._parts[-2:])[-2000:]


def _open_end(text: str) -> str:
    """How the sentence ends that begins in this line and does not end in it."""
    for start, end in _SENTENCES:
        at = text.find(start)
        if at >= 0 and end not in text[at:]:
            return end
    return ""


def _between(before: str, after: str) -> str:
    """What a break took away: a blank where words were kept whole, nothing where they were not."""
    if before[-1:].isspace() or after[:1].isspace():
        return ""
    if before[-1:] in ",;:":
        return " "
    if after[:1] == "(" and before[-1:].isalpha():
        return ""  # WorkNCCL(…), Timeout(ms)
    return "" if width(before) in _COMMON else " "
