from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.making import place
from unstall.reading.line import Line
from unstall.reading.writers.trtllm import HangDetectors


def test_a_rank_whose_loop_stood_still(read):
    (fact,) = read(HangDetectors, "[TRT-LLM] [E] Hang detected on rank 3 in PyExecutor.\n")
    assert (fact.kind, fact.detail) == ("watchdog", "Hang detected on rank 3 in PyExecutor")


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    line = Line(place=place(1), text="Hang detected on rank " + text, raw=text)
    for fact in HangDetectors().feed(line):
        assert fact.place == line.place
