"""Which readers are offered a line, and what happens when one fails."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import Fact, Phase, Place, WorkerGroupRestart
from unstall.reading.line import Line
from unstall.reading.triage import Marks, Triage


class Echo:
    """Remembers what it was fed."""

    marks: tuple[str, ...] = ("ab", "xyz")
    wants_more = False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def feed(self, line: Line) -> Iterable[Fact]:
        self.seen.append(line.text)
        yield Phase(place=line.place, quote=line.raw, kind="train", detail=type(self).__name__)

    def finish(self) -> Iterable[Fact]:
        return [Phase(place=Place("x", 9), quote="", kind="end", detail=" ".join(self.seen))]


class Longer(Echo):
    marks = ("abc",)


class Block(Echo):
    """From ``begin`` to ``end``."""

    marks = ("begin",)

    def feed(self, line: Line) -> Iterable[Fact]:
        self.wants_more = line.text != "end"
        return super().feed(line)


class Broken(Echo):
    marks = ("xyz",)

    def feed(self, line: Line) -> Iterable[Fact]:
        raise KeyError(line.text)


class BrokenAtTheEnd(Echo):
    marks = ("never",)

    def finish(self) -> Iterable[Fact]:
        raise RuntimeError("at the end")


def run(readers: list[type[Echo]], *texts: str) -> tuple[list[str], Triage]:
    triage = Triage(readers, Marks(readers))
    facts = []
    for number, text in enumerate(texts, 1):
        facts += list(triage.feed(Line(Place("x", number), text, text)))
    facts += list(triage.finish())
    return [f"{fact.kind}:{fact.detail}" for fact in facts if isinstance(fact, Phase)], triage


def test_marks_decide() -> None:
    facts, _ = run([Echo, Longer], "none", "1 abc", "2 ab", "3 xyzabc")
    assert facts[-2:] == ["end:1 abc 2 ab 3 xyzabc", "end:1 abc 3 xyzabc"]


def test_overlapping_marks_are_all_found() -> None:
    class One(Echo):
        marks = ("aXb",)

    class Two(Echo):
        marks = ("Xbc",)

    marks = Marks([One, Two, Longer])
    assert marks.wanted("..aXbc..") == {0, 1}
    assert marks.wanted("nothing") == set()
    assert Marks([]).wanted("x") == set()


def test_a_reader_in_a_block_gets_every_line() -> None:
    facts, _ = run([Block], "before", "begin", "inside", "end", "after")
    assert facts[-1] == "end:begin inside end"


def test_a_failing_reader_costs_only_its_own_facts() -> None:
    facts, triage = run([Broken, Echo, BrokenAtTheEnd], "xyz 1", "xyz 2")
    assert facts == ["train:Echo", "train:Echo", "end:xyz 1 xyz 2"]
    assert [(one.place.line, one.fatal) for one in triage.troubles] == [(1, False), (2, False)]
    assert "Broken failed here (KeyError" in triage.troubles[0].reason
    assert "BrokenAtTheEnd" in triage.troubles[1].reason


@given(st.lists(st.text("ab.*(\\", min_size=1, max_size=4), max_size=8), st.text("ab.*(\\c"))
def test_one_search_finds_what_single_tests_find(literals: list[str], text: str) -> None:
    readers = [type("R", (Echo,), {"marks": (mark,)}) for mark in literals]
    expected = {at for at, mark in enumerate(literals) if mark in text}
    assert Marks(readers).wanted(text) == expected


class Launcher(Echo):
    """A line by which the launcher starts its workers anew."""

    marks = ("restart",)

    def feed(self, line: Line) -> Iterable[Fact]:
        yield WorkerGroupRestart(place=line.place, quote=line.raw)


def test_a_restart_lets_the_other_readers_begin_anew() -> None:
    said, triage = run([Echo, Launcher], "ab 1", "restart", "ab 2")
    assert [one for one in said if one.startswith("end:ab")] == ["end:ab 1", "end:ab 2"]
    assert triage.troubles == []
