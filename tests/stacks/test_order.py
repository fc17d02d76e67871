"""Which of two stacks is further on in the code that both run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unstall.stacks.order import Ahead, further_on

MAIN = ("main", "/job/fit.py", 90)
INSIDE = [("gather", "/lib/shards.py", 7), ("epoch", "/job/fit.py", 41), MAIN]
BEHIND = [("reduce", "/lib/c10d.py", 3), ("total", "/job/fit.py", 60), ("epoch", "/job/fit.py", 52)]
BEHIND.append(MAIN)


def test_further_down_in_the_innermost_common_function():
    found = further_on(BEHIND, INSIDE)
    assert found == Ahead("epoch", "/job/fit.py", 52, 41)
    assert found.name == "fit.py"


def test_the_other_way_round_it_is_not():
    assert further_on(INSIDE, BEHIND) is None


def test_who_came_by_other_lines_is_in_another_call():
    again = [*BEHIND[:-1], ("main", "/job/fit.py", 95)]
    # main is where they part: the second call of the function is after the first
    assert further_on(again, INSIDE) == Ahead("main", "/job/fit.py", 95, 90)


def test_other_functions_and_unknown_lines_tell_nothing():
    other = [("epoch", "/job/other.py", 52), MAIN]
    assert further_on(other, INSIDE) is None
    assert further_on([("epoch", "/job/fit.py", None), MAIN], INSIDE) is None
    assert further_on([], INSIDE) is None
    assert further_on(INSIDE, INSIDE) is None


FRAMES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x.py"]), st.none() | st.integers(1, 4)),
    max_size=6,
)


@given(FRAMES, FRAMES)
def test_at_most_one_of_two_is_further_on(one, other):
    first, second = further_on(one, other), further_on(other, one)
    assert first is None or second is None
    if first is not None:
        assert first.line > first.other
