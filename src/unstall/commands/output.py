"""What reports may write to: terminals that cannot show every character, readers that have gone."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any

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


class _Unread(io.FileIO):
    """A pipe whose reader may go (``head``, a pager): what follows is thrown away."""

    def write(self, data: Any, /) -> int:
        """Write, to nowhere once nobody reads."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


def outliving_readers() -> None:
    """Let the command go on if standard output's reader has gone: its exit status is the answer's.

    Without, ``unstall diagnose run.log | head -1`` would end as if nothing had been diagnosed.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.isatty():
        return
    try:
        raw = _Unread(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):
        return
    stream.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=stream.line_buffering
    )


def readable(language: str) -> str:
    """The language, or English where standard output cannot show the language's script."""
    if language != "zh":
        return language
    try:
        "中文".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeError, LookupError):
        return "en"
    return language
