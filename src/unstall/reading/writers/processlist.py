"""Lists of processes: ``ps`` and ``top`` with a column of states.

Only processes that are stopped are told: ``T`` by a signal, ``t`` by a tracer (ps(1), PROCESS STATE
CODES; proc_pid_stat(5)), or in whatever state by a frozen cgroup, which the kernel function shows
that they wait in (WCHAN: ``do_freezer_trap`` in kernel/signal.c, ``__refrigerator`` in
kernel/freezer.c). All other states are a moment's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, StoppedProcess
from unstall.reading.line import Line
from unstall.reading.writers.lines import common, small_int

_STATE = re.compile(r"[RSDTtZXIWKPN][<NLsl+]{0,6}\Z", re.ASCII)
_RANK = re.compile(r"--rank[= ](\d{1,7})\b", re.ASCII)
_FROZEN = re.compile(r"freezer_trap|refrigerator")
_COMMANDS = ("COMMAND", "CMD", "ARGS")
#: Rows of one list that are read, and stopped processes that are told.
MOST_ROWS, MOST_TOLD = 4000, 64


class ProcessLists:
    """One fact for each stopped process of a list whose heading names its columns."""

    marks: tuple[str, ...] = ("PID",)

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._rows = 0
        self._told = 0

    @property
    def wants_more(self) -> bool:
        """Whether a list's heading was read and its rows go on."""
        return bool(self._columns)

    def feed(self, line: Line) -> Iterable[Fact]:
        """The fact of a row, if it is a stopped process's."""
        columns = line.text.split(None, 24)[:24]
        if "PID" in columns and columns[-1] in _COMMANDS and {"STAT", "S"} & set(columns):
            self._columns, self._rows = columns, 0
            return ()
        if not self._columns:
            return ()
        words = line.text.split(None, len(self._columns) - 1)
        self._rows += 1
        row = dict(zip(self._columns, words, strict=False))
        state = row.get("STAT") or row.get("S") or ""
        pid = small_int(row.get("PID"))
        if len(words) < len(self._columns) or pid is None or not _STATE.match(state):
            self._columns = []
            return ()
        if self._rows >= MOST_ROWS:
            self._columns = []
        frozen = _FROZEN.search(row.get("WCHAN", "")) is not None
        how = "freezer" if frozen else {"T": "signal", "t": "tracer"}.get(state[0])
        if how is None or self._told >= MOST_TOLD:
            return ()
        self._told += 1
        command = words[-1].strip()
        rank = _RANK.search(command[:4000])
        return (
            StoppedProcess(
                **common(line),
                pid=pid,
                command=command[:400],
                how=how,
                rank=int(rank[1]) if rank is not None else None,
            ),
        )

    def finish(self) -> Iterable[Fact]:
        """Nothing is left."""
        return ()
