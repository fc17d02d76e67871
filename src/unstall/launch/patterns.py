"""Shell patterns (``*``, ``?``, ``[…]``), matched without regular expressions."""

from __future__ import annotations

LONGEST = 4096


def match(text: str, pattern: str) -> bool:
    """Whether the whole text fits the pattern; time is bounded by the product of the lengths."""
    items = _items(pattern[:LONGEST])
    text = text[:LONGEST]
    at = item = 0
    star = -1
    resume = 0
    while at < len(text):
        if item < len(items) and items[item] == "*":
            star, resume = item, at
            item += 1
        elif item < len(items) and _fits(text[at], items[item]):
            at += 1
            item += 1
        elif star >= 0:
            resume += 1
            at = resume
            item = star + 1
        else:
            return False
    return all(i == "*" for i in items[item:])


def without_prefix(text: str, pattern: str, longest: bool) -> str:
    """``${text#pattern}``, or ``##`` for the longest prefix."""
    if len(text) > 512:
        return text[len(pattern) :] if text.startswith(pattern) else text
    ends = range(len(text) + 1)
    for end in reversed(ends) if longest else ends:
        if match(text[:end], pattern):
            return text[end:]
    return text


def without_suffix(text: str, pattern: str, longest: bool) -> str:
    """``${text%pattern}``, or ``%%`` for the longest suffix."""
    if len(text) > 512:
        return text[: -len(pattern)] if pattern and text.endswith(pattern) else text
    starts = range(len(text) + 1)
    for start in starts if longest else reversed(starts):
        if match(text[start:], pattern):
            return text[:start]
    return text


def replace(text: str, pattern: str, by: str, everywhere: bool) -> str:
    """``${text/pattern/by}``, or ``//``. Only for texts up to 512 characters."""
    if not pattern or len(text) > 512:
        return text
    if not any(c in "*?[\\" for c in pattern):
        return text.replace(pattern, by) if everywhere else text.replace(pattern, by, 1)
    found: list[str] = []
    at = 0
    while at < len(text):
        end = next((e for e in range(len(text), at, -1) if match(text[at:e], pattern)), None)
        if end is None:
            found.append(text[at])
            at += 1
            continue
        found.append(by)
        at = end
        if not everywhere:
            break
    return "".join(found) + text[at:]


def _items(pattern: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\" and at + 1 < len(pattern):
            found.append("\\" + pattern[at + 1])
            at += 2
        elif letter == "[":
            end = pattern.find("]", at + 2)
            if end < 0:
                found.append("\\[")
                at += 1
            else:
                found.append(pattern[at : end + 1])
                at = end + 1
        elif letter in "*?":
            if not (letter == "*" and found and found[-1] == "*"):
                found.append(letter)
            at += 1
        else:
            found.append("\\" + letter)
            at += 1
    return found


def _fits(letter: str, item: str) -> bool:
    if item == "?":
        return True
    if item[0] == "\\":
        return letter == item[1:]
    if item[0] != "[":
        return False
    inner = item[1:-1]
    negated = inner[:1] in ("!", "^")
    if negated:
        inner = inner[1:]
    hit = False
    at = 0
    while at < len(inner):
        if at + 2 < len(inner) and inner[at + 1] == "-":
            hit = hit or inner[at] <= letter <= inner[at + 2]
            at += 3
        else:
            hit = hit or letter == inner[at]
            at += 1
    return hit != negated
