"""DETAIL's fingerprints and monitored_barrier."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable

from unstall.model.facts import BarrierFailure, CollectiveMismatch, Fact
from unstall.reading.line import Reader
from unstall.reading.writers.wrapper import WrapperReader

Read = Callable[[type[Reader], str], list[Fact]]
Sample = Callable[[str], str]


def test_real_mismatch_from_both_sides(read: Read, sample: Sample) -> None:
    """Rank 0 ran an all-reduce of 4 where rank 1 broadcast 5."""
    facts = read(WrapperReader, sample("real/mismatch.log"))
    reduce, broadcast = (0, "ALLREDUCE", "[4]", 0), (1, "BROADCAST", "[5]", 0)
    assert [
        (f.speaker.rank, f.mine, f.other, f.aspects)
        for f in facts
        if isinstance(f, CollectiveMismatch)
    ] == [
        (0, reduce, broadcast, ("op", "shape")),
        (1, broadcast, reduce, ("op", "shape")),
    ]


def test_fingerprints_of_a_cut_message_are_compared(read: Read) -> None:
    """Trackers cut the list of aspects; the fingerprints tell them all the same."""
    text = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=21, OpType=REDUCE, TensorShape=[2, 9], "
        "TensorDtypes=Long, TensorDeviceTypes=TensorOptions(dtype=float)), but Rank 0 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=20, OpType=REDUCE, TensorShape=[2, 9], "
        "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float)).Collectives "
    )
    (fact,) = read(WrapperReader, text)
    assert isinstance(fact, CollectiveMismatch)
    assert fact.mine == (3, "REDUCE", "[2, 9]", 21)
    assert fact.other == (0, "REDUCE", "[2, 9]", 20)
    assert fact.aspects == ("sequence", "dtype")


def test_one_side_of_1_13(read: Read) -> None:
    """Old versions name no sequence number; a barrier has no tensor."""
    text = (
        "Detected mismatch between collectives on ranks. Rank 1 is running inconsistent collective: "
        "CollectiveFingerPrint(OpType=BARRIER"
    )
    (fact,) = read(WrapperReader, text)
    assert isinstance(fact, CollectiveMismatch)
    assert (fact.mine, fact.other) == ((1, "BARRIER", None, None), (None, None, None, None))


def test_real_barrier_names_the_absent_rank_once(read: Read, sample: Sample) -> None:
    """A line for the rank, a line for all ranks, the exception: one fact."""
    (fact,) = read(WrapperReader, sample("real/mbar.log"))
    assert isinstance(fact, BarrierFailure)
    assert (fact.absent, fact.waited_ms, fact.speaker.rank, fact.copies) == ((1,), 4000, 0, 3)


def test_barrier_collects_all_absent_ranks(read: Read) -> None:
    """One line each, then the sum."""
    text = "\n".join(
        (
            "[rank0]:[E G.cpp:1] [Rank 0]: Rank 5 failed to pass monitoredBarrier in 70 ms",
            "[rank0]:[E G.cpp:1] [Rank 0]: Rank 2 failed to pass monitoredBarrier in 70 ms",
            "[rank0]:[E G.cpp:1] [Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 70 ms",
        )
    )
    (fact,) = read(WrapperReader, text)
    assert isinstance(fact, BarrierFailure)
    assert fact.absent == (2, 5)


def test_waiting_rank_is_not_absent(read: Read) -> None:
    """``Rank 0 timed out in monitoredBarrier`` names the one that waited."""
    (fact,) = read(WrapperReader, "Rank 0 timed out in monitoredBarrier after 900 ms.")
    assert isinstance(fact, BarrierFailure)
    assert (fact.absent, fact.waited_ms) == ((), 900)
