"""Short spellings of facts for tests."""

from __future__ import annotations

from datetime import datetime

from unstall.model.facts import (
    CollectiveTimeout,
    DumpSignalObserved,
    GroupStatus,
    GroupTag,
    Moment,
    Place,
    Speaker,
    Work,
)


def place(line: int, source: str = "run.log") -> Place:
    return Place(source, line)


def moment(clock: str, year: int = 1904) -> Moment:
    """``hh:mm:ss`` on 6 December; without a year unless one is given."""
    stamp = datetime.fromisoformat(f"{year}-12-06T{clock}")
    return Moment(stamp, year_known=year != 1904)


def timeout(
    rank: int,
    seq: int,
    line: int = 1,
    *,
    op: str = "ALLREDUCE",
    numel: int = 1,
    tag: GroupTag | None = None,
    at: Moment | None = None,
    ran_ms: int = 600_010,
    timeout_ms: int = 600_000,
    source: str = "run.log",
    globally: bool = True,
) -> CollectiveTimeout:
    """A rank's watchdog line; ``globally=False`` as PyTorch before 2.2 prints it."""
    tag = tag or GroupTag()
    return CollectiveTimeout(
        place=place(line, source),
        quote=f"[Rank {rank}] Watchdog caught collective operation timeout",
        speaker=Speaker(rank=rank) if globally else Speaker(),
        moment=at,
        work=Work(op, seq, numel, numel, None, timeout_ms),
        ran_ms=ran_ms,
        group=GroupTag(tag.pg_id, tag.guid, tag.description, rank),
    )


def status(
    rank: int,
    enqueued: int,
    completed: int,
    line: int = 1,
    *,
    tag: GroupTag,
    reason: str = "failure",
) -> GroupStatus:
    return GroupStatus(
        place=place(line),
        quote=f"last enqueued work: {enqueued}",
        speaker=Speaker(rank=rank),
        group=GroupTag(tag.pg_id, tag.guid, tag.description, rank),
        last_enqueued=enqueued,
        last_completed=completed,
        reason=reason,
    )


def heard(rank: int, line: int = 1) -> DumpSignalObserved:
    return DumpSignalObserved(
        place=place(line), quote="Observed", speaker=Speaker(rank=rank), group=GroupTag(0, "0")
    )
