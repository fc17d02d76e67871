"""Several records on one line, taken apart.

Threads and processes share a terminal, so a record can begin where another's line has not ended;
progress bars end without a line end; collectors put a whole stack into one escaped string.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_A = re.ASCII
# Where another writer's record begins. Each alternative begins with few characters, so that most
# places of a line are passed at once; those that begin with any are looked for only where a word
# of theirs stands.
_RECORD = re.compile(
    r"""
      \[rank\d{1,6}\]:(?:\[[VIWEF][\ \d]|[VIWEF]\d{4}\ |\ Traceback|\ \ )
    | \[[VIWEF](?:\d{3,4}\ \d\d:\d\d:\d\d\.\d{1,9}|)\ [A-Za-z_][\w.+-]{0,79}\.(?:cpp|hpp|h|cc|cu):\d
    | (?<![A-Za-z0-9])[VIWEF]\d{4}\ \d\d:\d\d:\d\d\.\d{6}\ \d{1,18}\ [^\s\]:]{1,300}:\d{1,7}\]
    | (?<![A-Za-z])(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\ \d\d-\d\d\ \d\d:\d\d:\d\d\ \[?
      [^\s:\]]{1,80}:\d
    | \((?:EngineCore|APIServer|Worker|VllmWorker|RayWorkerWrapper)[\w.]{0,40}\ (?:rank=\d{1,6}\ )?
      pid=\d{1,10}\)\ (?:INFO|WARN|ERROR|DEBUG|Traceback|\ )
    """,
    re.VERBOSE | _A,
)
_RECORD_HINT = re.compile(r"\[rank\d|\.(?:cpp|hpp|h|cc|cu|py):\d|pid=\d", _A)
# What each alternative of a record holds besides, and is looked for faster than it.
_RECORD_PART = re.compile(
    r"[\[(](?:rank\d|[VIWEF][\d ]|EngineCore|APIServer|\w{0,4}Worker|RayWorkerWrapper)"
    r"|\.\d{6}\ \d|\ \d\d-\d\d\ ", _A)  # fmt: skip
_RARER = (
    ("NCCL ", re.compile(
        r"(?<![\w.-])[A-Za-z0-9][\w.-]{0,63}:\d{1,8}:\d{1,8} \[\d{1,3}\] "
        r"(?:NCCL |[\w/]{1,60}\.cc:\d)", _A), True),
    ("terminate called", re.compile(
        r"terminate called (?:after throwing|without an active)"), True),
    ("frame #", re.compile(r"(?<=\S) {0,2}frame #\d{1,4}: ", _A), False),
)  # fmt: skip
_STAMP = re.compile(r"\s{0,4}\[?[\d/:., TZ+-]{8,40}\]?:?\s{0,4}", _A)
_WORD = re.compile(r"\S")
# The end of a tqdm bar: [elapsed<remaining, rate, postfix].
_BAR_END = re.compile(r"\[\d[\d:]{0,12}<[\d:?, days]{1,20}, [^\]\[\n]{0,300}\]", _A)
_UNESCAPE = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\\\": "\\", "\\r": ""}
_ESCAPES = re.compile(r"\\[nrt\"'\\]")


class Piece(NamedTuple):
    """A part of a line.

    Attributes:
        text: the part.
        other: another writer than the part before may have written it.
    """

    text: str
    other: bool


def unglue(text: str) -> list[Piece] | None:
    """The records of one line; ``None`` where it is one record."""
    cuts: dict[int, bool] = {}
    if _RECORD_HINT.search(text, 1) is not None and _RECORD_PART.search(text, 1) is not None:
        for found in _RECORD.finditer(text, 1):
            cuts[found.start()] = True
    for word, pattern, other in _RARER:
        if word in text:
            for found in pattern.finditer(text, 1):
                cuts.setdefault(found.start(), other)
    if "<" in text and "]" in text:
        for found in _BAR_END.finditer(text):
            if _WORD.search(text, found.end()) is not None:
                cuts.setdefault(found.end(), False)
    if not cuts:
        return None
    pieces: list[Piece] = []
    start, other = 0, False
    for cut in [*sorted(cuts), len(text)]:
        part = text[start:cut]
        if cut < len(text) and _STAMP.fullmatch(part):
            continue  # the record's own date
        if part.strip():
            pieces.append(Piece(part if not start or other else part.lstrip(), other))
        start, other = cut, cuts.get(cut, False)
    return pieces if len(pieces) > 1 else None


def unescape(text: str) -> str:
    """A stack that was put into one quoted string, with its line ends; else the text itself.

    Elastic's error files, Ray's and collectors' JSON write a traceback so.
    """
    if "\\n" not in text or text.count("\\n") < 2:
        return text
    if (
        "Traceback (most recent call last):\\n" not in text
        and "\\nframe #" not in text
        and "\\n[rank" not in text
    ):
        return text
    return _ESCAPES.sub(lambda found: _UNESCAPE[found[0]], text)
