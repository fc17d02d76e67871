"""A line as its program wrote it: without terminal escapes, markup and what trackers made of it."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\xa0\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\u061c\ufeff\ud800-\udfff]")  # noqa: E501  # fmt: skip
_GONE = {**dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, *range(0x80, 0xA0)])}
_GONE |= dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), 0x061C, 0xFEFF])
_GONE |= dict.fromkeys(range(0x2060, 0x2070))
_TABLE: dict[int, str | None] = {**_GONE, 0xA0: " ", 0x2028: " ", 0x2029: " "}
_TABLE |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

# ECMA-48 control sequences; a cut one runs to the end of its parameters.
_MOVE = re.compile("\x1b\\[[0-9;]{0,12}[ABEFGHfd]")
_ESCAPE = re.compile(
    "\x1b(?:\\[[0-?]{0,60}[ -/]{0,4}[@-~]?|\\][^\x07\x1b]{0,400}(?:\x07|\x1b\\\\)?|[@-Z\\\\^_=>78]"
    "|[()][A-Z0-9])"
)
# Colours whose escape character got lost, or was written out: [36m, ESC[1;36m, ^[[0m, \x1b[0m.
_COLOUR = re.compile(
    r"(?:ESC|\^\[|\\x1b|\\033|\\e|\\u001b|␛)?"
    r"\[(?:0|1|0;0|(?:[0-4];)?(?:3[0-79]|4[0-79]|9[0-7]|10[0-7])|[34]8;[25](?:;\d{1,3}){1,3})m(?!\])"
)
_COLOURED = re.compile(r"\[[\d;]{1,20}m")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#34|#x2F);")
_ENTITIES = {
    "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'", "&nbsp;": " ",
    "&#39;": "'", "&#x27;": "'", "&#34;": '"', "&#x2F;": "/",
}  # fmt: skip
# A tracker makes #1 a link to its first issue, and addresses links to themselves.
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\((?:https?://|mailto:)[^\s()<>]{1,500}\)")
_ANCHOR = re.compile(
    r"<a [^<>]{1,500}>([^<>]{0,300})</a>|</?(?:br|pre|code|span|p)(?: [^<>]{0,200})?/?>"
)
_FRAME = re.compile(r"\bframe\s{1,8}#(\d{1,4})\s{0,4}:")
_ESCAPED = re.compile(r"\\([\[\]_*<>#~|`(){}.!+-])")
_LOOKS_ESCAPED = re.compile(
    r"\\\[(?:rank|[VIWEF]\d?|PG |Rank |default|\d{4}-)|\w\\_\w|\\<\w|#\\\d|\\#\d"
)

SPACES = "\t\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
SPACES += "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""What ``\\s`` matches within a line."""
TOUCHED = (
    *(chr(code) for code in _TABLE if not 0xD800 <= code < 0xE000),
    *("\\", "](http", "](mailto:", "<a ", "[0m", "[1m", "[0;", "[1;", "[2;", "[3;", "[4;"),
    *(f"[{colour}m" for colour in (*range(30, 38), 39, *range(40, 48), 49, *range(90, 108))),
    *("[38;", "[48;"),
    *(f"<{end}{tag}" for end in ("", "/") for tag in ("br", "pre", "code", "span", "p")),
    *_ENTITIES,
    *(f"frame{space}" for space in SPACES),
)
"""Literals of which one stands, as written, in every text that :func:`controls`,
:func:`markup` or taking a packed text apart change."""


def controls(text: str) -> str:
    """The text without control and invisible characters; cursor moves become line returns."""
    if "\x1b" in text:
        text = _MOVE.sub("\r", text)
        text = _ESCAPE.sub("", text)
    if _CONTROL.search(text) is not None:
        text = text.translate(_TABLE)
    return text


def markup(text: str) -> str:
    """The text without lost colours, entities, links and escapes of Markdown and HTML."""
    if "[" in text and _COLOURED.search(text) is not None:
        text = _COLOUR.sub("", text)
    if "&" in text and _ENTITY.search(text) is not None:
        text = _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "\\" in text and _LOOKS_ESCAPED.search(text) is not None:
        text = _ESCAPED.sub(r"\1", text)
    if "<" in text and "/" in text:
        text = _ANCHOR.sub(r"\1", text)
    if "frame" in text and "#" in text:
        text = _FRAME.sub(r"frame #\1:", text)
    return text
