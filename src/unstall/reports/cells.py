"""Text in a terminal's cells: how wide it is, where it may be broken, how it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rich.cells import cell_len

ELLIPSIS = "…"

# Marks that must not begin a line, and marks that must not end one (Chinese typography).
_CLOSING = frozenset("，。、；：！？）】》」』”’〉〕％…·,.;:!?)]}%")
_OPENING = frozenset("（【《「『“‘〈〔([{")


@lru_cache(maxsize=4096)
def _cell(character: str) -> int:
    return cell_len(character)


def width(text: str) -> int:
    """Cells that a cleaned text takes in a terminal: two for a Chinese character."""
    if text.isascii():
        return len(text)
    return max(sum(map(_cell, text)), cell_len(text))


def wrap(text: str, most: int) -> list[str]:
    """Lines of at most ``most`` cells, broken at blanks and between wide characters.

    Chinese has no blanks: it is broken anywhere but before a closing and after an opening mark.
    A word longer than a line is cut where the line ends. There is always at least one line.
    """
    most = max(most, 4)
    lines: list[str] = []
    line, used = "", 0
    for gap, atom in _atoms(text):
        size = width(atom)
        blank = 1 if gap and line else 0
        if line and used + blank + size > most:
            lines.append(line)
            line, used, blank = "", 0, 0
        while size > most:
            head, atom = split(atom, most)
            lines.append(head)
            size = width(atom)
        line += " " * blank + atom
        used += blank + size
    if line or not lines:
        lines.append(line)
    return lines


def _atoms(text: str) -> Iterator[tuple[bool, str]]:
    """Unbreakable pieces, each with whether a blank stands before it."""
    atom, gap, wide_before = "", False, False
    for character in text:
        if character == " ":
            if atom:
                yield gap, atom
                atom = ""
            gap = True
            continue
        wide = _cell(character) == 2
        breakable = (wide or wide_before) and (
            character not in _CLOSING and atom[-1:] not in _OPENING
        )
        if atom and breakable:
            yield gap, atom
            atom, gap = "", False
        atom += character
        # A mark belongs to what it is attached to; only what follows it may begin a new line.
        wide_before = wide or (wide_before and _cell(character) == 0)
    if atom:
        yield gap, atom


def split(text: str, most: int) -> tuple[str, str]:
    """The longest head of at most ``most`` cells (at least one character), and the rest."""
    used = 0
    for index, character in enumerate(text):
        used += _cell(character)
        if used > most and index:
            return text[:index], text[index:]
    return text, ""


def cut_end(text: str, most: int) -> str:
    """At most ``most`` cells; what was cut at the end is told by an ellipsis."""
    if width(text) <= most:
        return text
    return split(text, max(most - 1, 1))[0].rstrip() + ELLIPSIS


def cut_middle(text: str, most: int) -> str:
    """At most ``most`` cells, without the middle: of a path, the end says most."""
    if width(text) <= most:
        return text
    room = max(most - 1, 2)
    head = split(text, max(room // 3, 1))[0]
    tail = split(text[::-1], max(room - width(head), 1))[0][::-1]
    return head + ELLIPSIS + tail


def clip(lines: list[str], most: int, room: int) -> list[str]:
    """The first ``most`` of wrapped lines, the last of at most ``room`` cells.

    It ends with an ellipsis if anything was dropped.
    """
    kept = lines[:most]
    if len(lines) > most or width(kept[-1]) > room:
        kept[-1] = cut_end(kept[-1] + ELLIPSIS, room)
    return kept


def pad(text: str, most: int) -> str:
    """The text and blanks up to ``most`` cells."""
    return text + " " * max(most - width(text), 0)
