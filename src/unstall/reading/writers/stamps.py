"""Headers that writers put before what they say: level, time, file and line.

Every function searches: a header may stand in the middle of a pasted or glued line. Two records
of two threads can be glued on one line; :func:`records` separates them.

Sources: ``c10/util/Logging.cpp`` of PyTorch 1.13 to 2.15 (the bracketed form gained its time in
2.4; month not padded, no year, no zone), ``torch/_logging`` for the glog-like form of the Python
side (2.3 and later), ``vllm/logging_utils`` (0.6 and later), NCCL ``src/debug.cc`` 2.14 to 2.31.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from unstall.model.facts import Moment

NO_YEAR = 1904
"""Year of a :class:`Moment` whose line gave none (a leap year, so that 29 February exists)."""


class Stamp(msgspec.Struct, frozen=True):
    """One record's header and its message.

    Attributes:
        form: ``c10`` (bracketed), ``glog``, ``python`` (vLLM's), ``nccl``.
        level: one letter: V, I, W, E, F; NCCL's INFO is I, WARN is W, everything else V.
        moment: when it was said, where the header tells.
        file: source file as written.
        line: line in that file.
        message: what follows, up to the next record's header.
        before: what stands before the header, at most its last 400 characters.
        rank: global rank of a ``[rankN]:`` directly before the header.
        pid: process id (thread id in glog's form before torch 2.5, which cannot be told apart).
        host: host that the header names.
        device: CUDA device ordinal that the header names (it is not a rank).
        start: offset of the header in the text.
    """

    form: str
    level: str
    moment: Moment | None
    file: str
    line: int | None
    message: str
    before: str = ""
    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    device: int | None = None
    start: int = 0


_C10 = re.compile(
    r"\[([VIWEF])(?:(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}))? ?"
    r"([A-Za-z_][\w.+-]{0,79}):(\d{1,7})\\?\] ?",
    re.ASCII,
)
_GLOG = re.compile(
    r"(?<![A-Za-z0-9])([VIWEFDC])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3,9})\s{1,8}(\d{1,18}) "
    r"([^\s\]:]{1,300}):(\d{1,7})\\?\] ?",
    re.ASCII,
)
_PYTHON = re.compile(
    r"(?<![A-Za-z])(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)"
    r"(?:[.,](\d{1,9}))? \[?([^\s\]:\[]{1,200}):(\d{1,7})\\?\] ?",
    re.ASCII,
)
_RANK = re.compile(r"\[rank(\d{1,9})\\?\]:\\?$", re.ASCII)
_NCCL = re.compile(r"(?<!\S)NCCL (INFO|WARN|TRACE|CALL|VERSION|ERROR|ABORT)(?!\S) ?")
_DATE = re.compile(
    r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    r"( ?Z| ?[+-]\d\d:?\d\d)?(?!\d)",
    re.ASCII,
)
_AMERICAN = re.compile(
    r"(?<!\d)(\d\d)/(\d\d)/(\d{4})[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?!\d)",
    re.ASCII,
)
_LEVELS = {"D": "V", "C": "F", "DEBUG": "V", "INFO": "I", "WARNING": "W", "WARN": "W"}
_LEVELS |= {"ERROR": "E", "CRITICAL": "F"}


def c10_stamp(text: str) -> Stamp | None:
    """The first header of PyTorch's C++ logger, ``[E1206 21:12:01.852621435 File.cpp:685] ``."""
    found = _C10.search(text)
    if found is None:
        return None
    return _c10(text, found, len(text))


def glog_stamp(text: str) -> Stamp | None:
    """The first glog-like header, ``E1130 09:51:02.327000 11651 path/api.py:1002] ``."""
    found = _GLOG.search(text)
    if found is None:
        return None
    return _glog(text, found, len(text))


def python_stamp(text: str) -> Stamp | None:
    """The first header of vLLM's loggers, ``ERROR 12-06 21:12:01 [core.py:58] ``."""
    found = _PYTHON.search(text)
    if found is None:
        return None
    level, month, day, hour, minute, second, fraction, file, line = found.groups()
    return Stamp(
        form="python",
        level=_LEVELS[level],
        moment=moment(None, month, day, hour, minute, second, fraction),
        file=file,
        line=int(line),
        message=text[found.end() :],
        before=text[max(0, found.start() - 400) : found.start()],
        start=found.start(),
    )


def nccl_stamp(text: str) -> Stamp | None:
    """The first NCCL header, ``[2026-03-04 11:32:40] host:pid:tid [0] a/b.cc:58 (f) NCCL WARN ``.

    Time (2.26 and later) and function (2.30 and later) may be missing.
    """
    found = _NCCL.search(text)
    if found is None:
        return None
    words = text[max(0, found.start() - 700) : found.start()].split()
    host = pid = device = line = None
    file = ""
    if words and len(words[-1]) > 2 and words[-1][0] == "(" and words[-1][-1] == ")":
        words.pop()
    if words and (numbered := _file_line(words[-1])):
        file, line = numbered
        words.pop()
    if words and words[-1][0] == "[" and words[-1][-1] == "]" and _is_int(words[-1][1:-1]):
        device = int(words.pop()[1:-1])
    if words:
        parts = words[-1].rsplit(":", 2)
        if len(parts) == 3 and _is_int(parts[1]) and _is_int(parts[2]) and parts[0]:
            # Whatever is glued before the host ends at a bracket or quote.
            host = re.split(r"[\]\[\"'`*(){}|>]", parts[0])[-1] or None
            pid = int(parts[1])
            words.pop()
    return Stamp(
        form="nccl",
        level={"INFO": "I", "WARN": "W", "ERROR": "E", "ABORT": "F"}.get(found[1], "V"),
        moment=full_moment(" ".join(words[-2:])),
        file=file,
        line=line,
        message=text[found.end() :],
        before=text[max(0, found.start() - 400) : found.start()],
        start=found.start(),
        pid=pid,
        host=host,
        device=device,
    )


def stamp(text: str) -> Stamp | None:
    """The first header of any form (bracketed or glog-like: whichever stands first)."""
    c10, glog = c10_stamp(text), glog_stamp(text)
    if c10 is not None and glog is not None:
        return min(c10, glog, key=lambda s: s.start)
    return c10 or glog or python_stamp(text) or nccl_stamp(text)


def records(text: str) -> Iterator[Stamp | str]:
    """The C++ records of one line, in order.

    A line of two glued records gives both. Text before the first header (or all of the text, where
    there is no header) comes as a string.
    """
    if "]" not in text:  # both forms end with it
        yield text
        return
    heads = sorted(
        [*_C10.finditer(text), *_GLOG.finditer(text)],
        key=lambda found: found.start(),
    )
    if not heads:
        yield text
        return
    first = heads[0].start()
    lead = text[:first]
    if (rank := _RANK.search(lead[-40:])) is not None:
        lead = lead[: len(lead) - len(rank[0])]
    if lead.strip():
        yield lead
    for place, found in enumerate(heads):
        end = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        if found.re is _C10:
            yield _c10(text, found, end)
        else:
            yield _glog(text, found, end)


def full_moment(text: str) -> Moment | None:
    """The first full date and time: ``2026-03-04 11:32:40,123``, ISO 8601, American."""
    if (found := _DATE.search(text)) is not None:
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        return moment(year, month, day, hour, minute, second, fraction, zone)
    if (found := _AMERICAN.search(text)) is not None:
        month, day, year, hour, minute, second, fraction = found.groups()
        return moment(year, month, day, hour, minute, second, fraction)
    return None


def moment(
    year: str | None,
    month: str,
    day: str,
    hour: str,
    minute: str,
    second: str,
    fraction: str | None = None,
    zone: str | None = None,
) -> Moment | None:
    """A moment of its digits, ``None`` where there is no such date.

    Args:
        year: four digits, or ``None`` where the line gave none.
        month: month, padded or not.
        day: day of the month.
        hour: 0 to 23.
        minute: 0 to 59.
        second: 0 to 59.
        fraction: digits after the point; what is finer than a microsecond is cut.
        zone: ``Z``, ``+08:00``, ``-0330`` or ``None``.
    """
    try:
        stamp_ = datetime(
            int(year) if year else NO_YEAR,
            int(month),
            int(day),
            int(hour),
            int(minute),
            int(second),
            int((fraction or "0")[:6].ljust(6, "0")),
        )
    except ValueError:
        return None
    return Moment(stamp_, year_known=bool(year), zone=_zone(zone))


def _c10(text: str, found: re.Match[str], end: int) -> Stamp:
    level, month, day, hour, minute, second, fraction, file, line = found.groups()
    before = text[max(0, found.start() - 400) : found.start()]
    rank = _RANK.search(before[-40:])
    return Stamp(
        form="c10",
        level=level,
        moment=moment(None, month, day, hour, minute, second, fraction) if month else None,
        file=file,
        line=int(line),
        message=_until(text, found.end(), end),
        before=before,
        start=found.start(),
        rank=int(rank[1]) if rank else None,
    )


def _glog(text: str, found: re.Match[str], end: int) -> Stamp:
    level, month, day, hour, minute, second, fraction, pid, file, line = found.groups()
    before = text[max(0, found.start() - 400) : found.start()]
    rank = _RANK.search(before[-40:])
    return Stamp(
        form="glog",
        level=_LEVELS.get(level, level),
        moment=moment(None, month, day, hour, minute, second, fraction),
        file=file,
        line=int(line),
        message=_until(text, found.end(), end),
        before=before,
        start=found.start(),
        rank=int(rank[1]) if rank else None,
        pid=int(pid),
    )


def _until(text: str, start: int, end: int) -> str:
    """The message, without the ``[rankN]:`` that belongs to the record glued behind it."""
    message = text[start:end]
    if end < len(text) and (rank := _RANK.search(message[-40:])) is not None:
        message = message[: len(message) - len(rank[0])]
    return message


def _file_line(word: str) -> tuple[str, int] | None:
    name, colon, number = word.rpartition(":")
    if colon and name and _is_int(number) and ":" not in name and "." in name:
        return name, int(number)
    return None


def _is_int(word: str) -> bool:
    digits = word.removeprefix("-")
    return 0 < len(digits) <= 18 and digits.isascii() and digits.isdigit()


def _zone(zone: str | None) -> int | None:
    if zone is None:
        return None
    zone = zone.strip()
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if zone[0] == "-" else minutes
