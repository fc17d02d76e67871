"""What a dump's file name tells: rank, host, and which files belong together.

A dump holds no rank. torch writes ``<prefix><rank>`` with a prefix of the user's choice
(``/tmp/nccl_trace_rank_0`` up to 2.6, ``~/.cache/torch/nccl_trace_rank_0`` from 2.7,
``comm_lib_trace_rank_0`` from 2.9: FlightRecorder.hpp), tools and people rename what they collect.
"""

from __future__ import annotations

import re

import msgspec

_EXTENSIONS = re.compile(
    r"(?:\.(?:pkl|pickle|json|dump|trace|bin|dat|txt|log|gz|zst|xz|bz2|fr))+$", re.IGNORECASE
)
_GLOBAL_RANK = re.compile(
    r"(?<![a-z])(?:global[-_. ]?)?rank(?:[-_=. ]|No)?0*(\d{1,7})(?!\d)", re.IGNORECASE
)
_SHORT_RANK = re.compile(r"(?<![A-Za-z0-9])r0*(\d{1,7})(?![A-Za-z0-9])")
_LOCAL = re.compile(r"local[-_. ]?$", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"0*(\d{1,7})(?=\D*$)")
_PLAIN_WORDS = re.compile(
    r"(?:nccl|comm|lib|trace|rank|dumps?|fr|flight|recorder|torch|pg|debug|global|local|pickle|json"
    r"|hang|ok|after|file|gpu|tp|dp|pp|ep|v|run|job|step|iter)?[-.]?\d*\Z",
    re.IGNORECASE,
)
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9-]*\d[A-Za-z0-9-]*(?:\.[A-Za-z][A-Za-z0-9-]*)*")


class NameParts(msgspec.Struct, frozen=True):
    """What a file's name says.

    Attributes:
        rank: global rank, ``None`` where the name has no number that could be it.
        sure: the name calls that number a rank.
        host: host, where a part of the name looks like one.
        series: the name without its rank: files of one writer share it.
    """

    rank: int | None
    sure: bool
    host: str | None
    series: str


def read_name(name: str) -> NameParts:
    """Rank, host and series of a dump by its name (a path, or ``archive!member``)."""
    folders, _, base = name.replace("!", "/").replace("\\", "/").rpartition("/")
    stem = _EXTENSIONS.sub("", base) or base
    for text, where in ((stem, "stem"), (folders, "folders")):
        found = _spoken_rank(text)
        if found is not None:
            rank, start, end = found
            rest = text[:start] + "*" + text[end:]
            whole = f"{folders}/{rest}" if where == "stem" else f"{rest}/{stem}"
            return NameParts(rank, True, _host(folders, stem, (start, end), where), whole)
    match = _LAST_NUMBER.search(stem)
    if match is None:
        return NameParts(None, False, _host(folders, stem, (0, 0), "none"), f"{folders}/{stem}")
    series = f"{folders}/{stem[: match.start()]}*{stem[match.end() :]}"
    return NameParts(int(match[1]), False, _host(folders, stem, match.span(), "stem"), series)


def _spoken_rank(text: str) -> tuple[int, int, int] | None:
    """The last number that the text itself calls a rank, and where it stands."""
    best = None
    for pattern in (_GLOBAL_RANK, _SHORT_RANK):
        for match in pattern.finditer(text[-1000:] if len(text) > 1000 else text):
            if not _LOCAL.search(text[: match.start()]):
                best = (int(match[1]), *match.span())
        if best is not None:
            return best
    return None


def _host(folders: str, stem: str, span: tuple[int, int], where: str) -> str | None:
    """A part of the name, or the nearest folder, that reads like a host's name."""
    around = [stem] if where != "stem" else [stem[: span[0]], stem[span[1] :]]
    for text in around:
        for piece in re.split(r"[_\s,=+]+", text):
            piece = piece.strip("-.")
            if piece and not _PLAIN_WORDS.match(piece) and _HOST.fullmatch(piece):
                return piece
    nearest = folders.rpartition("/")[2]
    if re.match(r"(?:node|host|worker|pod|ip)[-_]?[\w.-]*\d\Z", nearest, re.IGNORECASE):
        return nearest
    return None
