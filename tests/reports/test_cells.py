from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reports import cells
from unstall.reports.words import clean

lines = st.text(st.characters(exclude_categories=[])).map(clean)


def test_english_is_broken_at_blanks() -> None:
    assert cells.wrap("one two three four", 9) == ["one two", "three", "four"]


def test_a_long_word_is_cut_where_the_line_ends() -> None:
    assert cells.wrap("abcdefghij k", 4) == ["abcd", "efgh", "ij k"]


def test_chinese_is_broken_between_characters_but_not_before_a_mark() -> None:
    assert cells.wrap("进程没有到来，等待。", 8) == ["进程没有", "到来，等", "待。"]
    assert cells.wrap("等待进程到来，", 12) == ["等待进程到", "来，"]
    assert cells.wrap("引擎（一）停", 6) == ["引擎", "（一）", "停"]


def test_chinese_and_latin_stand_on_one_line() -> None:
    assert cells.wrap("使用vllm推理", 8) == ["使用vllm", "推理"]


def test_there_is_always_a_line() -> None:
    assert cells.wrap("", 10) == [""]
    assert cells.wrap("   ", 10) == [""]


@given(lines, st.integers(4, 100))
def test_no_line_is_too_wide_and_nothing_but_blanks_is_lost(text: str, most: int) -> None:
    wrapped = cells.wrap(text, most)
    assert all(cells.width(line) <= most for line in wrapped)
    assert "".join(wrapped).replace(" ", "") == text.replace(" ", "")


@given(lines, st.integers(4, 100))
def test_cut_text_fits(text: str, most: int) -> None:
    assert cells.width(cells.cut_end(text, most)) <= most
    assert cells.width(cells.cut_middle(text, most)) <= most


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("short", 10, "short"), ("/data/run/rank12.log:41", 14, "/dat…12.log:41")],
)
def test_paths_lose_their_middle(text: str, most: int, shown: str) -> None:
    assert cells.cut_middle(text, most) == shown


def test_cut_end() -> None:
    assert cells.cut_end("进程组没有", 7) == "进程组…"


def test_clip_marks_what_was_dropped() -> None:
    assert cells.clip(["one", "two", "three"], 2, 10) == ["one", "two…"]
    assert cells.clip(["one", "twotwo"], 1, 3) == ["on…"]
    assert cells.clip(["one"], 2, 3) == ["one"]
    assert cells.clip(["one", "twotwo"], 2, 4) == ["one", "two…"]
