"""Properties of the readers of C++ lines: any values come back, any text is survived."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unstall.model.facts import CollectiveTimeout, Fact, GroupStatus, GroupTag, Place, Speaker, Work
from unstall.reading.line import Line, Reader
from unstall.reading.writers.c10d import C10dReader
from unstall.reading.writers.cuda import CudaReader
from unstall.reading.writers.drafts import WINDOW
from unstall.reading.writers.gloo import GlooReader
from unstall.reading.writers.nccl import NcclReader
from unstall.reading.writers.nccl2 import Nccl2Reader
from unstall.reading.writers.nccl_errors import NcclErrorReader
from unstall.reading.writers.store import StoreReader
from unstall.reading.writers.wrapper import WrapperReader

Read = Callable[[type[Reader], str], list[Fact]]
READERS: tuple[type[Reader], ...] = (
    C10dReader,
    Nccl2Reader,
    WrapperReader,
    GlooReader,
    StoreReader,
    NcclReader,
    NcclErrorReader,
    CudaReader,
)
SAMPLES = sorted((Path(__file__).parent / "samples").rglob("*.log"))
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

numbers = st.integers(0, 10**9)
ranks = st.integers(0, 4095)
operations = st.sampled_from(
    ["ALLREDUCE", "BROADCAST", "_ALLGATHER_BASE", "SEND", "COALESCED", "BARRIER", "ALLTOALL_BASE"]
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:-]{0,20}", fullmatch=True).filter(
    lambda name: name != "undefined"
)
stamps = {
    "2.1": "[E ProcessGroupNCCL.cpp:475] ",
    "2.3": "[rank{rank}]:[E ProcessGroupNCCL.cpp:563] ",
    "2.4": "[rank{rank}]:[E1206 21:12:01.852621435 ProcessGroupNCCL.cpp:607] ",
    "2.5": "[rank{rank}]:[E304 21:12:01.852621435 ProcessGroupNCCL.cpp:616] ",
    "2.13": "[rank{rank}]:[E126 21:12:01.852621435 ProcessGroupNCCL.cpp:764] ",
}
STATUS = {
    "2.3": "[PG {pg} Rank {r}] Timeout at NCCL work: {seq}, last enqueued NCCL work: {a}, last completed NCCL work: {c}.",
    "2.4": "[PG {pg} ({desc}) Rank {r}] Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {a}, last completed NCCL work: {c}.",
    "2.5": "[PG ID {pg} PG GUID {guid}({desc}) Rank {r}] Timeout at NCCL work: {seq}, last enqueued NCCL work: {a}, last completed NCCL work: {c}.",
    "2.13": "[PG ID {pg} PG GUID {guid}({desc}) Rank {r}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {a}, last started work: {b}, last completed work: {c}",
}


@quick
@given(
    st.sampled_from(sorted(stamps)),
    st.tuples(ranks, ranks, numbers, numbers, numbers, numbers, numbers),
    operations,
)
def test_time_out_gives_its_values_back(
    read: Read, version: str, values: tuple[int, int, int, int, int, int, int], op: str
) -> None:
    """Any numbers, the line of any version with element counts."""
    rank, inner, seq, count_in, count_out, limit, ran = values
    text = stamps[version].format(rank=rank) + (
        f"[Rank {inner}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, NumelIn={count_in}, NumelOut={count_out}, Timeout(ms)={limit}) ran for {ran} "
        "milliseconds before timing out."
    )
    (fact,) = read(C10dReader, text)
    assert isinstance(fact, CollectiveTimeout)
    assert fact.work == Work(
        op=op, seq=seq, numel_in=count_in, numel_out=count_out, timeout_ms=limit
    )
    assert (fact.ran_ms, fact.group) == (ran, GroupTag(rank=inner))
    assert fact.speaker.rank == (None if version == "2.1" else rank)


@quick
@given(numbers, st.lists(st.integers(1, 10**9), max_size=6), operations)
def test_shapes_of_1_13_come_back(read: Read, seq: int, shape: list[int], op: str) -> None:
    """A tensor's shape instead of counts; a shape may be empty."""
    (fact,) = read(
        C10dReader,
        "[E ProcessGroupNCCL.cpp:821] [Rank 1] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={op}, TensorShape={shape}, Timeout(ms)=5) ran for 6 milliseconds",
    )
    assert isinstance(fact, CollectiveTimeout)
    assert fact.work == Work(op=op, seq=seq, shape=tuple(shape), timeout_ms=5)


