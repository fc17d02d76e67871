"""Watchdog lines of every PyTorch version, from samples in the exact wording of each."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from unstall.model.facts import (
    CollectiveTimeout,
    DesyncReport,
    DumpSignalObserved,
    Fact,
    FailedStack,
    GroupCreated,
    GroupStatus,
    GroupTag,
    Moment,
    PeerLost,
    ProcessTakenDown,
    RecorderFile,
    ResourceLeak,
    WarningLine,
    WatchdogError,
    WatchdogStuck,
    Work,
)
from unstall.reading.line import Reader
from unstall.reading.writers.c10d import C10dReader

Read = Callable[[type[Reader], str], list[Fact]]
Sample = Callable[[str], str]

# Every sample: 4 ranks; rank 2 never joins ALLREDUCE 1201, ranks 0, 1 and 3 time out; later rank 1
# meets an illegal memory access. Version: (form of the group, copies of a time-out, copies of a
# status, kind of FailedStack, whether dump signals follow, lines of the time-outs, line of the
# watchdog's CUDA error).
_EARLY = (2, 3, 4)
VERSIONS = {
    "1.13.1": ("rank", 2, 0, None, False, _EARLY, None),
    "2.0.1": ("rank", 2, 0, None, False, _EARLY, None),
    "2.1.2": ("rank", 3, 0, None, False, _EARLY, 126),
    "2.2.2": ("rank", 3, 0, None, False, _EARLY, 126),
    "2.3.1": ("PG", 3, 1, None, False, (2, 4, 6), 129),
    "2.4.1": ("PG desc", 3, 2, None, False, (2, 5, 8), 132),
    "2.5.1": ("GUID", 3, 2, None, False, (2, 5, 8), 132),
    "2.6.0": ("GUID", 3, 1, "none", False, (2, 5, 8), 132),
    "2.7.1": ("GUID", 3, 1, "none", True, (2, 6, 10), 147),
    "2.8.0": ("GUID", 3, 1, "none", True, (2, 6, 10), 144),
    "2.9.1": ("GUID", 3, 1, "none", True, (2, 6, 10), 145),
    "2.10.0": ("GUID", 3, 1, "none", True, (2, 6, 10), 145),
    "2.11.0": ("GUID", 3, 1, "frames", True, (2, 12, 22), 163),
    "2.12.1": ("GUID", 3, 1, "frames", True, (2, 12, 22), 163),
    "2.13.0": ("GUID", 3, 1, "frames", True, (2, 12, 22), 163),
    "2.14.1": ("GUID", 3, 1, "frames", True, (2, 12, 22), 163),
    "2.15.0-legacy": ("GUID", 3, 1, "frames", True, (2, 12, 22), 163),
}
RAN = {0: 600031, 1: 600044, 3: 600087}
ENQUEUED = {0: 1203, 1: 1203, 3: 1202}
STARTED_SINCE = {"2.13.0", "2.14.1", "2.15.0-legacy"}


def of(kind: type[Fact], facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, kind)]


def tag(form: str, rank: int) -> GroupTag:
    return {
        "rank": GroupTag(rank=rank),
        "PG": GroupTag(pg_id=0, rank=rank),
        "PG desc": GroupTag(pg_id=0, description="default_pg", rank=rank),
        "GUID": GroupTag(pg_id=0, guid="0", description="default_pg", rank=rank),
    }[form]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_rank_times_out_once(read: Read, sample: Sample, version: str) -> None:
    """Watchdog line, last words and what() are one fact with copies, its group from beside it."""
    form, copies, _, _, _, lines, _ = VERSIONS[version]
    facts = of(CollectiveTimeout, read(C10dReader, sample(f"torch-{version}.log")))
    shaped = version in ("1.13.1", "2.0.1")
    work = Work(
        op="ALLREDUCE",
        seq=1201,
        numel_in=None if shaped else 4194304,
        numel_out=None if shaped else 4194304,
        shape=(4194304,) if shaped else None,
        timeout_ms=600000,
    )
    # Up to 2.1 no line tells the global rank.
    ranked = version not in ("1.13.1", "2.0.1", "2.1.2")
    assert [
        (f.work, f.ran_ms, f.group, f.speaker.rank, f.copies, f.place.line, f.backend)
        for f in facts
        if isinstance(f, CollectiveTimeout)
    ] == [
        (work, RAN[rank], tag(form, rank), rank if ranked else None, copies, line, "nccl")
        for rank, line in zip(RAN, lines, strict=True)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_status_of_each_rank(read: Read, sample: Sample, version: str) -> None:
    """Status lines since 2.3 (two of one text in 2.4 and 2.5), dump signals since 2.7."""
    form, _, copies, _, dumps, _, _ = VERSIONS[version]
    facts = read(C10dReader, sample(f"torch-{version}.log"))
    started = 1201 if version in STARTED_SINCE else None
    failures = [
        (rank, tag(form, rank), 1201, ENQUEUED[rank], started, 1200, "failure", None, copies)
        for rank in RAN
        if copies
    ]
    signals = [
        (2, tag(form, 2), None, 1200, None, 1200, "remote-dump", 0, 1),
        *(
            (rank, tag(form, rank), None, ENQUEUED[rank], None, 1200, "local-dump", None, 1)
            for rank in RAN
        ),
    ]
    assert [
        (
            f.speaker.rank,
            f.group,
            f.failed,
            f.last_enqueued,
            f.last_started,
            f.last_completed,
            f.reason,
            f.from_rank,
            f.copies,
        )
        for f in of(GroupStatus, facts)
        if isinstance(f, GroupStatus)
    ] == failures + (signals if dumps else [])
    assert [f.speaker.rank for f in of(DumpSignalObserved, facts)] == ([2] if dumps else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_stack_of_the_failed_collective(read: Read, sample: Sample, version: str) -> None:
    """Absent before 2.6, not found up to 2.10, printed since 2.11."""
    kind = VERSIONS[version][3]
    facts = read(C10dReader, sample(f"torch-{version}.log"))
    stacks = [f for f in facts if isinstance(f, FailedStack)]
    assert [f.speaker.rank for f in stacks] == ([0, 1, 3] if kind else [])
    # Only 2.7 says that it gave up waiting for the dumps.
    assert [f.state for f in facts if isinstance(f, RecorderFile)] == (
        ["disabled"] * 3 if kind == "none" else []
    ) + (["failed"] * 3 if version == "2.7.1" else [])
    for stack in stacks:
        names = [(name, line) for name, _, line in stack.frames]
        assert [name for name, _ in names] == (
            ["all_reduce", "wrapper", "train_step", "main", "<module>"] if kind == "frames" else []
        )
        if kind == "frames":
            assert stack.frames[2] == ("train_step", "/workspace/train.py", 212)


@pytest.mark.parametrize("version", VERSIONS)
def test_watchdog_of_rank_1_is_the_messenger_of_the_device_error(
    read: Read, sample: Sample, version: str
) -> None:
    """Its last words and what() are one fact; the frames are names without arguments."""
    form, _, _, _, _, _, line = VERSIONS[version]
    facts = [
        f for f in read(C10dReader, sample(f"torch-{version}.log")) if isinstance(f, WatchdogError)
    ]
    if line is None:
        assert facts == []
        return
    (error,) = facts
    assert error.error == "CUDA error: an illegal memory access was encountered"
    assert (error.place.line, error.copies, error.group) == (line, 2, tag(form, 1))
    assert error.raised_from == "c10_cuda_check_implementation"
    assert error.frames[:5] == (
        "c10::Error::Error",
        "c10::detail::torchCheckFail",
        "c10::cuda::c10_cuda_check_implementation",
        "c10d::ProcessGroupNCCL::WorkNCCL::finishedGPUExecutionInternal",
        "c10d::ProcessGroupNCCL::WorkNCCL::isCompleted",
    )
    minor = int(version.split(".")[1])
    rest = {
        range(1, 3): ("workCleanupLoop", "ncclCommWatchdog"),
        range(3, 8): ("watchdogHandler", "ncclCommWatchdog"),
        range(8, 16): ("Watchdog::runLoop", "Watchdog::run"),
    }
    (names,) = (names for minors, names in rest.items() if minor in minors)
    assert error.frames[5:] == tuple(f"c10d::ProcessGroupNCCL::{name}" for name in names)


@pytest.mark.parametrize("version", VERSIONS)
def test_three_processes_take_themselves_down(read: Read, sample: Sample, version: str) -> None:
    """One fact for each process, also where nothing tells the processes apart."""
    facts = read(C10dReader, sample(f"torch-{version}.log"))
    down = [f for f in facts if isinstance(f, ProcessTakenDown)]
    ranked = version not in ("1.13.1", "2.0.1", "2.1.2")
    assert [f.speaker.rank for f in down] == ([0, 1, 3] if ranked else [None] * 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_facts_come_in_order_of_place(read: Read, sample: Sample, version: str) -> None:
    """However long a fact waited for its copies."""
    places = [f.place.line for f in read(C10dReader, sample(f"torch-{version}.log"))]
    assert places == sorted(places)
    assert places


WORK = "WorkNCCL(SeqNum=7, OpType=BROADCAST, NumelIn=3, NumelOut=3, Timeout(ms)=900)"
CAUGHT = f"[Rank 4] Watchdog caught collective operation timeout: {WORK} ran for 912 milliseconds"


def test_moment_is_the_watchdogs(read: Read) -> None:
    """The report's time, with microseconds, without a year."""
    (fact,) = read(C10dReader, f"[rank4]:[E102 03:04:05.000006789 X.cpp:1] {CAUGHT} before.")
    assert fact.moment == Moment(datetime(1904, 1, 2, 3, 4, 5, 6), False)


