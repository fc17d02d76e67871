"""torchrun's agent (torch.distributed.elastic): failures, signals, restarts, the report block.

Sources: ``torch/distributed/elastic/multiprocessing/{api,errors/__init__}.py`` and
``torch/distributed/elastic/agent/server/api.py``, PyTorch 1.9 to 2.15. The report's
``exitcode`` line has the signal's name since 2.12; the reports of 1.8 and 1.9 say ``Root Cause:``
and ``Other Failures:`` and do not align their colons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from unstall.model.facts import (
    Fact,
    Moment,
    ProcessEnd,
    SignalSent,
    Speaker,
    WorkerGroupRestart,
)
from unstall.reading.line import Line
from unstall.reading.writers.lines import (
    Pattern,
    Sentences,
    common,
    exit_code,
    signal_of,
    small_int,
)
from unstall.reading.writers.stamps import full_moment

_FAILED = re.compile(
    r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6}) \(pid: (\d{1,9})\)", re.ASCII
)
_FIELD = re.compile(
    r"^[\s>|]{0,20}(time|host|rank|exitcode|error_file|traceback|msg)\s{0,12}: ?(.*)$"
)
_ENTRY = re.compile(r"^[\s>|]{0,20}\[(\d{1,6})\]:\s*$", re.ASCII)
_RANK = re.compile(r"(-?\d{1,9}) \(local_rank: (-?\d{1,9})\)", re.ASCII)
_CODE = re.compile(r"(-?\d{1,6}) +\(pid: (\d{1,9})\)(?:\s{1,4}\((SIG[A-Z0-9]{2,9})\))?", re.ASCII)
_SECTION = re.compile(r"^[\s>|]{0,20}(Failures|Other Failures|Root Cause[^:]{0,40}):\s*$")
_RULE = re.compile(r"^[\s>|]{0,20}([=*-])\1{7,}\s*$")

_GIVE_UP = 60
"""Lines without a field after which a report's block is over."""


class _Block(msgspec.Struct):
    """One speaker's report while it is being read."""

    root: bool = False
    first: Line | None = None
    moment: Moment | None = None
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    code: int | None = None
    pid: int | None = None
    signal: str | None = None
    idle: int = 0


class ElasticReports:
    """Ends of workers: ``failed (exitcode: …)`` lines and every entry of the report block.

    The entry of a process that a ``failed`` line told of before completes that line's fact, so
    each process is told of once.
    """

    marks: tuple[str, ...] = (
        "failed (exitcode: ",
        "Failures:",
        "Root Cause",
        "time      : ",
        "rank      : ",
        "exitcode  : ",
        "exitcode: ",
        "(local_rank: ",
    )

    def __init__(self) -> None:
        self._blocks: dict[Speaker, _Block] = {}
        self._failed: dict[tuple[int, int], ProcessEnd] = {}

    @property
    def wants_more(self) -> bool:
        """Whether a report block is open."""
        return bool(self._blocks)

    def feed(self, line: Line) -> Iterable[Fact]:
        """Ends of processes that this line completes."""
        text = line.text[:4096]
        if "failed (exitcode: " in text and (found := _FAILED.search(text)) is not None:
            return self._remember(line, found)
        if (section := _SECTION.match(text)) is not None:
            facts = self._close(line.speaker)
            self._open(line.speaker).root = section[1].startswith("Root Cause")
            return facts
        block = self._blocks.get(line.speaker)
        if block is not None and _RULE.match(text):
            facts = self._close_entry(block)
            if "=" in text or "*" in text:
                self._blocks.pop(line.speaker, None)
            return facts
        if block is not None and _ENTRY.match(text):
            return self._close_entry(block)
        if (field := _FIELD.match(text)) is not None:
            return self._field(line, field[1], field[2].strip())
        if block is not None:
            block.idle += 1
            if block.idle > _GIVE_UP:
                return self._close(line.speaker)
        return ()

    def finish(self) -> Iterable[Fact]:
        """What an unfinished report and the ``failed`` lines without a report tell."""
        facts: list[Fact] = []
        for speaker in list(self._blocks):
            facts += self._close(speaker)
        facts += self._failed.values()
        self._failed.clear()
        return facts

    def _remember(self, line: Line, found: re.Match[str]) -> list[Fact]:
        code = exit_code(int(found[1]))
        fact = ProcessEnd(
            **common(line),
            exit_code=code,
            signal=signal_of(code),
            local_rank=int(found[2]),
            pid=int(found[3]),
        )
        key = (int(found[3]), code)
        if key in self._failed:
            seen = self._failed[key]
            self._failed[key] = msgspec.structs.replace(seen, copies=seen.copies + 1)
            return []
        if len(self._failed) >= 4096:
            return [fact]
        self._failed[key] = fact
        return []

    def _open(self, speaker: Speaker) -> _Block:
        if speaker not in self._blocks and len(self._blocks) >= 256:
            self._blocks.pop(next(iter(self._blocks)))
        return self._blocks.setdefault(speaker, _Block())

    def _field(self, line: Line, name: str, value: str) -> list[Fact]:
        if line.speaker not in self._blocks and name not in ("time", "rank", "exitcode"):
            return []
        if line.speaker not in self._blocks and not _tells(name, value):
            return []
        block = self._open(line.speaker)
        block.idle = 0
        facts: list[Fact] = []
        if name == "time":
            facts = self._close_entry(block)
            block.moment = full_moment(value[:60])
        elif name == "host":
            block.host = value[:200] or None
        elif name == "rank" and (found := _RANK.match(value)) is not None:
            block.rank, block.local_rank = small_int(found[1]), small_int(found[2])
        elif name == "exitcode" and (found := _CODE.match(value)) is not None:
            block.code = exit_code(int(found[1]))
            block.pid = int(found[2])
            block.signal = found[3] or signal_of(block.code)
            block.first = line
        return facts

    def _close(self, speaker: Speaker) -> list[Fact]:
        block = self._blocks.pop(speaker, None)
        return self._close_entry(block) if block is not None else []

    def _close_entry(self, block: _Block) -> list[Fact]:
        first, pid, code = block.first, block.pid, block.code
        facts: list[Fact] = []
        if first is not None and pid is not None and code is not None:
            told = self._failed.pop((pid, code), None)
            entry = ProcessEnd(
                **common(first),
                exit_code=code,
                signal=block.signal,
                rank=block.rank,
                local_rank=block.local_rank,
                pid=pid,
                host=block.host,
                first=block.root,
                moment_ended=block.moment,
            )
            if told is not None:
                entry = msgspec.structs.replace(
                    entry,
                    place=told.place,
                    quote=told.quote,
                    speaker=told.speaker,
                    moment=told.moment,
                    copies=told.copies,
                )
            facts.append(entry)
        block.first = block.moment = block.host = block.rank = block.local_rank = None
        block.code = block.pid = block.signal = None
        return facts


