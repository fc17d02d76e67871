"""Strings of which parts are unknown until the script runs.

A shell word is a sequence of pieces, each either literal text or an :class:`Unknown`. Two unknowns
with one token are the same text at run time, whatever that text is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from unstall.model.facts import Place
from unstall.model.plan import Value

LONGEST = 65536
"""No value grows beyond so many characters: a script can double a string in a loop."""


class Unknown(msgspec.Struct, frozen=True):
    """A text that only the run knows.

    Attributes:
        written: the expression that makes it, as written.
        token: equal tokens mean equal text.
        origin: ``environment`` (comes from outside), ``free-port`` (a port that was bound and
            closed again), ``random`` (drawn without asking the system), ``command``, ``branch``
            (depends on a condition), ``parameter`` (an argument of the script), ``files`` (a
            pattern of file names) or ``input``.
    """

    written: str
    token: str
    origin: str = "command"


Piece: TypeAlias = "str | Unknown"
Pieces: TypeAlias = tuple["str | Unknown", ...]


class Field(tuple[Piece, ...]):
    """A command's word that remembers the line (from 0) it stands on."""

    line: int | None = None

    @classmethod
    def at(cls, pieces: Pieces, line: int) -> Field:
        """The pieces with their line."""
        field = cls(pieces)
        field.line = line
        return field


def known(pieces: Pieces) -> str | None:
    """The text, or ``None`` where a part is unknown."""
    parts = []
    for piece in pieces:
        if isinstance(piece, Unknown):
            return None
        parts.append(piece)
    return "".join(parts)


def written(pieces: Pieces) -> str:
    """The text with unknown parts as the script wrote them."""
    return "".join(p.written if isinstance(p, Unknown) else p for p in pieces)


def token(pieces: Pieces) -> str:
    """A token of the whole: equal for equal literal parts and equal unknowns."""
    return "".join(f"\x1f{p.token}\x1f" if isinstance(p, Unknown) else p for p in pieces)


def join(parts: Iterable[Pieces], between: str = " ") -> Pieces:
    """The parts one after the other, with a separator."""
    found: list[Piece] = []
    for number, part in enumerate(parts):
        if number and between:
            found.append(between)
        found.extend(part)
    return compact(found)


def compact(pieces: Iterable[Piece]) -> Pieces:
    """Neighbouring literals merged, empty ones dropped, the whole bounded by :data:`LONGEST`."""
    found: list[Piece] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, str):
            piece = piece[: LONGEST - size]
            if not piece:
                continue
            size += len(piece)
            if found and isinstance(found[-1], str):
                found[-1] += piece
                continue
        else:
            size += len(piece.written)
        found.append(piece)
        if size >= LONGEST:
            break
    return tuple(found)


def as_value(pieces: Pieces, place: Place | None) -> Value:
    """The same as the plan shows it."""
    text = known(pieces)
    if text is not None:
        return Value(text, place=place)
    if len(pieces) == 1 and isinstance(pieces[0], Unknown):
        return Value(pieces[0].written, known=False, place=place, token=pieces[0].token)
    return Value(written(pieces), known=False, place=place, token=token(pieces))


def globs(text: str) -> Pieces:
    """Unquoted text: which files a ``*`` or ``?`` stands for only the run knows.

    Brackets stay as they are: they seldom match a file, and Hydra's lists are written with them.
    """
    if "*" not in text and "?" not in text:
        return (text,)
    found: list[Piece] = []
    for letter in text:
        if letter in "*?":
            found.append(Unknown(letter, f"glob:{letter}", "files"))
        elif found and isinstance(found[-1], str):
            found[-1] += letter
        else:
            found.append(letter)
    return tuple(found)
