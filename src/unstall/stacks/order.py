"""Which of two processes is further on in the code that both run, by their stacks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

#: Function, file, line; innermost first.
Frames = Sequence[tuple[str, str, "int | None"]]

_MOST = 200


class Ahead(msgspec.Struct, frozen=True):
    """Two stacks part in one function, one of them further down.

    Attributes:
        function, file: the function that both are in.
        line: where the one that is further on is.
        other: where the other is.
    """

    function: str
    file: str
    line: int
    other: int

    @property
    def name(self) -> str:
        """Its file without folders."""
        return self.file.replace("\\", "/").rpartition("/")[2]


def further_on(one: Frames, other: Frames) -> Ahead | None:
    """Where ``one`` has passed what ``other`` is in, in the innermost function that both run.

    Both must have come there by the same calls at the same lines. A line further down is not
    always later: in a loop it may be of the round before.
    """
    for mine, theirs in zip(one[: -_MOST - 1 : -1], other[: -_MOST - 1 : -1], strict=False):
        if mine == theirs:
            continue
        same = mine[:2] == theirs[:2] and bool(mine[1])
        if not same or mine[2] is None or theirs[2] is None or mine[2] <= theirs[2]:
            return None
        return Ahead(mine[0], mine[1], mine[2], theirs[2])
    return None