def test_other_spellings_of_one_time_out_are_copies(read: Read) -> None:
    """what(), Ray's copy, Markdown quotes and JSON, pasted from anywhere."""
    words = f"[PG ID 3 PG GUID 9(tp) Rank 4] Process group watchdog thread terminated with exception: {CAUGHT} before timing out."
    text = "\n".join(
        (
            f"  what():  {words}",
            f"[2024-04-16 00:03:25,080 E 7046 7269] logging.cc:108: Unhandled exception: N3c10. what(): {words}",
            f"**{words}**",
            '{"log": "' + words + '\\n", "stream": "stderr"}',
        )
    )
    (fact,) = read(C10dReader, text)
    assert isinstance(fact, CollectiveTimeout)
    assert (fact.copies, fact.work.seq, fact.ran_ms) == (4, 7, 912)
    assert fact.group == GroupTag(pg_id=3, guid="9", description="tp", rank=4)


def test_prose_that_quotes_the_message_is_no_time_out(read: Read) -> None:
    """Without the operation it is talk."""
    assert read(C10dReader, "I get Watchdog caught collective operation timeout after 2 h") == []


def test_advice_of_the_dump_message_is_no_mismatch(read: Read, sample: Sample) -> None:
    """``wrong sizes``, ``GIL deadlock`` are printed always and mean nothing."""
    from unstall.model.facts import CollectiveMismatch
    from unstall.reading.writers import READERS

    text = "\n".join(
        line for line in sample("torch-2.14.1.log").splitlines() if "wrong sizes" in line
    )
    facts = [fact for reader in READERS for fact in read(reader, text)]
    assert [type(f) for f in facts] == [GroupStatus] * 4
    assert not of(CollectiveMismatch, facts)