def _tells(name: str, value: str) -> bool:
    """Whether a field that no block's head came before is a report's all the same."""
    if name == "time":
        return re.match(r"\d{4}-\d\d-\d\d_\d\d:", value, re.ASCII) is not None
    return (_RANK if name == "rank" else _CODE).match(value) is not None


def _sent(line: Line, found: re.Match[str]) -> Fact | None:
    return SignalSent(**common(line), signal=found[2], target_pid=int(found[1]))


def _forced(line: Line, found: re.Match[str]) -> Fact | None:
    return SignalSent(**common(line), signal="SIGKILL", target_pid=int(found[1]))


def _received(line: Line, found: re.Match[str]) -> Fact | None:
    number = small_int(found[1])
    name = found[2] or (signal_of(-number) if number is not None else None)
    return SignalSent(**common(line), signal=name or "SIGTERM", received=True)


def _restart(line: Line, found: re.Match[str]) -> Fact | None:
    left, of = int(found[1]), int(found[2])
    return WorkerGroupRestart(**common(line), attempt=max(of - left, 0) + 1)


def _attempt(line: Line, found: re.Match[str]) -> Fact | None:
    attempt = int(found[1])
    return WorkerGroupRestart(**common(line), attempt=attempt) if attempt else None


def _membership(line: Line, _: re.Match[str]) -> Fact | None:
    return WorkerGroupRestart(**common(line))


class ElasticSentences(Sentences):
    """Signals that torchrun's agent or mp.spawn sends or receives, and restarts of the workers."""

    patterns = (
        Pattern(
            "closing signal ",
            re.compile(r"Sending process (\d{1,9}) closing signal (SIG[A-Z0-9]{2,9})", re.ASCII),
            _sent,
        ),
        Pattern(
            " via signal ",
            re.compile(r"Terminating process (\d{1,9}) via signal (SIG[A-Z0-9]{2,9})", re.ASCII),
            _sent,
        ),
        Pattern(
            "Unable to shutdown process ",
            re.compile(r"Unable to shutdown process (\d{1,9}) via ", re.ASCII),
            _forced,
        ),
        Pattern(
            " death signal",
            re.compile(
                r"Received (?:Signals\.)?(\d{1,3})?(?:Signals\.)?(SIG[A-Z0-9]{2,9})? death signal",
                re.ASCII,
            ),
            _received,
        ),
        Pattern(
            " got signal: ",
            re.compile(
                r"Process \d{1,9} got signal: (\d{1,3})?(?:Signals\.)?(SIG[A-Z0-9]{2,9})?",
                re.ASCII,
            ),
            _received,
        ),
        Pattern(
            "will restart worker group",
            re.compile(r"(\d{1,6})/(\d{1,6}) attempts left; will restart worker group", re.ASCII),
            _restart,
        ),
        Pattern(
            "will restart worker group",
            re.compile(r"Detected \d{1,6} new nodes? from group_rank"),
            _membership,
        ),
        Pattern(
            "Setting worker0 reply file to: ",
            re.compile(r"attempt_(\d{1,6})/", re.ASCII),
            _attempt,
        ),
        Pattern("restart_count=", re.compile(r"restart_count=(\d{1,6})", re.ASCII), _attempt),
    )

    def __init__(self) -> None:
        self._attempts: dict[Speaker, int] = {}

    def feed(self, line: Line) -> Iterable[Fact]:
        """What the line tells; each attempt is told of once, though torchrun says it thrice."""
        facts: list[Fact] = []
        for fact in super().feed(line):
            if isinstance(fact, WorkerGroupRestart) and fact.attempt is not None:
                if self._attempts.get(line.speaker) == fact.attempt:
                    continue
                if line.speaker in self._attempts or len(self._attempts) < 4096:
                    self._attempts[line.speaker] = fact.attempt
            facts.append(fact)
        return facts
