"""The small tree of commands that :mod:`unstall.launch.syntax` makes of a script."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Assignment(msgspec.Struct, frozen=True):
    """``name=value``; ``items`` for an array, ``index`` for ``name[i]=``, ``append`` for ``+=``."""

    name: str
    value: str
    line: int
    items: tuple[str, ...] | None = None
    append: bool = False
    index: str | None = None


class Simple(msgspec.Struct, frozen=True):
    """A simple command.

    Attributes:
        words: its words, the program first.
        assignments: those before them.
        feed: its here-document or here-string, ``quoted_feed`` whether that is literal.
        declares: ``export``, ``local`` … where it is one; ``words`` are its operands.
        lines: the line of each word.
    """

    words: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    line: int
    feed: str | None = None
    quoted_feed: bool = False
    declares: str | None = None
    lines: tuple[int, ...] = ()


class Block(msgspec.Struct, frozen=True):
    """Commands one after the other."""

    parts: tuple[Part, ...]
    subshell: bool = False


class Async(msgspec.Struct, frozen=True):
    """A command with ``&`` behind it."""

    part: Part


class Pipe(msgspec.Struct, frozen=True):
    """A pipeline."""

    parts: tuple[Part, ...]


class AndOr(msgspec.Struct, frozen=True):
    """``left && right`` or ``left || right``."""

    left: Part
    operator: str
    right: Part
    written: str


class Branch(msgspec.Struct, frozen=True):
    """One branch: its condition (``None`` for else), as written, and its body."""

    condition: Part | None
    written: str
    body: Block


class If(msgspec.Struct, frozen=True):
    """``if``, or a ``case`` (then each branch has patterns over ``subject``)."""

    branches: tuple[Branch, ...]
    line: int
    subject: str | None = None


class For(msgspec.Struct, frozen=True):
    """``for name in words``; ``words`` is ``None`` for the positional parameters."""

    name: str
    words: tuple[str, ...] | None
    body: Block
    line: int


class CFor(msgspec.Struct, frozen=True):
    """``for ((start; test; step))``."""

    start: str
    test: str
    step: str
    body: Block
    line: int


class While(msgspec.Struct, frozen=True):
    """``while`` or ``until``."""

    condition: Part | None
    written: str
    body: Block
    line: int
    until: bool = False


class Function(msgspec.Struct, frozen=True):
    """A function's definition."""

    name: str
    body: Block


class Test(msgspec.Struct, frozen=True):
    """``[ … ]``, ``[[ … ]]`` or ``(( … ))`` as written."""

    written: str
    line: int


Part: TypeAlias = (
    "Simple | Block | Async | Pipe | AndOr | If | For | CFor | While | Function | Test"
)