def test_two_groups_of_one_rank_keep_their_own_tags(read: Read) -> None:
    """Both time out at one number; each last word tells which is which."""
    other = CAUGHT.replace("BROADCAST", "REDUCE")
    tags = ("[PG ID 1 PG GUID 5(dp) Rank 4]", "[PG ID 2 PG GUID 8(tp) Rank 4]")
    last = "Process group watchdog thread terminated with exception:"
    stamp = "[rank9]:[E102 03:04:05.1 X.cpp:1] "
    failure = " failure detected by watchdog at work sequence id: 7 PG status: last enqueued work: 7, last completed work: 6"
    text = "\n".join(
        stamp + words
        for words in (
            CAUGHT,
            other,
            tags[1] + failure,
            tags[0] + failure,
            f"{tags[0]} {last} {CAUGHT}",
            f"{tags[1]} {last} {other}",
        )
    )
    facts = [f for f in read(C10dReader, text) if isinstance(f, CollectiveTimeout)]
    assert [(f.work.op, f.group.description, f.copies) for f in facts] == [
        ("BROADCAST", "dp", 2),
        ("REDUCE", "tp", 2),
    ]


def test_status_before_its_time_out_still_tells_the_group(read: Read) -> None:
    """Threads of one process may print in either order."""
    stamp = "[rank9]:[E102 03:04:05.1 X.cpp:1] "
    status = "[PG 6 Rank 4] Timeout at NCCL work: 7, last enqueued NCCL work: 8, last completed NCCL work: -1."
    facts = read(C10dReader, f"{stamp}{status}\n{stamp}{CAUGHT}")
    assert isinstance(facts[1], CollectiveTimeout)
    assert facts[1].group == GroupTag(pg_id=6, rank=4)
    assert isinstance(facts[0], GroupStatus)
    assert facts[0].last_completed == -1


