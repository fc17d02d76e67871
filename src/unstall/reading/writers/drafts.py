"""Facts that wait for their copies and neighbours.

One event is printed up to four times (watchdog line, its thread's last words, ``what()``, Ray's
copy), and what belongs together stands on neighbouring lines. A reader therefore holds its facts
back, in order of place, until the source ends or the window is full.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from typing import Any, cast

import msgspec

from unstall.model.facts import Fact, Moment, Speaker
from unstall.reading.line import Line
from unstall.reading.writers.lines import moment_of
from unstall.reading.writers.stamps import Stamp

WINDOW = 4096
"""Facts that one reader holds back at most."""
REMEMBERED = 16384
"""Keys of facts (given away ones too) whose further copies are recognised."""
_ALIKE = 32
"""Facts of one key that are told apart by their speakers, at most."""
_SAME_EVENT_S = 180.0
"""Copies of one event are printed within this time: a dump takes up to 60 s (torch 2.7)."""
_BASE = frozenset({"place", "quote", "speaker", "moment", "copies"})


class Draft:
    """A fact that may still change, and whether it has been given away."""

    __slots__ = ("fact", "note", "released")

    def __init__(self, fact: Fact) -> None:
        self.fact = fact
        self.released = False
        self.note: str = ""

    def change(self, **fields: Any) -> None:
        """Set fields of the fact; without effect once it was given away."""
        if not self.released:
            self.fact = msgspec.structs.replace(self.fact, **fields)

    def copy_seen(self, speaker: Speaker) -> None:
        """Count one more copy and take what it tells more of the speaker."""
        self.change(copies=self.fact.copies + 1, speaker=merged(self.fact.speaker, speaker))


class Drafts:
    """Drafts of one reader in order of place."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._queue: deque[Draft] = deque()
        self._known: OrderedDict[Hashable, deque[Draft]] = OrderedDict()

    def add(self, fact: Fact, key: Hashable = None) -> Draft:
        """A new draft; ``key`` finds it again."""
        draft = Draft(fact)
        self._queue.append(draft)
        if key is not None:
            self.index(draft, key)
        return draft

    def index(self, draft: Draft, key: Hashable) -> None:
        """Let a draft be found by one more key."""
        alike = self._known.get(key)
        if alike is None:
            alike = self._known[key] = deque(maxlen=_ALIKE)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        alike.append(draft)

    def alike(self, key: Hashable, speaker: Speaker, moment: Moment | None = None) -> list[Draft]:
        """Drafts of that key which the same speaker may have said, newest first."""
        found = self._known.get(key)
        if not found:
            return []
        return [
            draft
            for draft in reversed(found)
            if compatible(draft.fact.speaker, speaker) and _near(draft.fact.moment, moment)
        ]

    def say(self, fact: Fact, key: Hashable = None, *, anonymous: bool = False) -> Draft:
        """A new draft, or one more copy of an equal one.

        Lines of nobody in particular are not merged, since several processes may have written
        them; ``anonymous`` merges them all the same.
        """
        key = identity(fact) if key is None else key
        if anonymous or somebody(fact.speaker):
            for draft in self.alike(key, fact.speaker, fact.moment):
                if anonymous or somebody(draft.fact.speaker):
                    draft.copy_seen(fact.speaker)
                    return draft
        return self.add(fact, key)

    def recent(self) -> Iterable[Draft]:
        """Drafts still held, newest first."""
        return reversed(self._queue)

    def overflow(self) -> list[Fact]:
        """Facts that no longer fit into the window."""
        out: list[Fact] = []
        while len(self._queue) > self._window:
            out.append(self._release())
        return out

    def drain(self) -> list[Fact]:
        """All that is left, in order of place."""
        left = [self._release() for _ in range(len(self._queue))]
        return sorted(left, key=lambda fact: fact.place.line)

    def _release(self) -> Fact:
        draft = self._queue.popleft()
        draft.released = True
        return draft.fact


def identity(fact: Fact) -> Hashable:
    """What a fact claims, apart from who said it, when and where."""
    claims: list[Hashable] = [type(fact)]
    for name in fact.__struct_fields__:
        if name not in _BASE:
            value = getattr(fact, name)
            claims.append(
                tuple(sorted(value.items())) if isinstance(value, dict) else cast(Hashable, value)
            )
    return tuple(claims)


def compatible(one: Speaker, other: Speaker) -> bool:
    """Whether nothing told of the two speakers shows that they differ."""
    return all(
        mine is None or theirs is None or mine == theirs
        for mine, theirs in (
            (one.rank, other.rank),
            (one.pid, other.pid),
            (one.local_rank, other.local_rank),
            (one.task, other.task),
            (one.host, other.host),
            (one.name, other.name),
            (one.container, other.container),
        )
    )


def merged(one: Speaker, other: Speaker) -> Speaker:
    """The first speaker, completed by what only the second tells."""
    if one == other:
        return one
    return Speaker(
        *(
            getattr(other, name) if getattr(one, name) is None else getattr(one, name)
            for name in Speaker.__struct_fields__
        )
    )


def channel(speaker: Speaker) -> Hashable:
    """The stream a speaker's lines stand in: its outer prefixes, without the rank.

    Lines that continue a C++ record carry no ``[rankN]:``.
    """
    return (
        speaker.local_rank,
        speaker.task,
        speaker.pid,
        speaker.host,
        speaker.name,
        speaker.container,
    )


def said(line: Line, stamp: Stamp | None = None) -> dict[str, Any]:
    """The base fields of a fact that this line, or one record on it, tells."""
    speaker, moment = line.speaker, line.moment
    if stamp is not None:
        if stamp.rank is not None and stamp.rank != speaker.rank:
            speaker = msgspec.structs.replace(speaker, rank=stamp.rank)
        if stamp.form == "nccl" and speaker.pid is None:
            speaker = msgspec.structs.replace(
                speaker, pid=stamp.pid, host=speaker.host or stamp.host
            )
        if stamp.moment is not None:
            moment = with_year(stamp.moment, line.moment)
    if moment is None:
        moment = moment_of(line)  # the header of a program's own logger
    return {
        "place": line.place,
        "quote": line.raw[:600],
        "speaker": speaker,
        "moment": moment,
    }


def with_year(moment: Moment, other: Moment | None) -> Moment:
    """The moment with the year that another one, told of the same line, makes likely."""
    if moment.year_known or other is None or not other.year_known:
        return moment
    best: Moment | None = None
    for year in (other.stamp.year - 1, other.stamp.year, other.stamp.year + 1):
        try:
            guess = Moment(moment.stamp.replace(year=year), True, moment.zone)
        except ValueError:
            continue
        if best is None or abs(guess.seconds_since(other)) < abs(best.seconds_since(other)):
            best = guess
    return best or moment


def integer(digits: str | None) -> int | None:
    """A number that a pattern found, if it found one."""
    return None if digits is None else int(digits)


def first(pattern: re.Pattern[str], text: str) -> str | None:
    """The first group of a pattern's first occurrence."""
    found = pattern.search(text)
    return found[1] if found else None


def somebody(speaker: Speaker) -> bool:
    """Whether the prefixes tell which process of a job speaks."""
    return not (
        speaker.rank is None
        and speaker.pid is None
        and speaker.local_rank is None
        and speaker.task is None
    )


def _near(one: Moment | None, other: Moment | None) -> bool:
    if one is None or other is None:
        return True
    return abs(one.seconds_since(other)) <= _SAME_EVENT_S
