"""What ``ProcessGroupNCCL`` prints when an operation or a device fails (torch 1.13 to 2.15).

Sources: the message texts of ``ProcessGroupNCCL.cpp``, ``FlightRecorder.cpp`` and ``NCCLUtils.cpp``
in PyTorch 1.13.1 to 2.15.0. File and line numbers of the headers are never relied on.

One time-out is printed by the watchdog, by its thread's last words, by ``what()`` and by Ray: one
fact, with copies. Only the status line beside it (2.3 and later) or the last words tell the group.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from unstall.model.facts import (
    CollectiveTimeout,
    DesyncReport,
    DumpSignalObserved,
    Fact,
    FailedStack,
    GroupCreated,
    GroupStatus,
    GroupTag,
    PeerLost,
    ProcessTakenDown,
    RecorderFile,
    ResourceLeak,
    Speaker,
    WarningLine,
    WatchdogError,
    WatchdogStuck,
)
from unstall.reading.line import Line
from unstall.reading.writers.blocks import DESYNC_WORDS, Blocks, Desync, Frames, Stack
from unstall.reading.writers.drafts import Draft, Drafts, compatible, first, integer, said
from unstall.reading.writers.stamps import Stamp, records
from unstall.reading.writers.tags import group_tag, work

_CAUGHT = "Watchdog caught collective operation timeout:"
_BLOCKING = (" timed out in blocking wait", " timed out in call to wait()")
_LAST_WORDS = "watchdog thread terminated with exception:"
_BEGUN = "watchdog thread terminated"  # all that is left where a log ends within the line
_ASYNC = ("raised the following async exception:", "found async exception when checking for NCCL")
_RAN = re.compile(r"ran for (\d{1,15}) (?:milliseconds|ms)\b", re.ASCII)
_FAILED = re.compile(
    r"(?:detected by watchdog at work sequence id|detected by watchdog at work"
    r"|Timeout at NCCL work): ?(-?\d{1,20})",
    re.ASCII,
)
_ENQUEUED = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: ?(-?\d{1,20})", re.ASCII)
_STARTED = re.compile(r"last started (?:NCCL )?work: ?(-?\d{1,20})", re.ASCII)
_COMPLETED = re.compile(r"last completed (?:NCCL )?work: ?(-?\d{1,20})", re.ASCII)
_SIGNAL = re.compile(
    r"Received a (?:dump signal (?:due to a collective timeout )?from|global dump signal from"
    r"|timeout signal from|global timeout from) {0,3}(this local rank|another rank|rank (\d{1,9}))",
    re.ASCII,
)
_STUCK = re.compile(r"watchdog got stuck for (\d{1,9}) seconds", re.ASCII)
_STUCK_WORDS = (
    "Heartbeat monitor timed out! Process will be terminated",
    "NCCL monitor thread timeout. Basically",
    "monitoring thread detects no heartbeat and will finally kill the process",
    "First PG on this rank that detected no heartbeat of its watchdog",
)
_DUE = re.compile(r"after attempting to dump debug info, due to ([^.\n]{1,200})", re.ASCII)
_DETECTED = re.compile(r"ProcessGroupNCCL's (watchdog detected [^.\n]{1,200})\.", re.ASCII)
_WRITTEN = re.compile(
    r"(?:Finished writing (?:NCCLPG|Flight Recorder) debug info to|dumping nccl trace to"
    r"|Dumping Flight Recorder trace to) ([^\s\"'`*]{1,400})"
)
_NOT_WRITTEN = re.compile(
    r"Error opening file for writing (?:NCCLPG|Flight Recorder) debug info: ([^\s\"'`*]{1,400})"
)
_BARRIER_DEVICE = re.compile(
    r"(?:Rank (\d{1,9}): )?using GPU (\d{1,4}) (?:to perform barrier )?as devices? used by this",
    re.ASCII,
)
_OPTIONS = re.compile(
    r"initialization options: ?size: (\d{1,9})(?:, global rank: (\d{1,9}))?", re.ASCII
)
_TIMEOUT = re.compile(r"TIMEOUT\(ms\): (\d{1,15})", re.ASCII)
_NAME = re.compile(r"PG Name: ([^\s,]{1,200})")
_REMOTE = re.compile(r"remote error detected from rank: ?(\d{1,9})", re.ASCII)
_LEAKS = (
    "destroy_process_group() was not called before program exit",
    "process group has NOT been destroyed before",
)


class C10dReader:
    """Time-outs, group states and last words of NCCL process groups."""

    marks: tuple[str, ...] = (
        _CAUGHT,
        *_BLOCKING,
        _BEGUN,
        *_ASYNC,
        "detected by watchdog at work",
        "Timeout at NCCL work:",
        "Observed flight recorder dump signal",
        "Received a dump signal",
        "Received a global",
        "Received a timeout signal",
        "watchdog got stuck for",
        *_STUCK_WORDS,
        "ProcessGroupNCCL's watchdog detected",
        "we are taking the entire process down",
        "attempting to dump debug info, due to",
        "Stack trace of the failed collective",
        "FlightRecorder is disabled",
        "flight recorder dumps to finish.",
        "dumping nccl trace to",
        "Dumping Flight Recorder trace to",
        "debug info to ",
        "debug info: ",
        "Flight Recorder trace successfully dumped",
        "using GPU ",
        "Guessing device ID based on global rank",
        "An unbatched P2P op",
        "possible GIL induced hang",
        "initialization options:",
        "remote error detected from rank:",
        *_LEAKS,
        *DESYNC_WORDS,
        "Exception raised from ",
        "C++ CapturedTraceback:",
        "frame #",
        "frame [#",
        "frame  [#",
        "frame  #",
    )

    def __init__(self) -> None:
        self._drafts = Drafts()
        self._blocks = Blocks()
        # Status lines that came before the time-out they belong to: interleaved threads.
        self._early: deque[tuple[Speaker, int, GroupTag]] = deque(maxlen=256)

    @property
    def wants_more(self) -> bool:
        """Whether a stack or a desync report is open."""
        return self._blocks.wants_more

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            base = said(line, stamp)
            if not self._message(text, base, stamp):
                self._blocks.feed(base["speaker"], text)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _message(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        """Whether the text was one of the known messages."""
        handlers: tuple[Callable[[str, dict[str, Any], Stamp | None], bool], ...] = (
            self._timeout,
            self._last_words,
            self._status,
            self._signal,
            self._stuck,
            self._taken_down,
            self._recorder,
            self._notices,
            self._desync,
        )
        return any(handler(text, base, stamp) for handler in handlers)

    # --- time-outs ------------------------------------------------------------------------------

    def _timeout(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        at = text.find(_CAUGHT)
        blocking = at < 0
        if blocking and not any(words in text for words in _BLOCKING):
            return False
        known = work(text[at:] if not blocking else text)
        if known is None:
            return False
        operation, backend, end = known
        ran = None if blocking else integer(first(_RAN, text[at + end : at + end + 80]))
        before = text[: max(at, 0)]
        group = group_tag(before)
        inner = group_tag(before[-24:]) if "[PG" not in before[-24:] else GroupTag()
        rank = inner.rank if inner.rank is not None else group.rank
        speaker: Speaker = base["speaker"]
        key = ("timeout", rank, operation, ran)
        for draft in sorted(
            self._drafts.alike(key, speaker, base["moment"]),
            key=lambda d: (_differ(d, group), d.fact.copies),
        ):
            if _differ(draft, group):
                continue
            draft.copy_seen(speaker)
            break
        else:
            draft = self._drafts.add(
                CollectiveTimeout(
                    **base,
                    work=operation,
                    ran_ms=ran,
                    group=GroupTag(rank=rank),
                    backend=backend,
                ),
                key,
            )
            self._drafts.index(draft, ("seq", speaker.rank, operation.seq))
        if group.pg_id is not None:
            draft.change(group=group)
            draft.note = "told"
        elif stamp is not None and draft.note == "":
            self._adopt(draft, speaker, rank)
        # The frames below name checkTimeout and the watchdog: nothing new.
        if _LAST_WORDS in text or stamp is None:
            self._blocks.begin(speaker, Frames(None))
        return True

    def _adopt(self, draft: Draft, speaker: Speaker, rank: int | None) -> None:
        """Take the group from a status line that came earlier."""
        fact = draft.fact
        assert isinstance(fact, CollectiveTimeout)  # noqa: S101 - for the type checker
        for place, (teller, seq, group) in enumerate(self._early):
            if (
                seq == fact.work.seq
                and rank in (None, group.rank)
                and teller.rank == speaker.rank
                and compatible(teller, speaker)
            ):
                draft.change(group=group)
                draft.note = "beside"
                del self._early[place]
                return

    # --- states ---------------------------------------------------------------------------------

    def _status(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        failed = _FAILED.search(text)
        if failed is None:
            return False
        group = group_tag(text)
        status = GroupStatus(
            **base,
            group=group,
            failed=int(failed[1]),
            last_enqueued=integer(first(_ENQUEUED, text)),
            last_started=integer(first(_STARTED, text)),
            last_completed=integer(first(_COMPLETED, text)),
        )
        fresh = self._drafts.say(status).fact.copies == 1
        if group.pg_id is not None and fresh:
            self._give_group(base["speaker"], int(failed[1]), group)
        return True

    def _give_group(self, speaker: Speaker, seq: int, group: GroupTag) -> None:
        """Tell the time-out of that rank and number its group."""
        waiting = [
            draft
            for draft in self._drafts.alike(("seq", speaker.rank, seq), speaker)
            if draft.note == "" and not draft.released
        ]
        # Threads of two groups may print in turn: the oldest waiting one was printed first.
        for same_rank in (True, False):
            for draft in reversed(waiting):
                fact = draft.fact
                if isinstance(fact, CollectiveTimeout) and (
                    (fact.group.rank == group.rank) if same_rank else speaker.rank is not None
                ):
                    draft.change(group=group)
                    draft.note = "beside"
                    return
        self._early.append((speaker, seq, group))

    def _signal(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        if "Observed flight recorder dump signal" in text:
            self._drafts.say(DumpSignalObserved(**base, group=group_tag(text)))
            return True
        found = _SIGNAL.search(text)
        if found is None:
            return False
        local = found[1] == "this local rank"
        self._drafts.say(
            GroupStatus(
                **base,
                group=group_tag(text),
                last_enqueued=integer(first(_ENQUEUED, text)),
                last_completed=integer(first(_COMPLETED, text)),
                reason="local-dump" if local else "remote-dump",
                from_rank=integer(found[2]),
            )
        )
        return True

    # --- ends -----------------------------------------------------------------------------------

    def _last_words(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        before, words, error = text.partition(_LAST_WORDS)
        if not words:
            for mark in _ASYNC:
                before, words, error = text.partition(mark)
                if words:
                    error = error.removeprefix(" errors:")
                    break
        if not words and _BEGUN in text:
            before, words, _ = text.partition(_BEGUN)
            error = "(cut off)"
        error = error.strip().split("\\n", 1)[0].strip(" *\"'`")[:600]
        if not words or not error or _CAUGHT in error:
            return False
        group = group_tag(before)
        speaker: Speaker = base["speaker"]
        key = ("error", error, group.rank)
        for draft in self._drafts.alike(key, speaker, base["moment"]):
            if not _differ(draft, group):
                draft.copy_seen(speaker)
                if group.pg_id is not None:
                    draft.change(group=group)
                fact = draft.fact
                told = isinstance(fact, WatchdogError) and fact.frames
                self._blocks.begin(speaker, Frames(None if told else draft))
                return True
        draft = self._drafts.add(WatchdogError(**base, error=error, group=group), key)
        self._blocks.begin(speaker, Frames(draft))
        return True

    def _stuck(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        found = _STUCK.search(text)
        if found is None and not any(words in text for words in _STUCK_WORDS):
            return False
        group = group_tag(text)
        seconds = int(found[1]) if found else None
        draft = self._drafts.say(
            WatchdogStuck(**base, seconds=seconds, group=group), ("stuck", group)
        )
        if seconds is not None:
            draft.change(seconds=seconds)
        if "will finally kill the process" in text:
            self._drafts.say(ProcessTakenDown(**base, reason="no heartbeat", group=group))
        return True

    def _taken_down(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        if "we are taking the entire process down" in text:
            reason = "to avoid data inconsistency"
        elif found := _DUE.search(text):
            if "is disabled, but would have" in text:
                return True
            reason = found[1].strip()
        elif stamp is not None and stamp.level == "F" and (found := _DETECTED.search(text)):
            reason = found[1]
        else:
            return False
        self._drafts.say(ProcessTakenDown(**base, reason=reason, group=group_tag(text)))
        return True

    # --- recorder, start and end ------------------------------------------------------------------

    def _recorder(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        if "Stack trace of the failed collective" in text:
            draft = self._drafts.add(FailedStack(**base))
            if "FlightRecorder is disabled" in text or "not found" in text:
                self._drafts.say(RecorderFile(**base, state="disabled"))
            else:
                self._blocks.begin(base["speaker"], Stack(draft))
            return True
        path = first(_WRITTEN, text)
        if path is not None:
            fact = RecorderFile(**base, state="written", path=path)
            self._drafts.say(fact, anonymous=True)
            return True
        if path := first(_NOT_WRITTEN, text):
            self._drafts.say(RecorderFile(**base, state="failed", path=path), anonymous=True)
            return True
        if "Flight Recorder trace successfully dumped" in text:
            self._drafts.say(RecorderFile(**base, state="written"))
            return True
        if "timed out after waiting for" in text and "flight recorder dumps to finish" in text:
            self._drafts.say(RecorderFile(**base, state="failed"))
            return True
        return False

    def _notices(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        if any(words in text for words in _LEAKS):
            self._drafts.say(ResourceLeak(**base, what="process-group"))
        elif found := _BARRIER_DEVICE.search(text):
            values = {"device": found[2]} | ({"rank": found[1]} if found[1] else {})
            self._drafts.say(WarningLine(**base, topic="barrier-device", values=values))
        elif "Guessing device ID based on global rank" in text:
            self._drafts.say(WarningLine(**base, topic="barrier-device"))
        elif "An unbatched P2P op" in text:
            self._drafts.say(WarningLine(**base, topic="unbatched-p2p"))
        elif "possible GIL induced hang" in text:
            self._drafts.say(WarningLine(**base, topic="gil-held"))
        elif found := _REMOTE.search(text):
            self._drafts.say(PeerLost(**base, layer="nccl", peer=found[1], remote_error=True))
        elif found := _OPTIONS.search(text):
            if found[2] and base["speaker"].rank is None:
                base["speaker"] = msgspec.structs.replace(base["speaker"], rank=int(found[2]))
            self._drafts.say(
                GroupCreated(
                    **base,
                    size=int(found[1]),
                    name=first(_NAME, text),
                    timeout_ms=integer(first(_TIMEOUT, text)),
                    backend="nccl",
                )
            )
        else:
            return False
        return True

    def _desync(self, text: str, base: dict[str, Any], stamp: Stamp | None) -> bool:
        del stamp
        if "Timeout at collective: " not in text or "[" not in text:
            return False
        self._blocks.begin(base["speaker"], Desync(self._drafts.add(DesyncReport(**base))))
        return True


def _differ(draft: Draft, group: GroupTag) -> bool:
    """Whether the draft is known to be another group's."""
    fact = draft.fact
    mine = fact.group if isinstance(fact, CollectiveTimeout | WatchdogError) else GroupTag()
    return (
        draft.note != "beside"
        and group.pg_id is not None
        and mine.pg_id is not None
        and (mine.pg_id, mine.guid) != (group.pg_id, group.guid)
    )
