"""Ports that are taken, as servers and launchers other than PyTorch's store tell it.

Sources: asyncio's ``create_server`` as uvicorn logs it, Python's ``OSError`` 98, ZeroMQ's
``Address already in use``, Accelerate's ``commands/launch`` and ``utils/launch.py``, Ray's start-up
check, DeepSpeed's and MPI's are PyTorch's own. The store's words are read in ``store``.
"""

from __future__ import annotations

import re

from unstall.model.facts import Fact, StoreFailure
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common, small_int


def _bind(marks: str, regex: str) -> Pattern:
    """A line whose groups ``host`` and ``port`` name the address that is in use."""

    def make(line: Line, found: re.Match[str]) -> Fact | None:
        groups = found.groupdict()
        host, port = groups.get("host"), groups.get("port") or groups.get("other")
        return StoreFailure(
            **common(line),
            kind="bind",
            host=host,
            port=small_int(port) if port else None,
            errno=98,
        )

    return Pattern(marks, re.compile(regex, re.ASCII), make)


class PortsTaken(Sentences):
    """One fact for each line that says that an address is in use."""

    patterns = (
        _bind(
            "error while attempting to bind on address",
            r"attempting to bind on address \('(?P<host>[^']{1,80})', (?P<port>\d{1,5})"
            r"[^)]{0,20}\): \[?(?:Errno \d{1,3}\] ?)?[Aa]ddress already in use",
        ),
        _bind(
            "Address already in use",
            r"Address already in use \(addr='?tcp://(?P<host>[\w.*:\[\]-]{1,80}):(?P<port>\d{1,5})",
        ),
        _bind(
            "(os error 98)",  # Rust's std::io::Error; it names no port
            r"[Aa]ddress already in use \(os error 98\)",
        ),
        _bind(
            "another process is utilizing it",
            r"on port [`'\"]?(?P<port>\d{1,5})[`'\"]?, but another process is utilizing it",
        ),
        _bind(
            "ort ",
            r"\b[Pp]ort (?P<port>\d{1,5}) (?:is )?(?:already in use|is occupied|is not available"
            r"|already (?:bound|occupied))|(?:端口|port) ?(?P<other>\d{1,5}) ?(?:已)?被占用",
        ),
        _bind(
            "端口",
            r"端口 ?[:：]? ?(?P<port>\d{1,5}) ?(?:已经|已)?被(?:占用|使用)",
        ),
    )
