"""What reports may write to a terminal or pipe that cannot show every character."""

from __future__ import annotations

import codecs
import io
import sys

#: Marks of the reports that have a like in ASCII, of the same width.
_LIKE = {
    "…": ".", "·": "-", "—": "-", "–": "-", "×": "x", "→": ">", "←": "<", "│": "|", "─": "-",
    "“": '"', "”": '"', "‘": "'", "’": "'", "✓": "+", "✗": "x", "•": "*", "≥": ">", "≤": "<",
}  # fmt: skip


def _likened(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_LIKE.get(character, "?") for character in text), error.end


codecs.register_error("unstall-likened", _likened)


def forgiving() -> None:
    """Let standard output and error show what they can instead of failing on the rest.

    A container without a locale has ASCII streams; a report may still quote Chinese.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="unstall-likened")


def readable(language: str) -> str:
    """The language, or English where standard output cannot show the language's script."""
    if language != "zh":
        return language
    try:
        "中文".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeError, LookupError):
        return "en"
    return language
