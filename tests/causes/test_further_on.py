"""A small reduction below the loop that another rank is in: the loop's end, or a branch."""

from __future__ import annotations

import msgspec
import pytest

from tests.making import timeout
from unstall.causes.activity import Activity
from unstall.causes.divergence import Divergence, Side
from unstall.causes.further_on import behind_evidence, behind_the_loop
from unstall.model.facts import Frame

STEP = (("unshard", "/lib/shards.py", 7), ("fit_epoch", "/job/fit.py", 41))
BELOW = (("average", "/job/fit.py", 70), ("fit_epoch", "/job/fit.py", 52))


def side(ranks, numel, kind, frames) -> Side:
    doing = Activity(kind, Frame("f", "/job/fit.py", 1)) if kind else None
    fact = timeout(0, 7, 1)
    return Side(tuple(ranks), "all_reduce", numel, fact, None, doing, frames)


def parted(left: Side, inside: Side) -> Divergence:
    return Divergence(sides=(left, inside), seq=7, told="stacks", program=None)


def test_ranks_below_the_loop_have_left_it():
    left, inside = side([2, 3], 2, None, BELOW), side([0, 1], 8192, "forward", STEP)
    found = behind_the_loop(parted(left, inside))
    assert found is not None
    assert (found[0].ranks, found[1].ranks, found[2].line) == ((2, 3), (0, 1), 52)
    text = behind_evidence(parted(left, inside))[0].text.render()
    assert "fit_epoch (fit.py), ranks 2-3 further down (line 52) than ranks 0-1 (line 41)" in text


def test_rank_0_alone_may_be_on_a_branch():
    inside = side([1, 2, 3], 8192, "gradients", STEP)
    assert behind_the_loop(parted(side([0], 2, "metrics", BELOW), inside)) is None
    assert behind_the_loop(parted(side([1], 2, "metrics", BELOW), inside)) is not None


@pytest.mark.parametrize("kind", ["save", "evaluate"])
def test_who_saves_or_evaluates_has_not_only_left_a_loop(kind):
    inside = side([0, 1], 8192, "forward", STEP)
    assert behind_the_loop(parted(side([2, 3], 2, kind, BELOW), inside)) is None


def test_the_one_above_is_not_behind():
    left, inside = side([2, 3], 2, None, STEP), side([0, 1], 8192, "forward", BELOW)
    assert behind_the_loop(parted(left, inside)) is None
    assert behind_evidence(parted(left, inside)) == []


def test_ranks_that_are_not_known_weigh_less():
    inside = side([], 8192, "forward", STEP)
    known = behind_evidence(parted(side([1], 2, None, BELOW), inside))
    unknown = behind_evidence(parted(side([], 2, None, BELOW), inside))
    assert unknown[0].weight < known[0].weight
    assert "one rank further down" in unknown[0].text.render()
    assert msgspec.structs.asdict(unknown[0])["place"] == known[0].place
