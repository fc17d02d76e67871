"""Lines joined that a terminal or a copy had broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.unwrap import Unwrapper, width, wrapped_at

RECORD = (
    "[rank{rank}]:[E502 04:59:41.002029540 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=9391, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 60000{rank} milliseconds before timing out."
)


def broken(lines: list[str], column: int) -> list[str]:
    return [line[at : at + column] for line in lines for at in range(0, len(line) or 1, column)]


def joined(lines: list[str], column: int | None) -> list[tuple[int, str]]:
    unwrapper = Unwrapper(column)
    found = [one for n, line in enumerate(lines, 1) for one in unwrapper.feed(n, line)]
    return [*found, *unwrapper.flush()]


@pytest.mark.parametrize("column", [80, 120, 150])
def test_wrapping_at_a_column_is_seen_and_undone(column: int) -> None:
    whole = ["short", *[RECORD.format(rank=rank) for rank in range(5)], "", "end"]
    lines = broken(whole, column)
    assert wrapped_at(lines) == column
    assert [text for _, text in joined(lines, column)] == whole


def test_numbers_are_those_of_the_first_part() -> None:
    lines = broken([RECORD.format(rank=0), RECORD.format(rank=1)], 100)
    assert [number for number, _ in joined(lines, 100)] == [1, 4]


def test_wide_characters_take_two_columns() -> None:
    assert width("ab看门狗") == 8
    assert width("█▏") == 2


def test_rows_of_one_length_are_not_wrapped() -> None:
    rows = [
        f"step {n:>8} loss {n * 0.1:>10.4f} lr {1e-5:>12.6f} tokens {n * 99:>16}" for n in range(40)
    ]
    assert wrapped_at(rows) is None
    dated = [f"2025-11-30 10:00:{n:02} [INFO] " + "x" * 60 for n in range(40)]
    assert wrapped_at(dated) is None
    assert wrapped_at(["=" * 80] * 30) is None


def test_one_sentence_broken_anywhere_is_joined() -> None:
    record = RECORD.format(rank=0)
    at = record.index("(ms)")
    assert joined([record[:at], record[at:], "next"], None) == [(1, record), (3, "next")]
    at = record.index(" NumelIn")
    words = [record[:at], record[at + 1 :]]
    assert joined([*words, "next"], None) == [(1, record), (3, "next")]


def test_a_sentence_that_never_ends_comes_as_it_was() -> None:
    lines = [
        "x Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1,",
        "a",
        "b",
        "",
        "c",
    ]
    assert joined(lines, None) == list(enumerate(lines, 1))


def test_a_new_record_is_never_a_continuation() -> None:
    first = RECORD.format(rank=0)[:120]
    lines = [first, RECORD.format(rank=1)]
    assert joined(lines, 120) == [(1, first), (2, lines[1])]


@given(st.lists(st.text(alphabet="ab [](W:\n9", max_size=40), max_size=30), st.integers(4, 40))
def test_no_character_is_lost(lines: list[str], column: int) -> None:
    found = joined(lines, column)
    assert "".join(text for _, text in found) == "".join(lines)
    assert [number for number, _ in found] == sorted({number for number, _ in found})
