"""What one dump has in common with another's: nearly all of a healthy rank's entries.

Ranks of one job record the same operations, and torch's pickler writes them in the same bytes but
for the times. A run of entries that was matched in one dump therefore serves as a reference: the
bytes of the next dump are compared with it as one large number, with the times masked out, at about
a tenth of the cost of matching. Only what differs is matched entry by entry.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

#: Shorter runs are not worth remembering, longer ones not worth the memory, in entries and bytes.
_SHORTEST = 64
_LARGEST = 16 << 20
_KEPT = 4
#: After so many dumps in a row that were like none before, no more are remembered.
_PATIENCE = 8
#: So many bytes tell quickly that a dump is not like a reference.
_FIRST = 2048
#: Bytes that all remembered kinds of operation may take.
_MOST_REMEMBERED = 16 << 20


class Reference:
    """A run of matched entries of one dump.

    Attributes:
        form: the expression that matched them.
        rows: what was taken out of each entry.
        blocks: entries already sorted by group, by number of the first one and count.
    """

    def __init__(self, data: bytes, form: bytes, times: Any, found: list[Any]) -> None:
        self.form = form
        self.rows: list[tuple[bytes, ...]] = [match.groups() for match in found]
        begin = found[0].start()
        self._starts: list[int] = [match.start() - begin for match in found]
        self._ends: list[int] = [match.end() - begin for match in found]
        self.size = self._ends[-1]
        mask = bytearray(b"\xff") * self.size
        for start in self._starts:
            match = times.match(data, begin + start)
            for at in range(1, times.groups + 1):
                low, high = match.span(at)
                if low >= 0:
                    mask[low - begin : high - begin] = bytes(high - low)
        self._bits = int.from_bytes(data[begin : begin + self.size], "little")
        self._mask = int.from_bytes(mask, "little")
        below = (1 << 8 * _FIRST) - 1
        self._first = self._bits & below, self._mask & below
        self.blocks: dict[tuple[int, int], Any] = {}

    def common(self, data: bytes, at: int) -> int:
        """How many entries, from a position on, are the reference's first ones but for times."""
        bits, mask = self._first
        if (int.from_bytes(data[at : at + min(_FIRST, self.size)], "little") ^ bits) & mask:
            return 0
        part = data[at : at + self.size]
        differing = (int.from_bytes(part, "little") ^ self._bits) & self._mask
        if not differing:
            same = len(part)
        else:
            low = differing.to_bytes(self.size, "little")
            same = min(self.size - len(low.lstrip(b"\x00")), len(part))
        return bisect_right(self._ends, same)

    def end(self, count: int) -> int:
        """Bytes of the first entries."""
        return self._ends[count - 1]

    def span(self, at: int) -> tuple[int, int]:
        """Where an entry begins and ends, counted from 0."""
        return self._starts[at], self._ends[at]


class Alike:
    """Entries that are a reference's first ones, at a place of a dump."""

    __slots__ = ("at", "count", "reference")

    def __init__(self, reference: Reference, at: int, count: int) -> None:
        self.reference, self.at, self.count = reference, at, count

    def span(self, at: int) -> tuple[int, int]:
        """Where an entry begins and ends in the dump, counted from 0."""
        start, end = self.reference.span(at)
        return self.at + start, self.at + end


class Known:
    """What one process has seen in the dumps it read: references and kinds of operations."""

    def __init__(self) -> None:
        self.signatures: dict[bytes, Any] = {}
        self._references: list[Reference] = []
        self._misses = 0
        self._room = _MOST_REMEMBERED

    def find(self, form: bytes, data: bytes, at: int) -> Alike | None:
        """The longest known run that stands at a position."""
        best: Alike | None = None
        for reference in self._references:
            if reference.form != form:
                continue
            count = reference.common(data, at)
            if count and (best is None or count > best.count):
                best = Alike(reference, at, count)
                if count == len(reference.rows):
                    break
        return best

    def note(self, data: bytes, form: bytes, times: bytes, found: list[Any], hit: bool) -> None:
        """Remember a run that was matched; ``hit`` where the dump had a known one before it."""
        self._misses = 0 if hit else self._misses + 1
        size = found[-1].end() - found[0].start() if found else 0
        if hit or len(found) < _SHORTEST or size > _LARGEST or self._misses > _PATIENCE:
            return
        del self._references[: max(0, len(self._references) - _KEPT + 1)]
        reference = Reference(data, form, re.compile(times, re.DOTALL), found)
        self._references.append(reference)

    def remember(self, key: bytes, signature: Any) -> None:
        """Keep a kind of operation for the dumps to come."""
        size = len(key) + 1000  # with what hangs on it
        if size <= self._room:
            self._room -= size
            self.signatures[key] = signature
