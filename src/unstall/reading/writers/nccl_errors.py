"""NCCL calls that failed, as PyTorch, vLLM's pynccl and CuPy report them.

Source: ``NCCLUtils.{hpp,cpp}`` of PyTorch 1.7 to 2.15 (the error, an explanation, ``Last error:``
and NCCL's own words on further lines) and ``ncclGetErrorString`` of NCCL.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable

from unstall.model.facts import Fact, NcclError, PeerLost
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Draft, Drafts, channel, first, said, somebody
from unstall.reading.writers.nccl import classify
from unstall.reading.writers.recent import FRAME_MARKS, RecentFrames
from unstall.reading.writers.stamps import Stamp, records
from unstall.reading.writers.traceback_text import without_headers

_ERROR = re.compile(
    r"NCCL [eE]rror(?: in:| \d{1,2})?[:,]? ?"
    r"|hit async error on rank \d{1,9}: ?|Async error on rank \d{1,9}: ?"
    r"|NCCL Async Error: ?|NcclError: (?=NCCL_ERROR)|error - nccl hit async error: ?",
    re.ASCII,
)
_RESULTS = (
    ("unhandled cuda error", "ncclUnhandledCudaError"),
    ("unhandled system error", "ncclSystemError"),
    ("internal error", "ncclInternalError"),
    ("invalid argument", "ncclInvalidArgument"),
    ("invalid usage", "ncclInvalidUsage"),
    ("remote process exited or there was a network error", "ncclRemoteError"),
)
_EXPLAINED = re.compile(
    r"(ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidArgument"
    r"|ncclInvalidUsage|ncclRemoteError): ",
    re.ASCII,
)
_VERSION = re.compile(r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)", re.ASCII)
_INLINE = re.compile(r"(?:Last error|NCCL Last Error): ?(\S.{0,600})", re.ASCII)
_OPEN_AT_MOST = 256
_PATIENCE = 4
"""Lines after ``Last error:`` within which NCCL's words must come."""


class _Open:
    """An error whose explanation or last words may follow."""

    __slots__ = ("draft", "patience")

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.patience = 0


class NcclErrorReader:
    """One fact for each failed call, with NCCL's last words."""

    marks: tuple[str, ...] = (
        "NCCL error",
        "NCCL Error",
        "async error on rank",
        "Async error on rank",
        "NCCL Async Error",
        "NCCL_ERROR_",
        "nccl hit async error",
        "Last error:",
        "ncclUnhandledCudaError: ",
        "ncclSystemError: ",
        "ncclInternalError: ",
        "ncclInvalidArgument: ",
        "ncclInvalidUsage: ",
        "ncclRemoteError: ",
        *FRAME_MARKS,
    )

    def __init__(self) -> None:
        self._drafts = Drafts()
        self._frames = RecentFrames()
        self._open: OrderedDict[tuple[object, int | None], _Open] = OrderedDict()
        self._waiting = 0

    @property
    def wants_more(self) -> bool:
        """Whether NCCL's last words are to come."""
        return self._waiting > 0

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        self._frames.feed(line)
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            if not self._begin(text, line, stamp):
                self._follow(text, line, stamp)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _begin(self, text: str, line: Line, stamp: Stamp | None) -> bool:
        head = _ERROR.search(text)
        if head is None:
            return False
        rest = text[head.start() :]
        result = next((name for words, name in _RESULTS if words in rest), None)
        if result is None:
            result = _cupy(rest)
        if result is None:
            return False
        base = said(line, stamp)
        speaker = base["speaker"]
        frames = self._frames.take(line.speaker)
        where = f"{frames[-1][1]}:{frames[-1][2]} {frames[-1][0]}".strip() if frames else None
        fact = NcclError(**base, result=result, version=first(_VERSION, rest), where=where)
        key = (result, fact.version)
        draft = None
        for known in self._drafts.alike(key, speaker, fact.moment):
            if frames and not (somebody(speaker) and somebody(known.fact.speaker)):
                # A traceback of its own, said by nobody in particular: maybe another program's.
                continue
            known.copy_seen(speaker)
            if isinstance(known.fact, NcclError) and known.fact.where is None and where:
                known.change(where=where)
            draft = known
            break
        if draft is None:
            draft = self._drafts.add(fact, key)
        stream = (channel(speaker), speaker.rank)
        self._close(stream)
        self._open[stream] = _Open(draft)
        if len(self._open) > _OPEN_AT_MOST:
            self._close(next(iter(self._open)))
        if inline := first(_INLINE, rest):
            self._last_words(draft, inline)
        return True

    def _follow(self, text: str, line: Line, stamp: Stamp | None) -> None:
        speaker = said(line, stamp)["speaker"]
        stream = self._stream(channel(speaker), speaker.rank)
        if stream is None:
            return
        one = self._open[stream]
        if one.patience:
            words = text.strip()
            if words and stamp is None:
                self._last_words(one.draft, words)
                self._close(stream)
                return
            one.patience -= 1
            if not one.patience:
                self._close(stream)
            return
        if found := _EXPLAINED.search(text):
            one.draft.change(result=found[1])
        if "Last error:" in text:
            if inline := first(_INLINE, text):
                self._last_words(one.draft, inline)
                self._close(stream)
            else:
                one.patience = _PATIENCE
                self._waiting += 1

    def _stream(self, channel_: object, rank: int | None) -> tuple[object, int | None] | None:
        """The open error that a line continues: Python repeats the rank, C++ does not."""
        if (channel_, rank) in self._open:
            return channel_, rank
        if rank is not None:
            return None
        return next((key for key in reversed(self._open) if key[0] == channel_), None)

    def _close(self, key: tuple[object, int | None]) -> None:
        one = self._open.pop(key, None)
        if one is not None and one.patience:
            self._waiting -= 1

    def _last_words(self, draft: Draft, words: str) -> None:
        fact = draft.fact
        if not isinstance(fact, NcclError):
            return
        # a logger may have put a header before every line of the error
        words = without_headers(words.strip()).split("\\n", 1)[0].strip(" *\"'`")[:600]
        if fact.last_error is None and words:
            draft.change(last_error=words)
        if fact.result == "ncclRemoteError" and draft.note == "":
            draft.note = "remote"
            peer = classify(words)[1].get("peer")
            self._drafts.add(
                PeerLost(
                    place=fact.place,
                    quote=fact.quote,
                    speaker=fact.speaker,
                    moment=fact.moment,
                    layer="nccl",
                    peer=peer,
                    remote_error=True,
                )
            )


def _cupy(text: str) -> str | None:
    for name, result in (
        ("NCCL_ERROR_UNHANDLED_CUDA_ERROR", "ncclUnhandledCudaError"),
        ("NCCL_ERROR_SYSTEM_ERROR", "ncclSystemError"),
        ("NCCL_ERROR_INTERNAL_ERROR", "ncclInternalError"),
        ("NCCL_ERROR_INVALID_ARGUMENT", "ncclInvalidArgument"),
        ("NCCL_ERROR_INVALID_USAGE", "ncclInvalidUsage"),
        ("NCCL_ERROR_REMOTE_ERROR", "ncclRemoteError"),
    ):
        if name in text:
            return result
    return None