def test_a_second_attempt_is_another_time_out(read: Read) -> None:
    """The same text ten minutes later is not a copy."""
    text = "\n".join(f"[rank4]:[E102 03:{m}:05.1 X.cpp:1] {CAUGHT} before." for m in ("04", "14"))
    assert [f.copies for f in read(C10dReader, text)] == [1, 1]


def test_dump_signals_of_2_3_and_2_4(read: Read) -> None:
    """Wordings between the first dumps and today's."""
    end = "and will start to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 4."
    text = "\n".join(
        (
            f"[rank0]:[E X.cpp:1] [PG 0 Rank 0] Received a timeout signal from this local rank {end}",
            f"[rank1]:[E X.cpp:1] [PG 0 Rank 1] Received a global timeout from another rank {end}",
            f"[rank2]:[E304 11:32:33.1 X.cpp:1] [PG 0 (default_pg) Rank 2] Received a dump signal from this local rank {end}",
            f"[rank3]:[E304 11:32:33.1 X.cpp:1] [PG 0 (default_pg) Rank 3] Received a global dump signal from rank 2, {end}",
        )
    )
    assert [
        (f.speaker.rank, f.reason, f.from_rank, f.last_enqueued, f.last_completed)
        for f in read(C10dReader, text)
        if isinstance(f, GroupStatus)
    ] == [
        (0, "local-dump", None, 5, 4),
        (1, "remote-dump", None, 5, 4),
        (2, "local-dump", None, 5, 4),
        (3, "remote-dump", 2, 5, 4),
    ]


def test_stuck_watchdog(read: Read) -> None:
    """Seconds where told; the fatal line that follows is another fact."""
    text = (
        "[rank3]:[E304 11:32:33.1 X.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
        "collectives. This typically indicates a NCCL/CUDA API hang\n"
        "[rank3]:[F304 11:33:33.1 X.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 3] [PG ID 0 PG GUID 0"
        "(default_pg) Rank 3] Terminating the process after attempting to dump debug info, due to "
        "ProcessGroupNCCL watchdog hang."
    )
    stuck, down = read(C10dReader, text)
    assert isinstance(stuck, WatchdogStuck)
    assert (stuck.seconds, stuck.group.pg_id) == (480, 0)
    assert isinstance(down, ProcessTakenDown)
    assert down.reason == "ProcessGroupNCCL watchdog hang"


def test_frames_that_a_tracker_rewrote(read: Read) -> None:
    """``#1`` became a link; template arguments lost their angle brackets."""
    text = (
        "[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 2 Rank 1] Process group watchdog thread terminated "
        "with exception: CUDA error: misaligned address\n"
        "Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:43 (most recent call first):\n"
        " frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in /a/libc10.so)\n"
        " frame  [#1](https://github.com/o/r/pull/1) : c10d::ProcessGroupNCCL::watchdogHandler() + 0x77c (0x7f in /a/b.so)\n"
        " frame  [#2](https://github.com/o/r/pull/2) : + 0xdbbf4 (0x7f in /a/c.so)\n"
    )
    (fact,) = read(C10dReader, text)
    assert isinstance(fact, WatchdogError)
    assert fact.group == GroupTag(pg_id=2, rank=1)
    assert fact.frames == ("c10::Error::Error", "c10d::ProcessGroupNCCL::watchdogHandler")


def test_frames_stay_with_their_stream(read: Read) -> None:
    """Two ranks behind torchrun's tee prefix write in turn."""
    words = (
        "Process group watchdog thread terminated with exception: CUDA error: hardware stack error"
    )
    text = (
        f"[default0]:[rank8]:[E X.cpp:1] [PG 0 Rank 8] {words}\n"
        f"[default1]:[rank9]:[E X.cpp:1] [PG 0 Rank 9] {words}\n"
        "[default0]:frame #0: a::b() + 0x1 (0x2 in x.so)\n"
        "[default1]:frame #0: c::d() + 0x1 (0x2 in x.so)\n"
    )
    assert [
        (f.speaker.rank, f.frames) for f in read(C10dReader, text) if isinstance(f, WatchdogError)
    ] == [
        (8, ("a::b",)),
        (9, ("c::d",)),
    ]


