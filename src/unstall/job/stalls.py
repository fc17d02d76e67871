"""Stalls: what waited in one process group, and who was not there.

A stall gathers every rank's words about one group at the time of a failure: time-outs, what each
had enqueued and completed, who only heard of it. Numbers are compared inside one group only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from unstall.model.facts import (
    CollectiveTimeout,
    DumpSignalObserved,
    Fact,
    GroupStatus,
    GroupTag,
    Moment,
    Work,
)

#: Without a group's name, time-outs whose sequence numbers are further apart than this belong to
#: different groups: ranks of one group drift by a few operations, not by hundreds.
NEAR = 4


class Stall(msgspec.Struct, kw_only=True):
    """What is known of one group that could not go on.

    Attributes:
        tag: the group as the log names it; ``tag.rank`` has no meaning here.
        waiters: rank to its time-out (the earliest operation of that rank that timed out).
        statuses: rank to what it had enqueued and completed in this group.
        heard: ranks that said that another rank signalled, without a time-out of their own.
        spoke: all ranks that said anything in the same sources.
        began: when the earliest waiter began to wait.
    """

    tag: GroupTag
    waiters: dict[int, CollectiveTimeout]
    statuses: dict[int, GroupStatus] = {}
    heard: dict[int, Fact] = {}
    spoke: frozenset[int] = frozenset()
    began: Moment | None = None

    @property
    def default_group(self) -> bool | None:
        """Whether it is the default group; ``None`` where the log does not name groups."""
        if self.tag.guid is not None:
            return self.tag.guid == "0"
        if self.tag.description is not None:
            return self.tag.description == "default_pg"
        return None if self.tag.pg_id is None else self.tag.pg_id == 0

    @property
    def first(self) -> CollectiveTimeout:
        """The waiter whose time-out stands first in the input."""
        return min(self.waiters.values(), key=lambda fact: fact.place)

    @property
    def work(self) -> Work:
        """The operation most waiters are in (the lowest sequence number on a tie)."""
        counted = Counter(
            (fact.work.seq if fact.work.seq is not None else -1, fact.work.op, fact.work.numel_in)
            for fact in self.waiters.values()
        )
        best = max(counted.values())
        wanted = min(
            (key for key, count in counted.items() if count == best),
            key=lambda key: (key[0], key[1], -1 if key[2] is None else key[2]),
        )
        for fact in sorted(self.waiters.values(), key=lambda one: one.place):
            seq = fact.work.seq if fact.work.seq is not None else -1
            if (seq, fact.work.op, fact.work.numel_in) == wanted:
                return fact.work
        return self.first.work

    @property
    def operations(self) -> dict[tuple[int | None, str, int | None, int | None], list[int]]:
        """(sequence number, operation, elements in, elements out) to the ranks waiting there."""
        found: dict[tuple[int | None, str, int | None, int | None], list[int]] = defaultdict(list)
        for rank in sorted(self.waiters):
            work = self.waiters[rank].work
            found[(work.seq, work.op, work.numel_in, work.numel_out)].append(rank)
        return dict(found)

    @property
    def timeout_ms(self) -> int | None:
        """The time-out that applied."""
        return next(
            (f.work.timeout_ms for f in self.waiters.values() if f.work.timeout_ms is not None),
            None,
        )

    def absent(self, members: tuple[int, ...] | None) -> tuple[int, ...]:
        """Ranks that should have been there and did not time out.

        With the group's ``members`` these are all others; without, only ranks that were seen: they
        heard, gave a status or spoke elsewhere. A rank whose own watchdog names an operation of
        the stall as failed waited too, even if the line of its time-out was lost.
        """
        expected = set(members) if members is not None else set(self.spoke) | set(self.heard)
        return tuple(
            sorted((expected | set(self.statuses)) - set(self.waiters) - self.waited_by_status)
        )

    @property
    def waited_by_status(self) -> set[int]:
        """Ranks without a time-out whose own status line names the operation as failed there."""
        waited = {fact.work.seq for fact in self.waiters.values()} - {None}
        return {
            rank
            for rank, status in self.statuses.items()
            if rank not in self.waiters and status.reason == "failure" and status.failed in waited
        }

    @property
    def behind(self) -> dict[int, GroupStatus]:
        """Ranks whose last enqueued operation in this group precedes the one waited for."""
        seq = self.work.seq
        if seq is None:
            return {}
        return {
            rank: status
            for rank, status in sorted(self.statuses.items())
            if rank not in self.waiters
            and status.last_enqueued is not None
            and status.last_enqueued < seq
        }

    @property
    def is_first_collective(self) -> bool:
        """Whether nothing was ever completed in this group before."""
        if self.work.seq is not None and self.work.seq > 1:
            return False
        completed = [
            s.last_completed for s in self.statuses.values() if s.last_completed is not None
        ]
        if completed:
            return all(number <= 0 for number in completed)
        return self.work.seq in (0, 1)

    @property
    def looks_like_barrier(self) -> bool:
        """A barrier or a one-element operation: ranks that agree on something or wait."""
        work = self.work
        return work.op == "BARRIER" or (work.op == "ALLREDUCE" and work.numel_in == 1)


def rank_of(fact: Fact, tag: GroupTag | None = None) -> int | None:
    """The global rank where the line's prefix gives it, else the rank within the group."""
    if fact.speaker.rank is not None:
        return fact.speaker.rank
    return tag.rank if tag is not None else None


