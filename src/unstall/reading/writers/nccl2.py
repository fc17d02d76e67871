"""What the ``nccl2`` back end prints: ``[TC][rank=0][name=0] …`` (torch 2.14, default in 2.15).

Source: strings of ``libtorch_cuda`` 2.14.1 and 2.15.0 (``WorkNCCL.cpp``, ``ProcessGroupNCCL.cpp``,
``ProcessGroupNCCLUtils.cpp``). The lines name neither operation nor sequence number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from unstall.model.facts import (
    CollectiveTimeout,
    Fact,
    GroupCreated,
    GroupTag,
    ProcessTakenDown,
    ResourceLeak,
    WatchdogError,
    Work,
)
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Drafts, said
from unstall.reading.writers.stamps import Stamp, records
from unstall.reading.writers.tags import group_tag

_TIMED_OUT = re.compile(r"Operation timed out after (\d{1,15}) ?ms", re.ASCII)
_ABORTING = re.compile(r"Aborting process on rank (\d{1,9}) due to (\S.{0,400})", re.ASCII)
_ERRORS = re.compile(
    r"(?:CUDA error during (?:start|end) event query:|hit async error on rank \d{1,9}:"
    r"|Async error on rank \d{1,9}:|Timeout watchdog caught exception:) ?(\S.{0,600})",
    re.ASCII,
)
_INITIALIZED = re.compile(r"ProcessGroupNCCL initialized for rank: ?(\d{1,9})", re.ASCII)
_PYTHON = (
    "DistBackendError: NCCL operation timed out",
    "DistBackendError: Watchdog caught collective operation timeout: NCCL operation timed out",
    "DistBackendError: Work timed out during finalize",
)


class Nccl2Reader:
    """Time-outs, errors and ends of nccl2 process groups."""

    marks: tuple[str, ...] = ("[TC]", *_PYTHON)

    def __init__(self) -> None:
        self._drafts = Drafts()

    @property
    def wants_more(self) -> bool:
        """Never: every message is one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            base = said(line, stamp)
            _, tag, rest = text.partition("[TC")
            if tag:
                self._tagged(rest, group_tag(tag + rest), base)
            elif any(words in text for words in _PYTHON):
                self._timeout(GroupTag(), None, base)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _tagged(self, text: str, group: GroupTag, base: dict[str, Any]) -> None:
        if found := _TIMED_OUT.search(text):
            self._timeout(group, int(found[1]), base)
        elif found := _ABORTING.search(text):
            if group.rank is None:
                group = GroupTag(guid=group.guid, rank=int(found[1]))
            reason = found[2].strip(" *\"'`")
            self._drafts.say(ProcessTakenDown(**base, reason=reason, group=group))
        elif found := _ERRORS.search(text):
            error = found[1].strip(" *\"'`")
            self._drafts.say(WatchdogError(**base, error=error, group=group))
        elif "was not finalized before destruction" in text:
            self._drafts.say(ResourceLeak(**base, what="process-group"))
        elif _INITIALIZED.search(text):
            self._drafts.say(GroupCreated(**base, name=group.guid, backend="nccl2"))

    def _timeout(self, group: GroupTag, ran_ms: int | None, base: dict[str, Any]) -> None:
        fact = CollectiveTimeout(
            **base, work=Work(op=""), ran_ms=ran_ms, group=group, backend="nccl2"
        )
        key = ("timeout", fact.speaker.rank)
        if ran_ms is None and fact.speaker.rank is not None:
            # The exception of the main thread: the same time-out as the watchdog's line.
            for draft in self._drafts.alike(key, fact.speaker, fact.moment):
                draft.copy_seen(fact.speaker)
                return
        draft = self._drafts.say(fact)
        if draft.fact.copies == 1:
            self._drafts.index(draft, key)
