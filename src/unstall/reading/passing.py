"""Which lines of a long log need a look: the rest is passed over in blocks of bytes.

A line counts where a reader's mark stands in it, and where taking off prefixes, escapes and markup
could bring a mark to light or end in something else than this line: a wrapped sentence, a cut
line, a command. All of these are told by literals in the line as it is written. A line without any
of them says nothing to anyone, whatever its neighbours are, unless something is waited for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from unstall.reading.literals import ByteLiterals
from unstall.reading.regions import NOTED
from unstall.reading.tidy import TOUCHED
from unstall.reading.unwrap import HINTS

_RETURN = re.compile(rb"\r(?!\n)")
_NOT_ASCII = re.compile(rb"[\x80-\xff]+")
# A container runtime's or a collector's cut line: CRI's P, Docker's member of 16 KiB.
_CUT = ("stdout P", "stderr P", '"log"')


class Passing:
    """Finds the lines that count.

    Args:
        marks: the readers' literals.
    """

    def __init__(self, marks: Sequence[str]) -> None:
        self._words = list(dict.fromkeys([*marks, *TOUCHED, *HINTS, *NOTED, *_CUT]))

    @cached_property
    def _literals(self) -> ByteLiterals:
        return ByteLiterals(self._words)

    def places(self, block: bytes) -> list[int]:
        """Where in whole lines something stands that makes its line count, rising."""
        found = self._literals.places(block)
        more: list[int] = []
        if block.count(b"\r") != block.count(b"\r\n"):
            more.extend(one.start() for one in _RETURN.finditer(block))
        if not block.isascii() and not _is_utf8(block):
            # What such lines hold is known only once their encoding is.
            more.extend(one.start() for one in _NOT_ASCII.finditer(block))
        return sorted([*found, *more]) if more else found


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True
