"""Terminal escapes, lost colours, entities, links and escapes."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.tidy import SPACES, TOUCHED, controls, markup


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("\x1b[36m(W pid=1)\x1b[0m x", "(W pid=1) x"),
        ("\x1b[1;36m(E pid=1)\x1b[0;0m x", "(E pid=1) x"),
        ("\x1b[38;5;208mx\x1b[K", "x"),
        ("\x1b]8;;http://a\x07link\x1b]8;;\x07", "link"),
        ("a\x1b[Ab", "a\rb"),
        ("a\0\0b\x07", "ab"),
        ("a\xa0b\u200bc\ufeff", "a bc"),
        ("tab\tand\rreturn", "tab\tand\rreturn"),
        ("cut \x1b[3", "cut "),
    ],
)
def test_controls(written: str, meant: str) -> None:
    assert controls(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[36m(W pid=1)[0m x", "(W pid=1) x"),
        ("ESC[36m(W pid=1)ESC[0m x", "(W pid=1) x"),
        ("[1;36m(E pid=1)[0;0m x", "(E pid=1) x"),
        (r"\x1b[31mred\x1b[0m", "red"),
        ("std::vector&lt;int&gt; &amp;&amp; a", "std::vector<int> && a"),
        ("frame  [#1](https://github.com/o/r/pull/1) : f", "frame #1: f"),
        ("frame #2: f", "frame #2: f"),
        ("see [the docs](https://a.b/c) now", "see the docs now"),
        (r"\[rank0\]:\[E1206 \_x", "[rank0]:[E1206 _x"),
        (r"my\_model", "my_model"),
        ("a<br/>b", "ab"),
        ("rate(x[5m]) and y[30m]", "rate(x[5m]) and y[30m]"),
        (r"C:\temp and \d+\.\d+", r"C:\temp and \d+\.\d+"),
        ("<module> in std::vector<char>", "<module> in std::vector<char>"),
        ("R&D && x", "R&D && x"),
    ],
)
def test_markup(written: str, meant: str) -> None:
    assert markup(written) == meant


@given(st.text(max_size=300))
def test_cleaning_never_adds_and_is_final(text: str) -> None:
    once = controls(text)
    assert len(once) <= len(text)
    assert controls(once) == once
    assert len(markup(once)) <= len(once)


def test_spaces_are_what_patterns_call_so() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert sorted(SPACES + "\n") == re.findall(r"\s", every)


@given(
    st.lists(
        st.sampled_from(
            [*TOUCHED, "[", "m", "36", "38;5;1", "0", "frame", "#1:", "x", "</", "a>", "&"]
        )
        | st.characters(),
        max_size=12,
    ).map("".join)
)
def test_what_holds_no_literal_of_the_touched_stays_as_it_is(text: str) -> None:
    if not any(word in text for word in TOUCHED):
        kept = "".join(char for char in text if not "\ud800" <= char <= "\udfff")
        assert markup(controls(kept)) == kept
