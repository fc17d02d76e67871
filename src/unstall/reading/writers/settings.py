"""Reads ``name=value`` and ``'name': value`` lists that programs print of their settings.

Nothing is evaluated: a value is the text between the separators, without its outer quotes.
"""

from __future__ import annotations

import re

_OPENING, _CLOSING = "([{<", ")]}>"
_SPECIAL = re.compile(r"[,'\"()\[\]{}<>]")


def settings_of(
    text: str, *, most: int = 300, longest: int = 300, separators: str = "=:"
) -> dict[str, str]:
    """Settings of the outermost level of ``a=1, b='x', c=[1, 2]`` or ``{'a': 1, 'b': [2]}``.

    Args:
        text: what stands between the outer brackets, or a whole list with or without them.
        most: settings read at most.
        longest: characters kept of a value.
        separators: characters that may stand between a name and its value.

    Returns:
        Names to values as written, values' outer quotes removed. What is no pair is left out.
    """
    found: dict[str, str] = {}
    for part in _split(_unwrapped(text)):
        name, value = _pair(part, separators)
        if name and name not in found:
            found[name] = value[:longest]
        if len(found) >= most:
            break
    return found


def call_body(text: str, start: int) -> str:
    """What stands in the brackets that open at or behind ``start``, cut where the text ends."""
    opening = text.find("(", start)
    brace = text.find("{", start)
    if opening < 0 or 0 <= brace < opening:
        opening = brace
    if opening < 0:
        return ""
    depth = 0
    quote = ""
    for found in _SPECIAL.finditer(text, opening):
        place, char = found.start(), found[0]
        if quote:
            if char == quote and text[place - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
            if depth <= 0:
                return text[opening + 1 : place]
    return text[opening + 1 :]


def _unwrapped(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] in "{(" and text[-1] in "})":
        return text[1:-1]
    return text.lstrip("{(")


def _split(text: str) -> list[str]:
    """Parts between the commas of the outermost level."""
    parts: list[str] = []
    depth = start = 0
    quote = ""
    for found in _SPECIAL.finditer(text):
        place, char = found.start(), found[0]
        if quote:
            if char == quote and text[place - 1] != "\\":
                quote = ""
        elif char in "'\"" and (place == 0 or not text[place - 1].isalnum()):
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
            if len(parts) > 2_000:
                return parts
    parts.append(text[start:])
    return parts


def _pair(part: str, separators: str) -> tuple[str, str]:
    part = part.strip()
    quoted = part[:1] in "'\"" and part[:1] != ""
    end = part.find(part[0], 1) if quoted else -1
    if quoted and end > 0:
        name, rest = part[1:end], part[end + 1 :].lstrip()
        if rest[:1] not in (":", "="):
            return "", ""
        return _name(name), _bare(rest[1:])
    places = [place for mark in separators if (place := part.find(mark)) > 0]
    if not places:
        return "", ""
    cut = min(places)
    return _name(part[:cut]), _bare(part[cut + 1 :])


def _name(name: str) -> str:
    name = name.strip()
    plain = name.replace("_", "").replace("/", "").replace(".", "").replace("-", "")
    plain = plain.replace("@", "").replace(" ", "")
    return name if 0 < len(name) <= 120 and plain.isalnum() else ""


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        return value[1:-1]
    return value
