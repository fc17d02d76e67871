"""What following a script finds: the commands it starts, and what was noticed on the way."""

from __future__ import annotations

import msgspec

from unstall.launch.strings import Pieces, Unknown, join
from unstall.model.facts import Place
from unstall.model.plan import Value


class Outer(msgspec.Struct, frozen=True):
    """A wrapper around a call (``srun``, ``docker run``, ``ssh`` …) with its options."""

    name: str
    options: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    place: Place


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One command that the script starts.

    Attributes:
        words: its words; the first is the program.
        environment: variables that the script set and that it receives.
        not_exported: variables that the script set and that it does not receive.
        place: where it stands.
        background: it runs on while the script goes on.
        conditions: the conditions it stands under that could not be decided, outermost first.
        path: for each of them, which condition and which branch.
        order: position in time within its script.
        ended: position at which a ``wait`` waited for it; ``None`` where nothing did.
        script: number of the script.
        outer: wrappers around it, outermost first.
        feed: text on its standard input, where known.
        within: variables that were set within some of ``outer`` (``srun env X=1 …``), and how many
            of the innermost ones are around the program only, not around that.
    """

    words: tuple[Value, ...]
    environment: dict[str, Value]
    not_exported: dict[str, Value]
    place: Place
    background: bool = False
    conditions: tuple[str, ...] = ()
    path: tuple[tuple[int, int], ...] = ()
    order: int = 0
    ended: int | None = None
    script: int = 0
    outer: tuple[Outer, ...] = ()
    feed: str | None = None
    within: dict[str, int] = {}


class Variable(msgspec.Struct, frozen=True):
    """A shell variable.

    Attributes:
        value: its text, empty for an array.
        array: it is an array; ``items`` are its elements.
        exported: programs receive it.
        place: where it was last set; ``None`` where the script did not set it.
        gone: the script removed it, so that nothing from outside stands in it either.
    """

    value: Pieces
    array: bool
    exported: bool
    place: Place | None
    items: tuple[Pieces, ...] = ()
    gone: bool = False


class Reading(msgspec.Struct):
    """Everything that was found in a script."""

    calls: list[Call] = []
    origins: dict[str, Unknown] = {}
    sleeps: list[tuple[int, str, Place]] = []
    kills: list[tuple[int, str]] = []
    errors: list[Place] = []
    exhausted: bool = False
    sourced: set[str] = set()


def flat(variable: Variable) -> Pieces:
    """A variable's value as one text; an array's elements joined by blanks."""
    return join(variable.items) if variable.array else variable.value


def as_list(variable: Variable) -> list[Pieces]:
    """An array's elements; a plain variable is an array of one."""
    return list(variable.items) if variable.array else [variable.value]
