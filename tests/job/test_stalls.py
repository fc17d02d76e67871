"""Stalls: who waited in one group, who was not there, and what must be kept apart."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.making import heard, moment, status, timeout
from unstall.job import build
from unstall.job.stalls import MOST, find_stalls
from unstall.model.facts import Fact, GroupTag
from unstall.model.plan import Plan

DEFAULT = GroupTag(0, "0", "default_pg")


def test_the_rank_without_a_timeout_is_absent_and_behind() -> None:
    """Ranks 1 to 3 wait for 9, rank 0's last is 8: rank 0 is the one to look at."""
    facts = [
        *(timeout(rank, 9, rank, tag=DEFAULT) for rank in (1, 2, 3)),
        status(0, 8, 8, 9, tag=DEFAULT, reason="remote-dump"),
    ]
    (stall,) = find_stalls(facts)
    assert sorted(stall.waiters) == [1, 2, 3]
    assert stall.absent((0, 1, 2, 3)) == (0,)
    assert list(stall.behind) == [0]


def test_a_status_of_another_group_says_nothing_of_this_one() -> None:
    """Rank 1 never used the default group; that does not put it behind in group 15."""
    facts = [
        timeout(0, 77, 1, tag=GroupTag(5, "15")),
        status(1, -1, -1, 2, tag=GroupTag(0, "0"), reason="remote-dump"),
    ]
    (stall,) = find_stalls(facts)
    assert stall.behind == {}
    assert list(stall.heard) == [1]


def test_a_rank_whose_own_status_names_the_operation_is_not_missing() -> None:
    """Rank 2's time-out line was cut off; its status says that its watchdog failed 9 as well."""
    cut = msgspec.structs.replace(status(2, 11, 8, 3, tag=DEFAULT), failed=9)
    facts = [timeout(0, 9, 1, tag=DEFAULT), timeout(3, 9, 2, tag=DEFAULT), cut]
    (stall,) = find_stalls(facts)
    assert stall.waited_by_status == {2}
    assert stall.absent((0, 1, 2, 3)) == (1,)


def test_a_status_about_an_earlier_operation_does_not_excuse() -> None:
    """Rank 2's watchdog failed 5, the others wait for 9: it may well be the one they wait for."""
    other = msgspec.structs.replace(status(2, 5, 4, 3, tag=DEFAULT), failed=5)
    (stall,) = find_stalls([timeout(0, 9, 1, tag=DEFAULT), other])
    assert stall.absent((0, 1, 2)) == (1, 2)


def test_groups_are_never_mixed_by_their_sequence_numbers() -> None:
    """Equal numbers in two groups are two stalls."""
    facts = [timeout(0, 5, 1, tag=DEFAULT), timeout(1, 5, 2, tag=GroupTag(1, "1", "mesh_dp"))]
    assert len(find_stalls(facts)) == 2


def test_a_rank_that_does_not_name_its_group_is_in_the_one_with_that_number() -> None:
    """Rank 0's status line was cut off; it waits at the same number, for another operation."""
    default = GroupTag(0, None, None)
    facts = [timeout(0, 3437, 1, numel=4096), timeout(1, 3437, 2, tag=default)]
    (stall,) = find_stalls(facts)
    assert sorted(stall.waiters) == [0, 1]
    assert stall.tag == default


def test_a_low_number_is_met_in_many_groups() -> None:
    """At number 2 any group may stand; and a rank that the group holds is in it only once."""
    default = GroupTag(0, None, None)
    assert len(find_stalls([timeout(0, 2, 1, numel=9), timeout(1, 2, 2, tag=default)])) == 2
    twice = [timeout(1, 50, 1, numel=9), timeout(1, 50, 2, tag=default)]
    assert len(find_stalls(twice)) == 2


def test_unnamed_groups_are_told_apart_by_distant_numbers() -> None:
    """Before 2.3 the log names no group: 18544 and 12 cannot be one group, 18544 and 18545 can."""
    one = find_stalls([timeout(0, 18_544, 1), timeout(2, 18_545, 2)])
    two = find_stalls([timeout(0, 18_544, 1), timeout(2, 12, 2)])
    assert (len(one), len(two)) == (1, 2)