def find_stalls(facts: Iterable[Fact], spoke: frozenset[int] = frozenset()) -> list[Stall]:
    """Stalls of one program's facts, the one that began first before the others."""
    timeouts: list[CollectiveTimeout] = []
    statuses: list[GroupStatus] = []
    heard: list[DumpSignalObserved] = []
    for fact in facts:
        if isinstance(fact, CollectiveTimeout):
            timeouts.append(fact)
        elif isinstance(fact, GroupStatus):
            statuses.append(fact)
        elif isinstance(fact, DumpSignalObserved):
            heard.append(fact)
    stalls = [_stall(tag, members) for tag, members in _by_group(timeouts)]
    for stall in stalls:
        _add_words_of_others(stall, statuses, heard, spoke)
    return sorted(stalls, key=_beginning)


def _key(tag: GroupTag) -> tuple[str, str] | None:
    """What tells one group from another; ``None`` where the log does not name groups."""
    if tag.guid is not None:
        return ("guid", tag.guid)
    if tag.pg_id is not None:
        return ("id", f"{tag.pg_id}/{tag.description or ''}")
    return None


def _by_group(
    timeouts: Sequence[CollectiveTimeout],
) -> list[tuple[GroupTag, list[CollectiveTimeout]]]:
    named: dict[tuple[str, str], list[CollectiveTimeout]] = defaultdict(list)
    unnamed: list[CollectiveTimeout] = []
    for fact in timeouts:
        key = _key(fact.group)
        if key is None:
            unnamed.append(fact)
        else:
            named[key].append(fact)
    groups = [(members[0].group, members) for members in named.values()]
    unnamed.sort(key=lambda fact: (fact.work.seq if fact.work.seq is not None else -1, fact.place))
    near: list[CollectiveTimeout] = []
    for fact in unnamed:
        home = _home(fact, groups)
        if home is not None:
            home.append(fact)
        elif near and (fact.work.seq or 0) - (near[-1].work.seq or 0) <= NEAR:
            near.append(fact)
        else:
            near = [fact]
            groups.append((GroupTag(), near))
    return groups


def _home(
    fact: CollectiveTimeout, groups: Sequence[tuple[GroupTag, list[CollectiveTimeout]]]
) -> list[CollectiveTimeout] | None:
    """The named group with the very same operation: its status line was cut off for this rank."""
    for tag, members in groups:
        if _key(tag) is not None and any(other.work == fact.work for other in members):
            return members
    return None


def _stall(tag: GroupTag, members: Sequence[CollectiveTimeout]) -> Stall:
    waiters: dict[int, CollectiveTimeout] = {}
    unranked = -1
    for fact in members:
        rank = rank_of(fact, fact.group)
        if rank is None:
            rank, unranked = unranked, unranked - 1
        known = waiters.get(rank)
        if known is None or (fact.work.seq or 0) < (known.work.seq or 0):
            waiters[rank] = fact
    began: Moment | None = None
    for fact in members:
        if fact.moment is None:
            continue
        start = fact.moment.earlier(fact.ran_ms or fact.work.timeout_ms or 0)
        if began is None or start.seconds_since(began) < 0:
            began = start
    shown = GroupTag(tag.pg_id, tag.guid, tag.description)
    return Stall(tag=shown, waiters=waiters, began=began)


def _add_words_of_others(
    stall: Stall,
    statuses: Sequence[GroupStatus],
    heard: Sequence[DumpSignalObserved],
    spoke: frozenset[int],
) -> None:
    key = _key(stall.tag)
    own: dict[int, GroupStatus] = {}
    others: dict[int, Fact] = {}
    for status in statuses:
        rank = rank_of(status, status.group)
        if rank is None:
            continue
        if _key(status.group) == key and (key is not None or rank in stall.waiters):
            if rank not in own or own[rank].reason != "failure":
                own[rank] = status
        elif rank not in stall.waiters and status.reason == "remote-dump":
            others.setdefault(rank, status)
    for signal in heard:
        rank = rank_of(signal, signal.group)
        if rank is not None and rank not in stall.waiters:
            others.setdefault(rank, signal)
    stall.statuses = own
    stall.heard = others
    stall.spoke = spoke | frozenset(rank for rank in stall.waiters if rank >= 0)


def _beginning(stall: Stall) -> tuple[bool, float, int]:
    place = stall.first.place
    if stall.began is None:
        return (True, 0.0, place.line)
    return (False, stall.began.stamp.replace(year=1904).timestamp(), place.line)
