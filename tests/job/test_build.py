"""Jobs of impossible sizes, and of very many stalls, are built in bounded memory and time."""

from __future__ import annotations

import pytest

from tests.making import moment, place, timeout
from unstall.job import IDENTIFIED, build
from unstall.job.stalls import MOST
from unstall.model.facts import Fact, GroupTag, NcclInit, ProcessEnd
from unstall.model.plan import Plan, Program

DEFAULT = GroupTag(0, "0", "default_pg")


@pytest.mark.parametrize("processes", [10**7, 10**12])
def test_a_program_of_impossible_size_has_no_members_to_count(processes: int) -> None:
    """A number in a script may be a typing error; the ranks that spoke are known all the same."""
    trainer = Program(label="trainer", role="trainer", software="torchrun", processes=processes)
    plan = Plan(programs=(trainer,))
    job = build([timeout(0, 9, 1, tag=DEFAULT), timeout(1, 9, 2, tag=DEFAULT)], plan)
    assert job.lead is not None
    assert job.lead.members is None
    assert job.ranks_of(job.programs[0]) == {0, 1}


def test_a_rank_of_impossible_number_does_not_make_as_many_ranks() -> None:
    """Neither as a waiter nor as a rank that ended."""
    facts: list[Fact] = [
        timeout(10**9, 9, 1, tag=DEFAULT),
        ProcessEnd(place=place(2), quote="exit", rank=1, exit_code=1),
        NcclInit(place=place(3), quote="init", stage="start", rank=10**9, size=10**12),
    ]
    job = build(facts, Plan())
    assert job.lead is not None
    assert job.lead.members is None


def test_many_stalls_of_one_group_share_the_first_one_s_reading() -> None:
    """Each time-out of another length is a stall; only the first are looked up."""
    facts = [
        timeout(
            number % 8, 7, number + 1, tag=DEFAULT, timeout_ms=600_000 + number,
            at=moment("10:00:00").earlier(-1000.0 * number),
        )
        for number in range(2 * MOST)
    ]  # fmt: skip
    blocked = build(facts, Plan()).blocked
    assert len(blocked) == MOST
    assert blocked[0].matches
    assert blocked[IDENTIFIED].matches == blocked[0].matches
