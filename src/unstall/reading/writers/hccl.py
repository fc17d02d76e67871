"""What Huawei's Ascend software says of collectives: HCCL's error codes, CANN's time-outs.

Sources: the message table of CANN's hcomm (``EI0001`` to ``EI0017``, ``EJ0001`` to ``EJ0004``),
the troubleshooting manuals of CANN 8.0 to 9.0 (codes, ``plog``, ``Cluster Exception Location``),
``OpParamMaker.cpp``, ``NPUStream.cpp`` and ``HCCLUtils.cpp`` of torch_npu 2.1 to 2.7. What follows
a code (``Possible Cause:``, ``Solution:``) is the same for every failure: no finding.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from unstall.model.facts import (
    CollectiveMismatch,
    CollectiveTimeout,
    CudaError,
    Fact,
    HcclError,
    Moment,
    StoreFailure,
    Work,
)
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Draft, Drafts, channel, first, said

#: CANN's own time: date and time of day, milliseconds, microseconds.
_TIME = r"(\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)\.(\d{3})\.(\d{3})"
_CODE = re.compile(
    r"(?<![A-Za-z0-9])(E[IJ]00\d\d): {0,4}(?:\[PID: ?(\d{1,10})\] {0,4})?"
    rf"(?:{_TIME} {{0,4}})?(\S.{{0,1500}})",
    re.ASCII,
)
# CANN 8.5 puts the title and the code behind the time.
_TITLED = re.compile(
    rf"\[PID: ?(\d{{1,10}})\] {{0,4}}{_TIME} {{0,4}}"
    r"[A-Za-z][A-Za-z_ ]{1,80}\((E[IJ]00\d\d)\): {0,4}(\S.{0,1500})",
    re.ASCII,
)
_WHO = re.compile(r"\(PID: ?(\d{1,10}), ?Device: ?(-?\d{1,4}), ?RankID: ?(-?\d{1,9})\)", re.ASCII)
_PLOG = re.compile(
    r"\[ERROR\] ?HCCL\((\d{1,10}),[^()]{1,80}\): ?"
    rf"{_TIME} (.{{1,1500}})",
    re.ASCII,
)
_PLOG_WORDS = (
    ("wait socket establish timeout", "EI0006"),
    ("[InitChannelStage][Timeout]", "EI0006"),
    ("topo exchange agent get socket timeout", "EI0015"),
    ("topo exchange server get socket timeout", "EI0015"),
)
_ERROR_CQE = re.compile(r"\berror cqe status: ?(0x[0-9a-f]{1,4})", re.ASCII)
_TAG = re.compile(r"\btag\[(?:Hcom)?([A-Za-z]{3,30})_", re.ASCII)
_REMOTE = re.compile(r"(?:remote rank: ?\[?|remote rank \[|dst_rank\[)(\d{1,9})\]?", re.ASCII)
_PLACE = re.compile(
    r"Cluster Exception Location\[IP/ID\]: ?\[([^\]\s]{1,80})\](.{0,300}?)"
    r"ExceptionType: ?\[([A-Za-z ]{1,40})\]",
    re.ASCII,
)
_ABNORMAL = re.compile(
    r"serverId\[([^\]\s]{1,80})\], ?deviceId\[(\d{1,4})\], ?([A-Z][A-Za-z]+(?: [A-Za-z]+){1,3}) ?,",
    re.ASCII,
)
_INCONSISTENT = re.compile(
    r"inconsistent between ranks: ?tag ?\[([^\]]{0,200})\], ?parameter ?\[([^\]]{1,60})\], ?"
    r"local ?\[([^\]]{0,60})\], ?remote ?\[([^\]]{0,60})\]",
    re.ASCII,
)
_BOUND = re.compile(r"(?:port|Port)[ :\[]{1,3}(\d{2,5})", re.ASCII)
#: CANN's numbers for a stream or a task of it that did not end in time (``acl/acl_base_rt.h``).
_TIMEOUTS = re.compile(
    r"(?:error code is|runtime result =) ?(507046|507047|507048|107020)(?!\d)", re.ASCII
)
_TIMEOUT_WORDS = (
    "all tasks in the specified stream are not completed",
    "The execution of the internal task times out",
    "reason=[stream sync timeout]",
    "reason=[task timeout]",
    "Stream synchronize timeout",
)
_UNKNOWN_RANK = 2**32 - 1
_SPEAKERS = 256


class HcclReader:
    """HCCL's codes as what they mean, and the host's time-outs for its device as waits."""

    marks: tuple[str, ...] = (
        "EI00",
        "EJ00",
        "RankID:",
        "ERROR] HCCL(",
        "ERROR]HCCL(",
        "error cqe status",
        "Cluster Exception Location",
        "abnormal device",
        "serverId[",
        "error code is 507",
        "error code is 107020",
        "runtime result = 507",
        "runtime result = 107020",
        *_TIMEOUT_WORDS,
    )

    def __init__(self) -> None:
        self._drafts = Drafts()
        self._ranks: OrderedDict[object, tuple[int | None, int | None]] = OrderedDict()

    @property
    def wants_more(self) -> bool:
        """Never: every message is one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        text = line.text
        if (who := _WHO.search(text)) is not None:
            rank = int(who[3])
            self._ranks[channel(line.speaker)] = (int(who[1]), rank if rank >= 0 else None)
            self._ranks.move_to_end(channel(line.speaker))
            if len(self._ranks) > _SPEAKERS:
                self._ranks.popitem(last=False)
        base = self._said(line)
        if (found := _CODE.search(text)) is not None:
            code, pid, *date, words = found.groups()
            self._coded(code, words, _dated(base, pid, date))
        elif (found := _TITLED.search(text)) is not None:
            pid, *date, code, words = found.groups()
            self._coded(code, words, _dated(base, pid, date))
        elif (found := _PLOG.search(text)) is not None:
            pid, *date, words = found.groups()
            for known, code in _PLOG_WORDS:
                if known in words:
                    self._coded(code, words, _dated(base, pid, date))
                    break
        elif (cqe := first(_ERROR_CQE, text)) is not None:
            self._coded("EI0013", f"error cqe status: {cqe}", base)
        elif _TIMEOUTS.search(text) or any(words in text for words in _TIMEOUT_WORDS):
            self._waited("", base)
        self._located(text, base)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _said(self, line: Line) -> dict[str, Any]:
        """The base of a fact, with the rank that torch_npu's line of the same stream told."""
        base = said(line)
        pid, rank = self._ranks.get(channel(line.speaker), (None, None))
        speaker = base["speaker"]
        if speaker.rank is None and rank is not None:
            speaker = msgspec.structs.replace(speaker, rank=rank)
        if speaker.pid is None and pid is not None:
            speaker = msgspec.structs.replace(speaker, pid=pid)
        return base | {"speaker": speaker}

    def _coded(self, code: str, words: str, base: dict[str, Any]) -> None:
        words = words.strip(" *\"'`")
        if code == "EI0002":
            self._waited(first(_TAG, words) or "", base)
            return
        if (found := _INCONSISTENT.search(words)) is not None:
            self._inconsistent(found, base)
            return
        if code == "EJ0003":
            port = first(_BOUND, words)
            fact = StoreFailure(**base, kind="bind", port=int(port) if port else None)
            self._drafts.say(fact, ("bind", base["speaker"].pid), anonymous=True)
            return
        if code == "EI0011" or (code == "EI0007" and "emory" in words.partition("Reason")[0]):
            self._drafts.say(
                CudaError(**base, name="OutOfMemory", text=words[:300], through="nccl"),
                anonymous=True,
            )
            return
        peer = first(_REMOTE, words)
        fact_ = HcclError(
            **base,
            code=code,
            reason=words[:600],
            peer=int(peer) if peer and int(peer) < _UNKNOWN_RANK else None,
        )
        self._drafts.say(fact_, ("code", code, base["speaker"].rank), anonymous=True)

    def _waited(self, op: str, base: dict[str, Any]) -> None:
        """One wait for each rank: the host's time-out, the device's, and the exception's words."""
        speaker = base["speaker"]
        name = op.upper()
        keys = dict.fromkeys((("wait", speaker.rank), ("wait", None)))
        for draft in (one for key in keys for one in self._drafts.alike(key, speaker)):
            known = draft.fact
            if isinstance(known, CollectiveTimeout):
                if known.speaker.rank is None and speaker.rank is not None:
                    # a report's title, or a line without a prefix: this one tells more
                    draft.change(place=base["place"], quote=base["quote"])
                    self._drafts.index(draft, ("wait", speaker.rank))
                draft.copy_seen(speaker)
                if name and not known.work.op:
                    draft.change(work=msgspec.structs.replace(known.work, op=name))
                _later(draft, base["moment"])
                return
        fact = CollectiveTimeout(**base, work=Work(op=name), backend="hccl")
        self._drafts.add(fact, ("wait", speaker.rank))

    def _inconsistent(self, found: re.Match[str], base: dict[str, Any]) -> None:
        tag, parameter, local, remote = found.groups()
        op = re.match(r"(?:Hcom)?([A-Za-z]{3,30})_", tag)
        name = op[1].upper() if op else None
        kind = parameter.lower()
        aspect = "size"
        if "datatype" in kind.replace("_", ""):
            aspect = "dtype"
        elif "cmd" in kind or "optype" in kind.replace("_", ""):
            aspect = "op"
        self._drafts.say(
            CollectiveMismatch(
                **base,
                mine=(base["speaker"].rank, name, f"{parameter} {local}", None),
                other=(None, name, f"{parameter} {remote}", None),
                aspects=(aspect,),
            ),
            anonymous=True,
        )

    def _located(self, text: str, base: dict[str, Any]) -> None:
        """Where HCCL's heartbeats saw the fault first."""
        if (found := _PLACE.search(text)) is not None:
            where, kind = found[1], found[3]
        elif (found := _ABNORMAL.search(text)) is not None:
            where, kind = f"{found[1]}/{found[2]}", found[3]
        else:
            return
        self._drafts.say(
            HcclError(**base, code=kind.removesuffix(" Occurred"), reason=found[0][:600], at=where),
            ("at", where, kind),
            anonymous=True,
        )


def _later(draft: Draft, moment: Moment | None) -> None:
    if draft.fact.moment is None and moment is not None:
        draft.change(moment=moment)


def _dated(base: dict[str, Any], pid: str | None, date: list[str | None]) -> dict[str, Any]:
    """The base with the process id and the time that the code's own header tells."""
    speaker, moment = base["speaker"], base["moment"]
    if pid is not None and speaker.pid is None:
        speaker = msgspec.structs.replace(speaker, pid=int(pid))
    numbers = [int(one) for one in date if one is not None]
    if len(numbers) == 8:
        year, month, day, hour, minute, second, milli, micro = numbers
        with suppress(ValueError):
            moment = Moment(datetime(year, month, day, hour, minute, second, milli * 1000 + micro))
    return base | {"speaker": speaker, "moment": moment}
