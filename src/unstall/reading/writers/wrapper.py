"""What the checks of ``torch.distributed`` print: mismatches and ``monitored_barrier``.

Source: ``ProcessGroupWrapper.cpp`` (TORCH_DISTRIBUTED_DEBUG=DETAIL) and ``ProcessGroupGloo.cpp``
of PyTorch 1.13 to 2.15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import BarrierFailure, CollectiveMismatch, Fact
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Drafts, first, integer, said
from unstall.reading.writers.stamps import Stamp, records

_MISMATCH = "Detected mismatch between collectives on ranks"
_RUNNING = re.compile(
    r"Rank (\d{1,9}) is running (?:inconsistent )?collective: CollectiveFingerPrint\(", re.ASCII
)
_SEQ = re.compile(r"SequenceNumber ?= ?(\d{1,20})", re.ASCII)
_OP = re.compile(r"OpType ?= ?([\w\\]{1,60})", re.ASCII)
_SHAPE = re.compile(r"TensorShape ?= ?\\?(\[[\d, ;\[\]]{0,400}\])", re.ASCII)
_DTYPES = re.compile(r"TensorDtypes ?= ?([^=]{1,400}?), ?Tensor", re.ASCII)
_ASPECTS = "differ in the following aspects:"
_ASPECT_WORDS = (
    ("Sequence number:", "sequence"),
    ("Op type:", "op"),
    ("Tensor shapes:", "shape"),
    ("Tensor dtypes:", "dtype"),
)
_FAILED = re.compile(
    r"Ranks? ([\d, ]{1,8000}?) failed to pass monitoredBarrier in (\d{1,15}) ?ms", re.ASCII
)
_TIMED_OUT = re.compile(
    r"Rank (\d{1,9}) timed out in monitoredBarrier after (\d{1,15}) ?ms", re.ASCII
)

_Side = tuple["int | None", "str | None", "str | None", "int | None"]


class WrapperReader:
    """Mismatching collectives and ranks that did not come to a barrier."""

    marks: tuple[str, ...] = (_MISMATCH, "monitoredBarrier")

    def __init__(self) -> None:
        self._drafts = Drafts()

    @property
    def wants_more(self) -> bool:
        """Never: what follows on further lines repeats the first."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            if _MISMATCH in text:
                self._mismatch(text, line, stamp)
            elif "monitoredBarrier" in text:
                self._barrier(text, line, stamp)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _mismatch(self, text: str, line: Line, stamp: Stamp | None) -> None:
        heads = list(_RUNNING.finditer(text))[:2]
        if not heads:
            return
        end = len(text) if len(heads) == 1 else heads[1].start()
        mine, my_types = _side(heads[0], text[heads[0].start() : end])
        other: _Side = (None, None, None, None)
        aspects: dict[str, None] = {}
        if len(heads) == 2:
            stop = text.find(_ASPECTS, heads[1].end())
            other, other_types = _side(
                heads[1], text[heads[1].start() : stop if stop > 0 else len(text)]
            )
            compared = (
                ("sequence", mine[3], other[3]),
                ("op", mine[1], other[1]),
                ("shape", mine[2], other[2]),
                ("dtype", my_types, other_types),
            )
            for aspect, one, two in compared:
                if one is not None and two is not None and one != two:
                    aspects[aspect] = None
            if stop > 0:
                for words, aspect in _ASPECT_WORDS:
                    if words in text[stop:]:
                        aspects[aspect] = None
        base = said(line, stamp)
        self._drafts.say(
            CollectiveMismatch(**base, mine=mine, other=other, aspects=tuple(aspects)),
            anonymous=True,
        )

    def _barrier(self, text: str, line: Line, stamp: Stamp | None) -> None:
        base = said(line, stamp)
        if found := _FAILED.search(text):
            waited = int(found[2])
            absent = {int(word) for word in found[1].split(",") if word.strip().isdigit()}
            # One line for each rank, then one with all of them, then the exception.
            for draft in self._drafts.alike(("barrier", waited), base["speaker"], base["moment"]):
                if isinstance(draft.fact, BarrierFailure):
                    draft.copy_seen(base["speaker"])
                    draft.change(absent=tuple(sorted(absent.union(draft.fact.absent))))
                    return
            self._drafts.add(
                BarrierFailure(**base, absent=tuple(sorted(absent)), waited_ms=waited),
                ("barrier", waited),
            )
        elif found := _TIMED_OUT.search(text):
            # It names the rank that waited; who was absent is not told.
            self._drafts.say(
                BarrierFailure(**base, absent=(), waited_ms=int(found[2])), anonymous=True
            )


def _side(head: re.Match[str], text: str) -> tuple[_Side, str | None]:
    op = first(_OP, text)
    return (
        int(head[1]),
        op.replace("\\", "") if op else None,
        first(_SHAPE, text),
        integer(first(_SEQ, text)),
    ), first(_DTYPES, text)
