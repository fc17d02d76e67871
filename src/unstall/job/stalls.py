"""Stalls: what waited in one process group, and who was not there.

A stall gathers every rank's words about one group at the time of a failure: time-outs, what each
had enqueued and completed, who only heard of it. Numbers are compared inside one group only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

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

#: Sequence numbers from which on two groups do not stand at the same one by chance.
_TELLING = 10

#: Stalls of one job that are looked at, those that began first. Each is held against every program
#: and against the others; where hundreds of groups stood still, the first ones tell why.
MOST = 100


class Stall(msgspec.Struct, kw_only=True, dict=True):
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

    @cached_property
    def first(self) -> CollectiveTimeout:
        """The waiter whose time-out stands first in the input."""
        return min(self.waiters.values(), key=lambda fact: fact.place)

    @cached_property
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


class Words(msgspec.Struct):
    """What ranks said of groups besides their time-outs, sorted once for all stalls.

    Attributes:
        statuses: group to its status lines whose rank is known, as ``(rank, status)``.
        heard: rank to its first word that another rank had signalled, with the group's name if it
            is a status line's: in that group it is a status.
    """

    statuses: dict[tuple[str, str] | None, list[tuple[int, GroupStatus]]]
    heard: dict[int, list[Fact]]

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> Words:
        """Sort status lines and dump signals; other facts are passed over."""
        statuses: dict[tuple[str, str] | None, list[tuple[int, GroupStatus]]] = defaultdict(list)
        heard: dict[int, list[Fact]] = {}
        signals: list[tuple[int, Fact]] = []
        for fact in facts:
            if not isinstance(fact, (GroupStatus, DumpSignalObserved)):
                continue
            rank = rank_of(fact, fact.group)
            if rank is None:
                continue
            if isinstance(fact, DumpSignalObserved):
                signals.append((rank, fact))
                continue
            statuses[_key(fact.group)].append((rank, fact))
            if fact.reason == "remote-dump":
                heard.setdefault(rank, []).append(fact)
        for rank, fact in signals:
            heard.setdefault(rank, []).append(fact)
        return cls(statuses, {rank: _distinct(said) for rank, said in heard.items()})


def _distinct(said: Sequence[Fact]) -> list[Fact]:
    """Of each group's words the first: which counts depends only on the group."""
    found: dict[tuple[str, str] | None, Fact] = {}
    for fact in said:
        if isinstance(fact, DumpSignalObserved):
            return [*found.values(), fact]
        found.setdefault(_key(fact.group) if isinstance(fact, GroupStatus) else None, fact)
    return list(found.values())


def find_stalls(facts: Iterable[Fact], spoke: frozenset[int] = frozenset()) -> list[Stall]:
    """Stalls of one program's facts, the one that began first before the others."""
    facts = list(facts)
    words = Words.of(facts)
    stalls = gather(fact for fact in facts if isinstance(fact, CollectiveTimeout))
    for stall in stalls:
        hear(stall, words, spoke)
    return stalls


def gather(timeouts: Iterable[CollectiveTimeout]) -> list[Stall]:
    """Stalls of time-outs alone, the one that began first before the others; at most MOST."""
    stalls = [_stall(tag, members) for tag, members in _by_group(list(timeouts))]
    return sorted(stalls, key=beginning)[:MOST]


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
    # The named group with the very same operation: the status line was cut off for this rank.
    homes: dict[Work, list[CollectiveTimeout]] = {}
    for _, members in groups if unnamed else ():
        for fact in members:
            homes.setdefault(fact.work, members)
    numbers = _Numbers(members for _, members in groups) if unnamed else None
    for fact in unnamed:
        home = homes.get(fact.work)
        if home is None and numbers is not None and (at := numbers.home(fact)) is not None:
            home = groups[at][1]
        if home is not None:
            home.append(fact)
        elif near and (fact.work.seq or 0) - (near[-1].work.seq or 0) <= NEAR:
            near.append(fact)
        else:
            near = [fact]
            groups.append((GroupTag(), near))
    return groups


class _Numbers:
    """Named groups by the number at which they stand, and the ranks that each holds."""

    def __init__(self, groups: Iterable[Sequence[CollectiveTimeout]]) -> None:
        self._at: dict[tuple[int, int | None], set[int]] = {}
        self._ranks: dict[int, set[int | None]] = {}
        for number, members in enumerate(groups):
            self._ranks[number] = {rank_of(one, one.group) for one in members}
            for one in members:
                if one.work.seq is not None and one.work.seq >= _TELLING:
                    key = (one.work.seq, one.work.timeout_ms)
                    self._at.setdefault(key, set()).add(number)

    def home(self, fact: CollectiveTimeout) -> int | None:
        """The one group that stands at a time-out's number, in another operation."""
        rank = rank_of(fact, fact.group)
        at = self._at.get((fact.work.seq or 0, fact.work.timeout_ms), set())
        if len(at) != 1 or rank is None:
            return None
        (number,) = at
        if rank in self._ranks[number]:
            return None
        self._ranks[number].add(rank)
        return number


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


def hear(stall: Stall, words: Words, spoke: frozenset[int]) -> None:
    """Add to a stall what ranks said of its group, and who else ``spoke``."""
    key = _key(stall.tag)
    own: dict[int, GroupStatus] = {}
    for rank, status in words.statuses.get(key, ()):
        known = own.get(rank)
        if (key is not None or rank in stall.waiters) and (
            known is None or known.reason != "failure"
        ):
            own[rank] = status
    others: dict[int, Fact] = {}
    for rank, said in words.heard.items():
        if rank in stall.waiters:
            continue
        for fact in said:
            # in its own group a status is a status; without a name no group is known to be its own
            if key is None or not isinstance(fact, GroupStatus) or _key(fact.group) != key:
                others[rank] = fact
                break
    stall.statuses = own
    stall.heard = others
    waiters = {rank for rank in stall.waiters if rank >= 0}
    stall.spoke = spoke if waiters <= spoke else spoke | waiters


def beginning(stall: Stall) -> tuple[bool, float, int]:
    """What stalls are sorted by."""
    place = stall.first.place
    if stall.began is None:
        return (True, 0.0, place.line)
    return (False, stall.began.stamp.replace(year=1904).timestamp(), place.line)
