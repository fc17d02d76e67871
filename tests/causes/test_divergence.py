"""Different operations at one place of one group, two groups, and the ends of loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.making import moment, place, timeout
from unstall.causes.activity import Standing
from unstall.causes.data_dependent_graph import fits
from unstall.causes.divergence import Divergence, divergences, elements, loop_ends, splits
from unstall.causes.scene import capped, elsewhere, scenes
from unstall.job import Job, build
from unstall.model.facts import (
    BarrierFailure,
    CollectiveMismatch,
    DesyncReport,
    Fact,
    GroupTag,
    Phase,
    Progress,
    Speaker,
)
from unstall.model.findings import Evidence
from unstall.model.plan import Plan
from unstall.model.text import verbatim

WORLD = GroupTag(0, "0", "default_pg")
SHARD = GroupTag(1, "1", "shard")


def job(*facts: Fact) -> Job:
    return build(facts, Plan())


def found(*facts: Fact) -> list[Divergence]:
    return divergences(job(*facts), Standing())


@pytest.mark.parametrize(
    ("shape", "count"),
    [("[25]", 25), ("[3, 4]", 12), ("[2, 3];[4]", 10), ("[]", 1), (None, None), ("64 bytes", None)],
)
def test_elements_of_shapes_as_written(shape: str | None, count: int | None) -> None:
    assert elements(shape) == count


@given(st.text(max_size=300))
def test_elements_of_any_text_are_a_count_or_unknown(text: str) -> None:
    count = elements(text)
    assert count is None or count >= 0


def test_different_operations_at_one_number_diverge_and_the_fewest_ranks_come_first() -> None:
    one = found(
        timeout(0, 7, 1, tag=WORLD, numel=4096),
        timeout(1, 7, 2, tag=WORLD, numel=4096),
        timeout(2, 7, 3, tag=WORLD, op="BROADCAST", numel=1),
    )
    assert [(side.ranks, side.op) for side in one[0].sides] == [
        ((2,), "BROADCAST"),
        ((0, 1), "ALLREDUCE"),
    ]
    assert one[0].seq == 7
    assert one[0].small_and_large
    assert not one[0].same_op


def test_one_operation_on_all_ranks_and_other_numbers_do_not_diverge() -> None:
    assert found(timeout(0, 7, 1, tag=WORLD), timeout(1, 7, 2, tag=WORLD)) == []
    assert found(timeout(0, 7, 1, tag=WORLD), timeout(1, 8, 2, tag=WORLD, op="BROADCAST")) == []


def test_numbers_of_two_groups_are_never_compared() -> None:
    facts = (
        timeout(0, 7, 1, tag=WORLD, at=moment("10:00:00")),
        timeout(1, 7, 2, tag=SHARD, op="BROADCAST", numel=9999, at=moment("10:00:01")),
    )
    assert found(*facts) == []
    assert [(split.one_ranks, split.other_ranks) for split in splits(job(*facts))] == [((0,), (1,))]


@pytest.mark.parametrize(("later", "count"), [("10:01:30", 1), ("10:20:00", 0)])
def test_waits_of_two_groups_belong_together_by_the_time_they_began(later: str, count: int) -> None:
    whole = job(
        timeout(0, 7, 1, tag=WORLD, at=moment("10:00:00")),
        timeout(1, 900, 2, tag=SHARD, numel=9999, at=moment(later)),
    )
    assert len(splits(whole)) == count
    assert len(elsewhere(whole, whole.blocked[0])) == count


def test_a_stall_with_a_time_and_one_without_are_of_two_runs() -> None:
    """One torch stamps all its lines or none: these are two logs in one paste."""
    stamped = timeout(0, 7, 1, tag=WORLD, at=moment("10:00:00"))
    assert splits(job(stamped, timeout(1, 9, 2, tag=SHARD, numel=8192))) == []
    assert len(splits(job(timeout(0, 7, 1, tag=WORLD), timeout(1, 9, 2, tag=SHARD)))) == 1


def mismatch(mine: tuple[int, str, str, int], other: tuple[int, str, str, int], line: int) -> Fact:
    return CollectiveMismatch(
        place=place(line),
        quote="Detected mismatch",
        mine=mine,
        other=other,
        aspects=("op", "shape"),
    )


def test_two_reports_of_one_mismatch_are_one_divergence() -> None:
    a, b = (0, "BROADCAST", "[1]", 31), (1, "ALLREDUCE", "[25]", 31)
    both = found(mismatch(a, b, 1), mismatch(b, a, 9))
    assert len(both) == 1
    assert both[0].all_ranks == (0, 1)
    assert {side.numel for side in both[0].sides} == {1, 25}


def test_operations_that_meet_with_unlike_counts_are_one_divergence() -> None:
    one = found(mismatch((1, "ALLGATHER", "[1]", 101), (7, "REDUCE", "", 0), 1))
    assert [(divergence.seq, divergence.all_ranks) for divergence in one] == [(101, (1, 7))]


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        ("[195812480]", "[51123456]", True),
        # parameters and gradients travel in flat buffers: this is a tensor of the program
        ("[359, 1, 1435, 16]", "[359, 1, 1436, 16]", False),
    ],
)
def test_flat_buffers_are_of_the_model(mine: str, other: str, expected: bool) -> None:
    op = "_ALLGATHER_BASE"
    assert [fits(one) for one in found(mismatch((0, op, mine, 4), (1, op, other, 4), 1))] == [
        expected
    ]


def test_a_desync_report_s_states_diverge() -> None:
    report = DesyncReport(
        place=place(4),
        quote="Snapshot of ranks' latest states",
        states=((0, "started", "ALLREDUCE", 5), (1, "started", "BROADCAST", 5)),
    )
    assert found(report)[0].ops == {"ALLREDUCE", "BROADCAST"}


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ((("_ALLGATHER_BASE", 1 << 20), ("_REDUCE_SCATTER_BASE", 1 << 22)), True),
        ((("ALLREDUCE", 1 << 20), ("ALLREDUCE", 1 << 22)), True),
        ((("ALLREDUCE", 1), ("ALLREDUCE", 1 << 22)), True),
        ((("BROADCAST", 1), ("ALLREDUCE", 1 << 22)), False),
        ((("ALLGATHER", 4000), ("ALLGATHER", 4100)), False),
        ((("SEND", 1 << 20), ("RECV", 1 << 20)), False),
    ],
)
def test_parts_of_the_model_are_told_from_a_program_s_own_tensors(
    ops: tuple[tuple[str, int], tuple[str, int]], expected: bool
) -> None:
    facts = [timeout(r, 7, r + 1, tag=WORLD, op=op, numel=n) for r, (op, n) in enumerate(ops)]
    assert [fits(one) for one in found(*facts)] == [expected]


def bar(line: int, rank: int | None, done: int, total: int, label: str = "train") -> Progress:
    return Progress(
        place=place(line),
        quote="bar",
        speaker=Speaker(rank=rank),
        label=label,
        done=done,
        total=total,
    )


def test_the_end_of_a_loop_is_a_full_bar_or_a_finished_evaluation_before_the_wait() -> None:
    last = timeout(0, 7, 50, tag=WORLD)
    ended = Phase(
        place=place(3),
        quote="evaluation finished",
        speaker=Speaker(rank=2),
        kind="evaluate",
        finished=True,
    )
    whole = job(
        bar(1, 1, 10, 10),
        bar(2, 0, 9, 10),
        ended,
        bar(4, 1, 10, 10, "Loading checkpoint shards"),
        bar(60, 3, 10, 10),
        last,
    )
    assert [(end.rank, end.fact.place.line) for end in loop_ends(whole, last)] == [(2, 3), (1, 1)]


def test_a_named_absent_rank_counts_before_gloo_s_own_time_out() -> None:
    absent = BarrierFailure(
        place=place(5),
        quote="failed to pass",
        absent=(2,),
        waited_ms=60_000,
        speaker=Speaker(rank=0),
    )
    below = timeout(0, 0, 6, op="", numel=0)
    assert [scene.missing for scene in scenes(job(absent, below))] == [(2,)]
    assert [scene.told for scene in scenes(job(absent, below))] == ["barrier"]


@given(st.lists(st.floats(0, 10), max_size=6))
def test_evidence_for_one_conclusion_weighs_no_more_than_its_cap(weights: list[float]) -> None:
    items = [Evidence(verbatim("a"), None, weight) for weight in weights]
    assert sum(item.weight for item in capped(items, 1.5)) <= 1.5 + 0.01 * len(items)