@quick
@given(
    st.sampled_from(sorted(STATUS)),
    st.tuples(ranks, ranks, ranks, numbers),
    st.tuples(*[st.integers(-1, 10**9)] * 4),
    names,
)
def test_status_gives_its_values_back(
    read: Read,
    version: str,
    who: tuple[int, int, int, int],
    counts: tuple[int, int, int, int],
    description: str,
) -> None:
    """Any group and any counters, the line of any version."""
    rank, inner, pg_id, guid = who
    seq, enqueued, started, completed = counts
    text = stamps[version].format(rank=rank) + STATUS[version].format(
        pg=pg_id,
        guid=guid,
        desc=description,
        r=inner,
        seq=seq,
        a=enqueued,
        b=started,
        c=completed,
    )
    (fact,) = read(C10dReader, text)
    assert isinstance(fact, GroupStatus)
    assert fact.group == GroupTag(
        pg_id=pg_id,
        guid=str(guid) if version in ("2.5", "2.13") else None,
        description=None if version == "2.3" else description,
        rank=inner,
    )
    assert (fact.failed, fact.last_enqueued, fact.last_completed) == (seq, enqueued, completed)
    assert fact.last_started == (started if version == "2.13" else None)
    assert fact.speaker.rank == rank


@quick
@given(st.data())
def test_random_splices_of_samples_are_survived(read: Read, data: st.DataObject) -> None:
    """Lines cut anywhere, glued and shuffled: no error, facts in order of place."""
    chosen = data.draw(st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=2))
    lines = [
        line for path in chosen for line in path.read_text(errors="replace").splitlines() if line
    ]
    shuffle = random.Random(data.draw(st.integers(0, 10**6)))  # noqa: S311 - a test's choice
    pieces = []
    for _ in range(40):
        one, two = shuffle.choice(lines), shuffle.choice(lines)
        pieces.append(one[: shuffle.randrange(len(one) + 1)] + two[shuffle.randrange(len(two)) :])
    text = "\n".join(pieces)
    for reader in READERS:
        places = [fact.place.line for fact in read(reader, text)]
        assert places == sorted(places)


@quick
@given(st.text(max_size=400), st.sampled_from(READERS), st.data())
def test_any_text_around_a_mark_is_survived(
    read: Read, text: str, reader: type[Reader], data: st.DataObject
) -> None:
    """The reader is offered whatever holds one of its marks."""
    mark = data.draw(st.sampled_from(reader.marks))
    cut = data.draw(st.integers(0, len(text)))
    facts = read(reader, f"{text[:cut]}{mark}{text[cut:]}")
    assert all(len(fact.quote) <= 600 and fact.copies >= 1 for fact in facts)


def test_window_is_bounded_and_late_copies_make_no_second_fact() -> None:
    """A log longer than the window: facts leave in order; copies that come later are known."""
    reader = C10dReader()
    caught = "[Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=REDUCE, Timeout(ms)=5) ran for 6 milliseconds"
    out: list[Fact] = []

    for number in range(5000):
        out.extend(
            reader.feed(
                Line(Place("log", number + 1), caught.format(n=number), "", Speaker(rank=number))
            )
        )
        assert len(out) == max(0, number + 1 - WINDOW)
    out.extend(reader.feed(Line(Place("log", 5001), caught.format(n=0), "", Speaker(rank=0))))
    out.extend(reader.finish())
    assert [fact.place.line for fact in out] == list(range(1, 5001))


def test_long_hostile_lines_cost_linear_time() -> None:
    """64 KiB of one mark after another: every reader ends (a quadratic pattern would not)."""
    for reader in READERS:
        for mark in reader.marks:
            one = reader()
            text = (mark * (65536 // len(mark) + 1))[:65536]
            facts = [*one.feed(Line(Place("log", 1), text, text[:600])), *one.finish()]
            assert len(facts) < 100
