"""What the scanner hands to the readers: one logical line, stripped of outer prefixes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from unstall.model.facts import NOBODY, Fact, Moment, Place, Speaker


class Line(msgspec.Struct, frozen=True):
    """One logical line.

    Attributes:
        place: source and physical line number where it begins.
        text: what the program itself wrote: no terminal escapes, no outer prefixes (srun, compose,
            kubectl, Ray, torchrun, ``[rank3]:`` …), un-wrapped, at most 64 KiB.
        raw: the physical line as written, control characters removed, at most 600 characters.
        speaker: what the stripped prefixes told.
        moment: time that an outer prefix told; the readers parse the program's own times.
    """

    place: Place
    text: str
    raw: str
    speaker: Speaker = NOBODY
    moment: Moment | None = None


class Reader(Protocol):
    """Turns one writer's lines into facts. One instance reads one source, in order.

    ``marks`` are literals of which at least one stands in every line that can begin a fact; the
    scanner offers a reader only such lines, and every line while ``wants_more`` is true (the
    middle of a traceback). Blocks of several speakers may be interleaved.
    """

    marks: tuple[str, ...]

    @property
    def wants_more(self) -> bool:
        """Whether the reader is in the middle of something of several lines."""
        ...

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that this line completes."""
        ...

    def finish(self) -> Iterable[Fact]:
        """Facts that the end of the source completes."""
        ...
