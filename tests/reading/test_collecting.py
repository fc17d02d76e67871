"""Facts of all sources: order, copies, bounds."""

from __future__ import annotations

from datetime import datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import (
    Fact,
    Moment,
    Phase,
    Place,
    Progress,
    Remark,
    WorkerGroupRestart,
)
from unstall.reading import collecting
from unstall.reading.collecting import Collector

TEN = Moment(datetime(2026, 11, 30, 10))


def phase(line: int, kind: str = "save", moment: Moment | None = None, source: str = "a") -> Phase:
    return Phase(place=Place(source, line), quote="q", kind=kind, moment=moment)


def test_order_is_by_source_then_line() -> None:
    collector = Collector()
    collector.add([phase(5), phase(2, "load-data")])
    collector.add([Remark(place=Place("a", 3), quote="", topic="gpu-idle", values={"a": "b"})])
    assert collector.close("a") == []
    collector.add([phase(1, source="b")])
    collector.close("b")
    assert [str(fact.place) for fact in collector.all()] == ["a:2", "a:3", "a:5", "b:1"]


def test_the_same_words_at_the_same_moment_are_one_fact() -> None:
    collector = Collector()
    collector.add([phase(1, "save"), phase(9, "load-data", TEN), phase(4, "save", TEN)])
    collector.add([phase(9, "load-data", TEN)])
    collector.close("a")
    collector.add([phase(7, "save", TEN, "copy"), phase(8, "end", TEN, "copy")])
    collector.close("copy")
    assert [(fact.place.line, fact.copies) for fact in collector.all()] == [
        (1, 1), (4, 2), (9, 2), (8, 1),
    ]  # fmt: skip


def test_facts_without_a_moment_are_never_copies() -> None:
    collector = Collector()
    collector.add([phase(1), phase(1)])
    collector.close("a")
    assert len(collector.all()) == 2


def test_endless_facts_keep_their_beginning_and_end() -> None:
    many = collecting.EARLY + collecting.LATE + 7
    facts: list[Fact] = [
        Progress(place=Place("a", n), quote="", done=n) for n in range(1, many + 1)
    ]
    collector = Collector()
    collector.add(facts)
    collector.add([phase(3)])
    (note,) = collector.close("a")
    assert "7 facts of the kind Progress" in note.reason
    kept = [fact.place.line for fact in collector.all() if isinstance(fact, Progress)]
    assert kept == [*range(1, collecting.EARLY + 1), *range(many - collecting.LATE + 1, many + 1)]
    collector.add(facts[:3])
    assert collector.close("b") == []


def test_a_log_that_was_pasted_twice_is_one_log() -> None:
    """Lines without a time beside a copy are copies, above it and below it, but not elsewhere."""
    once = [phase(1, "load-data"), phase(2, "save"), phase(3, "end", TEN), phase(4, "evaluate")]
    twice = [msgspec.structs.replace(one, place=Place("a", one.place.line + 10)) for one in once]
    collector = Collector()
    collector.add([*once, *twice, phase(20, "evaluate")])
    collector.close("a")
    assert [(fact.place.line, fact.copies) for fact in collector.all()] == [
        (1, 2), (2, 2), (3, 2), (4, 2), (20, 1),
    ]  # fmt: skip


def test_restarts_are_told_for_every_source() -> None:
    """A copy of a log without its restart would belong to all attempts."""
    restart = WorkerGroupRestart(place=Place("a", 1), quote="restart", moment=TEN)
    collector = Collector()
    collector.add([restart])
    collector.close("a")
    collector.add([msgspec.structs.replace(restart, place=Place("b", 1))])
    collector.close("b")
    assert [str(fact.place) for fact in collector.all()] == ["a:1", "b:1"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["save", "end", "train"]), st.sampled_from([None, TEN])),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_no_words_are_lost_among_copies(words: list[tuple[str, Moment | None]], cut: int) -> None:
    """Facts and their copies are as many as were given, and every kind that was said remains."""
    facts = [phase(line, kind, moment) for line, (kind, moment) in enumerate(words, 1)]
    collector = Collector()
    collector.add(facts[:cut])
    collector.close("a")
    collector.add(facts[cut:])
    collector.close("b")
    kept = collector.all()
    assert sum(fact.copies for fact in kept) == len(facts)
    assert {f.kind for f in kept if isinstance(f, Phase)} == {kind for kind, _ in words}