def test_it_began_before_the_watchdog_spoke() -> None:
    """The report's time less the time that the operation ran."""
    (stall,) = find_stalls([timeout(0, 3, at=moment("21:12:01"), ran_ms=600_000)])
    assert stall.began == moment("21:02:01")


def test_the_earliest_stall_comes_first() -> None:
    """A group that began to wait earlier leads, wherever it stands in the log."""
    facts = [
        timeout(0, 3, 1, tag=DEFAULT, at=moment("10:10:30"), ran_ms=600_000),
        timeout(1, 8, 2, tag=GroupTag(2, "3"), at=moment("10:10:10"), ran_ms=600_000),
    ]
    assert [stall.tag.guid for stall in find_stalls(facts)] == ["3", "0"]


def test_first_collective() -> None:
    """Number 1, or nothing completed before."""
    (first,) = find_stalls([timeout(0, 1)])
    (later,) = find_stalls([timeout(0, 2)])
    assert first.is_first_collective
    assert not later.is_first_collective


def test_old_formats_have_only_the_rank_within_the_group() -> None:
    """``[Rank 2]`` without a ``[rank2]:`` prefix is taken where nothing better is known."""
    (stall,) = find_stalls([timeout(2, 4, globally=False)])
    assert list(stall.waiters) == [2]


def test_ranks_that_only_heard_are_absent() -> None:
    """Without the group's size those that spoke without a time-out are the absent ones."""
    (stall,) = find_stalls([timeout(0, 4, 1, tag=DEFAULT), heard(1, 2), heard(2, 3)])
    assert stall.absent(None) == (1, 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 20), st.sampled_from(["0", "1", None])),
        min_size=1,
        max_size=40,
    )
)
def test_every_timeout_finds_a_stall_of_its_group(rows: list[tuple[int, int, str | None]]) -> None:
    """No rank is lost and no named group is mixed with another."""
    facts = [
        timeout(rank, seq, line, tag=GroupTag(None, guid) if guid else GroupTag())
        for line, (rank, seq, guid) in enumerate(rows, 1)
    ]
    stalls = find_stalls(facts)
    waiting = {(stall.tag.guid, rank) for stall in stalls for rank in stall.waiters}
    for rank, seq, guid in rows:
        if guid is not None:
            assert (guid, rank) in waiting
        else:
            assert any(w == rank for _, w in waiting), (rank, seq)


def test_of_many_groups_the_ones_that_began_first_are_looked_at() -> None:
    """A thousand groups that stood still are not held against each other."""
    facts: list[Fact] = []
    for number in range(10 * MOST):
        tag = GroupTag(number, str(number), f"g{number}")
        at = moment("10:00:00").earlier(-1000.0 * (10 * MOST - number))
        facts.append(timeout(number, 7, 2 * number + 1, tag=tag, at=at))
        facts.append(status(number, 8, 6, 2 * number + 2, tag=tag))
    blocked = build(facts, Plan()).blocked
    assert len(blocked) == MOST
    assert [one.stall.tag.pg_id for one in blocked[:2]] == [10 * MOST - 1, 10 * MOST - 2]
    assert set(blocked[0].stall.statuses) == {10 * MOST - 1}


def test_words_of_another_group_are_hearsay_in_this_one() -> None:
    """A rank that tells of a signal in two groups has a status in each and was heard in neither."""
    other = GroupTag(3, "3", "dp")
    facts = [
        timeout(0, 9, 1, tag=DEFAULT),
        status(1, 8, 8, 2, tag=DEFAULT, reason="remote-dump"),
        status(1, 4, 4, 3, tag=other, reason="remote-dump"),
        status(2, 4, 4, 4, tag=other, reason="remote-dump"),
    ]
    (stall,) = find_stalls(facts)
    assert set(stall.statuses) == {1}
    assert {rank: fact.place.line for rank, fact in stall.heard.items()} == {1: 3, 2: 4}
