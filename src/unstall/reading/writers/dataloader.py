"""What torch's DataLoader says of a worker process that died.

Sources: ``torch/utils/data/_utils/signal_handling.py``, ``torch/csrc/DataLoader.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, FatalSignal, ProcessEnd, ResourceLimit
from unstall.reading.line import Line
from unstall.reading.writers.lines import (
    NUMBERS,
    WORDS,
    Pattern,
    Sentences,
    common,
    exit_code,
    signal_of,
    small_int,
)


def _signal(line: Line, found: re.Match[str]) -> Fact | None:
    name = WORDS.get(found[2])
    return ProcessEnd(
        **common(line),
        reporter="dataloader",
        exit_code=-NUMBERS[name] if name else None,
        signal=name,
        pid=small_int(found[1]),
    )


def _code(line: Line, found: re.Match[str]) -> Fact | None:
    code = exit_code(int(found[2]))
    return ProcessEnd(
        **common(line),
        reporter="dataloader",
        exit_code=code,
        signal=signal_of(code),
        pid=int(found[1]),
    )


def _unexpected(line: Line, found: re.Match[str]) -> Fact | None:
    return ProcessEnd(**common(line), reporter="dataloader", pid=small_int(found[1].split(",")[0]))


def _bus(line: Line, _: re.Match[str]) -> Fact | None:
    return ResourceLimit(**common(line), kind="shm")


def _fatal(line: Line, found: re.Match[str]) -> Fact | None:
    return FatalSignal(**common(line), what=found[1].capitalize())


class LoaderDeaths(Sentences):
    """Ends of DataLoader workers; a bus error there means that shared memory ran out."""

    many = True
    patterns = (
        Pattern(
            "is killed by signal: ",
            re.compile(
                # people leave the number out where they quote it
                r"DataLoader worker (?:\(pid ?(\d{1,9}|[^()\s]{0,20})\) )?is killed by signal: "
                r"([A-Z][A-Za-z/ ]{2,30})",
                re.ASCII,
            ),
            _signal,
        ),
        Pattern(
            "exited unexpectedly with exit code",
            re.compile(
                r"DataLoader worker \(pid (\d{1,9})\) exited unexpectedly with exit code (\d{1,4})",
                re.ASCII,
            ),
            _code,
        ),
        Pattern(
            "exited unexpectedly",
            re.compile(
                r"DataLoader worker \(pid\(s\) ([\d, ]{1,400})\) exited unexpectedly", re.ASCII
            ),
            _unexpected,
        ),
        Pattern(
            "out of shared memory|insufficient shared memory",
            re.compile(
                r"dataloader's workers are out of shared memory"
                r"|caused by insufficient shared memory \(shm\)"
            ),
            _bus,
        ),
        Pattern(
            "encountered in worker",
            re.compile(
                r"ERROR: Unexpected (segmentation fault|floating-point exception)"
                r" encountered in worker"
            ),
            _fatal,
        ),
    )

    def __init__(self) -> None:
        self._known: set[int] = set()

    def feed(self, line: Line) -> Iterable[Fact]:
        """Ends that this line tells, each worker's once."""
        facts: list[Fact] = []
        for fact in super().feed(line):
            if isinstance(fact, ProcessEnd) and fact.pid is not None:
                if fact.pid in self._known and fact.exit_code is None:
                    continue
                if len(self._known) < 4096:
                    self._known.add(fact.pid)
            facts.append(fact)
        return facts
