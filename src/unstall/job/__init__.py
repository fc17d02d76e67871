"""The job: programs, their ranks and groups, and every fact with the program that said it.

:func:`build` makes it from facts and a launch plan. Causes ask it; it knows no cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from unstall.job.chronology import Chronology
from unstall.job.deaths import Death, death_of
from unstall.job.owners import Owners, implied_programs
from unstall.job.stalls import MOST, Stall, Words, beginning, gather, hear
from unstall.model.facts import (
    CollectiveTimeout,
    DumpSignalObserved,
    Fact,
    GroupStatus,
    GroupTag,
    NcclError,
    NcclInit,
    PackageVersion,
    ProcessEnd,
    StoreFailure,
    Work,
)
from unstall.model.plan import Plan, Program
from unstall.programs.identify import Match, identify

F = TypeVar("F", bound=Fact)

#: A group's fingerprint names a program by itself only from this fit on (a logarithm of odds).
SURE_FIT = 3.0

#: Ranks that a program or group may have to be counted one by one; what claims more is a typing
#: error or no number of ranks.
MOST_RANKS = 65_536

#: Stalls that are held against every group which a program may have made. Others have the reading
#: of the first with their tag, if one was looked up.
IDENTIFIED = 16

__all__ = ["Blocked", "Death", "Job", "Stall", "build"]


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A stall with the program and group it belongs to.

    Attributes:
        stall: what the log says of the group.
        matches: which groups of which programs it may be, the best first.
        program: the program it belongs to, where that is known.
        members: the group's global ranks, where known.
        absent: ranks that should have been there and were not.
        members_certain: the members are known from the launch plan, a communicator or a layout,
            rather than from the ranks that happened to speak.
    """

    stall: Stall
    matches: tuple[Match, ...]
    program: Program | None
    members: tuple[int, ...] | None
    absent: tuple[int, ...]
    members_certain: bool

    @property
    def best(self) -> Match | None:
        """The most likely group."""
        return self.matches[0] if self.matches else None

    @property
    def everyone_waits(self) -> bool:
        """Whether all ranks of a group of known size are in the operation."""
        return self.members_certain and not self.absent


class Job(msgspec.Struct):
    """All that is known of one attempt of one job."""

    facts: tuple[Fact, ...]
    plan: Plan
    programs: tuple[Program, ...]
    owners: Owners
    chronology: Chronology
    blocked: tuple[Blocked, ...]
    deaths: tuple[Death, ...]
    versions: dict[str, str]
    by_type: dict[type[Fact], list[Fact]]

    def all(self, kind: type[F]) -> list[F]:
        """Facts of one type, by place."""
        return self.by_type.get(kind, [])  # type: ignore[return-value]

    def first(self, kind: type[F]) -> F | None:
        """The first fact of a type."""
        found = self.all(kind)
        return found[0] if found else None

    def owner(self, fact: Fact) -> Program | None:
        """The program that said it."""
        return self.owners.owner(fact)

    def of_role(self, *roles: str) -> list[Program]:
        """Programs with one of these roles."""
        return [program for program in self.programs if program.role in roles]

    @property
    def trainer(self) -> Program | None:
        """The one trainer, if there is exactly one."""
        found = self.of_role("trainer")
        return found[0] if len(found) == 1 else None

    @property
    def lead(self) -> Blocked | None:
        """The stall that began first."""
        return self.blocked[0] if self.blocked else None

    def deaths_before(self, blocked: Blocked) -> list[Death]:
        """Deaths that came before the first time-out of a stall, or at a time not told above it."""
        first = blocked.stall.first
        return [d for d in self.deaths if self.chronology.before(d.fact, first) is not False]

    def ranks_of(self, program: Program | None) -> frozenset[int]:
        """Ranks that a program is known to have, by its size or by having spoken."""
        if (
            program is not None
            and program.processes is not None
            and program.processes <= MOST_RANKS
        ):
            return frozenset(range(program.processes))
        return _spoken(self.facts)


def _spoken(facts: Iterable[Fact]) -> frozenset[int]:
    ranks = {fact.speaker.rank for fact in facts if fact.speaker.rank is not None}
    for fact in facts:
        if isinstance(fact, ProcessEnd) and fact.rank is not None:
            ranks.add(fact.rank)
        elif (
            isinstance(fact, (CollectiveTimeout, GroupStatus))
            and fact.group.rank is not None
            and fact.speaker.rank is None
        ):
            ranks.add(fact.group.rank)
    return frozenset(ranks)


def build(facts: Sequence[Fact], plan: Plan) -> Job:
    """A job from the facts of one attempt and the launch plan."""
    ordered = _without_titles(sorted(facts, key=lambda fact: fact.place))
    versions = dict(plan.versions)
    by_type: dict[type[Fact], list[Fact]] = defaultdict(list)
    for fact in ordered:
        by_type[type(fact)].append(fact)
        if isinstance(fact, PackageVersion):
            versions.setdefault(fact.name.lower().replace("_", "-"), fact.version)
    programs = implied_programs(ordered, plan)
    owners = Owners.of(ordered, programs)
    chronology = Chronology(ordered)
    job = Job(
        facts=tuple(ordered),
        plan=plan,
        programs=programs,
        owners=owners,
        chronology=chronology,
        blocked=(),
        deaths=tuple(death for death in map(death_of, ordered) if death is not None),
        versions=versions,
        by_type=dict(by_type),
    )
    job.blocked = tuple(_blocked(job))
    _name_programs(job)
    return job


