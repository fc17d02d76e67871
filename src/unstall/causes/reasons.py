"""Evidence that several causes share: who waits, who is missing, what was said just before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from unstall.causes.base import FAIR, STRONG, WEAK, evidence, excerpt, ranks_text
from unstall.job import Blocked, Job
from unstall.model.facts import (
    CollectiveTimeout,
    Fact,
    GroupStatus,
    Moment,
    NcclError,
    NcclWarning,
    PeerLost,
    ProcessEnd,
)
from unstall.model.findings import Evidence, Excerpt, Exonerated
from unstall.model.text import Text, say

F = TypeVar("F", bound=Fact)


def operation(fact: CollectiveTimeout) -> Text:
    """``ALLREDUCE 9391 (1 element)``: an operation as a user can find it in the log."""
    work = fact.work
    name = work.op or "collective"
    if work.seq is None:
        return say("{op}", op=name)
    if work.numel_in is None or work.numel_in > 1 << 62:
        return say("{op} {seq}", op=name, seq=work.seq)
    if work.numel_in == 1:
        return say("{op} {seq} (1 element)", op=name, seq=work.seq)
    return say("{op} {seq} ({numel} elements)", op=name, seq=work.seq, numel=work.numel_in)


def waiting(blocked: Blocked) -> Evidence:
    """Who waited, in what, for how long."""
    first = blocked.stall.first
    ranks = [rank for rank in blocked.stall.waiters if rank >= 0]
    if not ranks:
        return evidence(say("a rank waited in {operation}", operation=operation(first)), 0.0, first)
    return evidence(
        say(
            "{ranks} waited in {operation}: messengers, not the origin",
            ranks=ranks_text(ranks),
            operation=operation(first),
        ),
        0.0,
        first,
    )


def absence(blocked: Blocked) -> list[Evidence]:
    """Who was not there: behind by its own status, silent, or only told by others."""
    stall = blocked.stall
    found: list[Evidence] = []
    behind = stall.behind
    for rank, status in list(behind.items())[:4]:
        found.append(
            evidence(
                say(
                    "rank {rank} had not entered it: last enqueued {enqueued}, last completed "
                    "{completed}",
                    rank=rank,
                    enqueued=_number(status.last_enqueued),
                    completed=_number(status.last_completed),
                ),
                STRONG,
                status,
            )
        )
    silent = [rank for rank in blocked.absent if rank not in behind]
    told = [rank for rank in silent if rank in stall.heard]
    if told:
        found.append(
            evidence(
                say(
                    "{ranks} had no time-out there and only heard of the others'",
                    ranks=ranks_text(told),
                ),
                FAIR,
                stall.heard[told[0]],
            )
        )
    quiet = [rank for rank in silent if rank not in stall.heard]
    if quiet and len(quiet) <= max(1, len(stall.waiters)):
        found.append(
            evidence(
                say(
                    "{ranks} is missing from the time-outs of the others: deduced by absence",
                    ranks=ranks_text(quiet),
                )
                if len(quiet) == 1
                else say(
                    "{ranks} are missing from the time-outs of the others: deduced by absence",
                    ranks=ranks_text(quiet),
                ),
                FAIR if blocked.members_certain or any(r in stall.spoke for r in quiet) else WEAK,
                stall.first,
            )
        )
    return found


def missing_ranks(blocked: Blocked) -> tuple[int, ...]:
    """The ranks that the others waited for, as far as can be told."""
    return blocked.absent


def began(job: Job, blocked: Blocked) -> Moment | None:
    """When the wait began, with its year where any line tells it."""
    return job.chronology.with_year(blocked.stall.began)


def began_evidence(job: Job, blocked: Blocked) -> list[Evidence]:
    """That the fault is older than its report, by the time that the operation ran."""
    first = blocked.stall.first
    moment = began(job, blocked)
    if moment is None or first.ran_ms is None:
        return []
    return [
        evidence(
            say(
                "the wait began at {time}, {seconds} s before the watchdog spoke",
                time=moment.iso(),
                seconds=round(first.ran_ms / 1000),
            ),
            0.0,
            first,
        )
    ]


def excerpts_of(blocked: Blocked) -> list[Excerpt]:
    """The lines of a stall: messengers, and the origin's own status."""
    stall = blocked.stall
    found = [excerpt(fact, "messenger") for fact in list(stall.waiters.values())[:8]]
    for rank, status in list(stall.behind.items())[:4]:
        if rank in blocked.absent:
            found.append(excerpt(status, "origin"))
    return found


def last_before(job: Job, kind: type[F], blocked: Blocked) -> list[F]:
    """Facts of a kind that came before the first time-out, the latest first."""
    first = blocked.stall.first
    before = [fact for fact in job.all(kind) if job.chronology.before(fact, first) is not False]
    return sorted(before, key=lambda fact: fact.place, reverse=True)


def died_before(job: Job, blocked: Blocked) -> list[Evidence]:
    """Deaths of ranks before the time-outs: they explain a wait better than lateness does."""
    found: list[Evidence] = []
    for death in job.deaths_before(blocked):
        if death.rank is not None and death.rank in blocked.stall.waiters:
            continue
        if isinstance(death.fact, ProcessEnd):
            continue  # launchers count ends after the time-outs too, without a time of their own
        found.append(
            evidence(
                say(
                    "a process failed by itself before the time-outs: {quote}",
                    quote=death.fact.quote[:160],
                ),
                STRONG,
                death.fact,
            )
        )
        if len(found) == 2:
            break
    return found


def network_trouble(job: Job) -> list[Fact]:
    """Errors of sockets or the fabric anywhere in the job."""
    found: list[Fact] = [w for w in job.all(NcclWarning) if w.topic in ("socket", "ib")]
    found.extend(e for e in job.all(NcclError) if e.result == "ncclRemoteError")
    found.extend(job.all(PeerLost))
    return found


def no_network_trouble(job: Job) -> list[Exonerated]:
    """That the network is not to blame, where nothing in the input complains of it."""
    if network_trouble(job):
        return []
    return [
        Exonerated(
            "network-transport",
            say("no socket, InfiniBand or remote error stands in the input"),
            (),
        )
    ]


def boilerplate(job: Job) -> list[Exonerated]:
    """The dump message's list of possible reasons is the same in every dump."""
    dumps = [s for s in job.all(GroupStatus) if s.reason in ("local-dump", "remote-dump")]
    if not dumps:
        return []
    return [
        Exonerated(
            "size-mismatch",
            say(
                "“wrong sizes”, “order of collectives” and “GIL deadlock” are words that PyTorch "
                "prints with every dump, not findings"
            ),
            (dumps[0].place,),
        )
    ]


def first_quotes(facts: Iterable[Fact], count: int) -> Sequence[Fact]:
    """The first facts by place."""
    return sorted(facts, key=lambda fact: fact.place)[:count]


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