def test_desync_report(read: Read) -> None:
    """Its lines reduced to who lags and who is where."""
    text = (
        "[rank0]:[E X.cpp:1] [Rank 0] desync report:\n"
        "\t - [0] Timeout at collective: ALLREDUCE, #12\n"
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
        "\t   - [2, 3] finished collective #11, but didn't join collective #12 (count from 1)\n"
        "\t   - [1] joined but didn't finish collective #12 (count from 1)\n"
        "\t - Snapshot of ranks' latest states:\n"
        "\t   #12 started ranks:\n"
        "\t     [0] started ALLREDUCE\n"
        "\t   #11 finished ranks:\n"
        "\t     [2,3] finished BROADCAST\n"
    )
    (report,) = read(C10dReader, text)
    assert isinstance(report, DesyncReport)
    assert report.lagging == (2, 3)
    assert report.states == (
        (0, "started", "ALLREDUCE", 12),
        (2, "finished", "BROADCAST", 11),
        (3, "finished", "BROADCAST", 11),
    )


def test_recorder_files_and_end_of_process(read: Read) -> None:
    """Where dumps went, and the warnings that are no causes."""
    text = "\n".join(
        (
            "[rank0]:[E304 11:32:33.1 X.cpp:1] Finished writing Flight Recorder debug info to /out/t_0",
            "[rank1]:[E304 11:32:33.1 X.cpp:1] Error opening file for writing NCCLPG debug info: /ro/t_1",
            "[rank1]:[W304 11:32:34.1 X.cpp:1] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
            "[rank1]:[W304 11:32:34.1 X.cpp:1] [PG ID 0 PG GUID 0 Rank 1]  using GPU 5 as device used by this process is currently unknown.",
            "[rank2]:[W304 11:32:34.1 X.cpp:1] Guessing device ID based on global rank.",
        )
    )
    assert [
        (f.state, f.path) if isinstance(f, RecorderFile) else type(f)
        for f in read(C10dReader, text)
    ] == [
        ("written", "/out/t_0"),
        ("failed", "/ro/t_1"),
        ResourceLeak,
        WarningLine,
        WarningLine,
    ]


def test_group_creation_and_remote_error(read: Read) -> None:
    """INFO lines give size, time-out and name."""
    text = (
        "[I304 11:32:33.1 X.cpp:1] [PG ID 0 PG GUID 0 Rank 2] ProcessGroupNCCL initialization options: "
        "size: 8, global rank: 2, TIMEOUT(ms): 1800000, USE_HIGH_PRIORITY_STREAM: 0, PG Name: 0\n"
        "[rank2]:[E304 11:32:33.1 X.cpp:1] [PG ID 0 PG GUID 0 Rank 2] remote error detected from rank: 5"
    )
    made, lost = read(C10dReader, text)
    assert isinstance(made, GroupCreated)
    assert (made.size, made.timeout_ms, made.name, made.speaker.rank) == (8, 1800000, "0", 2)
    assert isinstance(lost, PeerLost)
    assert (lost.peer, lost.remote_error) == ("5", True)


def test_name_of_a_cut_line_is_not_believed(read: Read) -> None:
    """``ALLREDU`` is no operation."""
    (fact,) = read(C10dReader, CAUGHT[: CAUGHT.index("BROADCAST") + 5])
    assert isinstance(fact, CollectiveTimeout)
    assert fact.work == Work(op="", seq=7)


def test_a_log_that_ends_within_the_watchdogs_last_words(read: Read) -> None:
    text = (
        "[rank4]:[E0111 06:12:44.310011200 ProcessGroupNCCL.cpp:1895] [PG ID 2 PG GUID 5 Rank 4] "
        "Process group watchdog thread terminated with exc"
    )
    (fact,) = read(C10dReader, text)
    assert isinstance(fact, WatchdogError)
    assert (fact.error, fact.group.pg_id, fact.group.rank) == ("(cut off)", 2, 4)