def _without_titles(facts: list[Fact]) -> list[Fact]:
    """Facts without those of a report's title that a log below it tells in full."""
    logs: set[tuple[type[Fact], str]] = set()
    titles: list[Fact] = []
    for fact in facts:
        if not isinstance(fact, (NcclError, StoreFailure)):
            continue
        if fact.quote.startswith("# "):
            titles.append(fact)
        else:
            logs.add((type(fact), fact.place.source))
    repeated = {id(one) for one in titles if (type(one), one.place.source) in logs}
    return [fact for fact in facts if id(fact) not in repeated] if repeated else facts


def _name_programs(job: Job) -> None:
    """Programs that only a group's fingerprint shows: neither script nor log names them."""
    if job.programs:
        return
    named: list[Blocked] = []
    programs: dict[str, Program] = {}
    for blocked in job.blocked:
        best = blocked.best
        if best is not None and best.group is not None and best.fit >= SURE_FIT:
            serves = best.framework in ("vllm", "sglang")
            role, label = ("inference", "inference server") if serves else ("trainer", "trainer")
            program = programs.setdefault(
                label, Program(label=label, role=role, software=best.framework)
            )
            named.append(msgspec.structs.replace(blocked, program=program))
        else:
            named.append(blocked)
    job.blocked = tuple(named)
    job.programs = tuple(programs.values())


def _blocked(job: Job) -> Iterable[Blocked]:
    """Stalls, each with its program and group, the one that began first before the others.

    Time-outs of different programs are kept apart before they are compared: by the program that
    said them where that is known, and by their time-out, which is one for each group.
    """
    divided: dict[tuple[str | None, int | None], list[CollectiveTimeout]] = defaultdict(list)
    words: list[Fact] = []
    for fact in job.facts:
        if isinstance(fact, CollectiveTimeout):
            owner = job.owner(fact) if len(job.programs) > 1 else None
            divided[(owner.label if owner else None, fact.work.timeout_ms)].append(fact)
        elif isinstance(fact, (GroupStatus, DumpSignalObserved)):
            words.append(fact)
    stalls: list[tuple[Stall, str | None, list[CollectiveTimeout]]] = []
    for (label, _), members in divided.items():
        stalls.extend((stall, label, members) for stall in gather(members))
    stalls.sort(key=lambda one: beginning(one[0]))
    said, others = Words.of(words), _spoken(words)
    read: dict[tuple[GroupTag, str | None], tuple[Match, ...]] = {}
    for index, (stall, label, members) in enumerate(stalls[:MOST]):
        spoke = _spoken(members)
        hear(stall, said, others if spoke <= others else spoke | others)
        if index < IDENTIFIED:
            matches = _readings(job, stall, label)
            read.setdefault((stall.tag, label), matches)
        else:
            matches = read.get((stall.tag, label), ())
        yield _place(job, stall, label, matches)


def _readings(job: Job, stall: Stall, label: str | None) -> tuple[Match, ...]:
    candidates = [p for p in job.programs if label is None or p.label == label]
    return tuple(
        identify(
            stall.tag,
            stall.work,
            candidates,
            job.versions,
            ranks_seen=stall.spoke,
            statuses=job.all(GroupStatus),
        )
    )


def _place(job: Job, stall: Stall, label: str | None, matches: tuple[Match, ...]) -> Blocked:
    program = next((p for p in job.programs if p.label == label), None)
    if len(job.programs) == 1 and job.owner(stall.first) is None:
        matches = ()  # told in a file of its own: another program's
    elif program is None and matches:
        program = next((p for p in job.programs if p.label == matches[0].program), None)
    if program is None and len(job.programs) == 1:
        program = job.owner(stall.first)
    members, certain = _members(job, stall, program, matches)
    return Blocked(
        stall=stall,
        matches=matches,
        program=program,
        members=members,
        absent=stall.absent(members),
        members_certain=certain,
    )


def _size_by_elements(work: Work) -> int | None:
    """The group's size, which a gather's or a scatter's numbers of elements tell."""
    small, large = work.numel_in, work.numel_out
    if "SCATTER" in work.op:
        small, large = large, small
    elif "GATHER" not in work.op:
        return None
    if not small or not large or large % small or not 2 <= large // small <= MOST_RANKS:
        return None
    return large // small


def _members(
    job: Job, stall: Stall, program: Program | None, matches: Sequence[Match]
) -> tuple[tuple[int, ...] | None, bool]:
    """The group's ranks, and whether they are known rather than those that happened to speak."""
    waiting = {rank for rank in stall.waiters if rank >= 0}
    highest = max(waiting, default=-1)
    group = matches[0].group if matches else None
    if group is not None and group.ranks and waiting <= set(group.ranks) and not matches[0].guessed:
        return tuple(group.ranks), True
    if stall.default_group is False:
        return None, False
    processes = program.processes if program is not None else None
    if processes is not None and highest < processes <= MOST_RANKS:
        return tuple(range(processes)), True
    told = _size_by_elements(stall.work)
    if told is not None and highest < told:
        return tuple(range(told)), False
    sizes = {init.size for init in job.all(NcclInit) if init.size is not None}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is not None and highest < size <= MOST_RANKS:
        return tuple(range(size)), True
    ended = [end.rank for end in job.all(ProcessEnd) if end.rank is not None]
    if ended and max(*ended, highest) < MOST_RANKS:
        return tuple(range(max(*ended, highest) + 1)), False
    heard = waiting | set(stall.heard) | set(stall.statuses)
    last = max(heard, default=-1)
    if 1 <= last < MOST_RANKS and len(waiting) * 2 > last and len(heard) <= last:
        # ranks are counted from 0: where most are heard, a gap among them is a rank too
        return tuple(range(last + 1)), False
    return None, False
