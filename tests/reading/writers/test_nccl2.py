"""``[TC]`` lines: no operation, no number, the group by its name."""

from __future__ import annotations

from collections.abc import Callable

from unstall.model.facts import (
    CollectiveTimeout,
    CudaError,
    Fact,
    GroupTag,
    ProcessTakenDown,
    ResourceLeak,
    WatchdogError,
    Work,
)
from unstall.reading.line import Reader
from unstall.reading.writers.cuda import CudaReader
from unstall.reading.writers.nccl2 import Nccl2Reader

Read = Callable[[type[Reader], str], list[Fact]]
NAME = "torch-2.15.0-default-nccl2.log"


def test_time_outs_of_the_default_back_end(read: Read, sample: Callable[[str], str]) -> None:
    """Ranks 0, 1 and 3 time out 600.5 s after they began; rank 2 says nothing."""
    facts = read(Nccl2Reader, sample(NAME))
    assert [
        (f.speaker.rank, f.ran_ms, f.group, f.work, f.backend, f.place.line)
        for f in facts
        if isinstance(f, CollectiveTimeout)
    ] == [
        (0, 600500, GroupTag(guid="0", rank=0), Work(op=""), "nccl2", 2),
        (1, 600520, GroupTag(guid="0", rank=1), Work(op=""), "nccl2", 5),
        (3, 600540, GroupTag(guid="0", rank=3), Work(op=""), "nccl2", 8),
    ]


def test_ends_and_device_error(read: Read, sample: Callable[[str], str]) -> None:
    """Three ranks abort for a time-out; later rank 1 for the error its watchdog met."""
    facts = read(Nccl2Reader, sample(NAME))
    assert [
        (f.speaker.rank, f.reason.partition(" - ")[0])
        for f in facts
        if isinstance(f, ProcessTakenDown)
    ] == [(0, "timeout"), (1, "timeout"), (3, "timeout"), (1, "error")]
    (error,) = [f for f in facts if isinstance(f, WatchdogError)]
    assert error.error == "CUDA error: an illegal memory access was encountered"
    assert (error.group, error.place.line) == (GroupTag(guid="0", rank=1), 64)
    through = [f.through for f in read(CudaReader, sample(NAME)) if isinstance(f, CudaError)]
    assert through == ["python", "watchdog"]


def test_main_thread_repeats_the_time_out(read: Read) -> None:
    """The exception of the same rank is a copy; alone it is a time-out of unknown length."""
    line = "[rank6]:[E304 11:32:33.5 W.cpp:1] [TC][rank=2][name=14] Operation timed out after 90 ms"
    error = (
        "[rank6]: torch.distributed.DistBackendError: Watchdog caught collective operation "
        "timeout: NCCL operation timed out"
    )
    (both,) = read(Nccl2Reader, f"{line}\n{error}")
    assert (both.copies, both.speaker.rank) == (2, 6)
    (alone,) = read(Nccl2Reader, error)
    assert isinstance(alone, CollectiveTimeout)
    assert alone.ran_ms is None


def test_without_communicator_and_leak(read: Read) -> None:
    """``[TC] `` names no group."""
    facts = read(
        Nccl2Reader,
        "[E304 11:32:33.5 P.cpp:1] [TC] Timeout watchdog caught exception: boom\n"
        "[W304 11:32:33.5 P.cpp:1] [TC][rank=0][name=x] P was not finalized before destruction.",
    )
    assert [type(f) for f in facts] == [WatchdogError, ResourceLeak]
    assert isinstance(facts[0], WatchdogError)
    assert (facts[0].error, facts[0].group) == ("boom", GroupTag())
