"""Facts of all sources, without duplicates and within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from unstall.model.facts import Fact, Place, Unreadable, WorkerGroupRestart
from unstall.model.secrets import without_secrets
from unstall.model.text import say

EARLY = 4000
LATE = 4000
"""Facts of one kind that are kept of one source: the first and the last so many."""


class Collector:
    """Takes facts as they come.

    The same words at the same moment by the same speaker are one fact: a log and its copy by
    ``tee`` are often given together, and one log is often pasted twice. Facts without a moment are
    thought equal only where they stand, in the same order, beside a copy that has one. Restarts
    are never copies: every source is divided by its own. Of a kind
    that a source repeats endlessly the first and the last are kept, since a fault shows where it
    began and where it ended. No fact holds a secret: causes quote and cut what facts say.
    """

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._known: dict[bytes, int] = {}
        self._early: dict[type[Fact], int] = {}
        self._late: dict[type[Fact], deque[Fact]] = {}
        self._left_out: dict[type[Fact], int] = {}
        self._begin = 0
        self._copied: int | None = None  # where the original of the fact before stands
        self._encode = msgspec.msgpack.Encoder(enc_hook=repr).encode

    def add(self, facts: Iterable[Fact]) -> None:
        """Facts of the current source."""
        for fact in facts:
            if self._is_copy(fact):
                continue
            kind = type(fact)
            count = self._early.get(kind, 0)
            if count < EARLY:
                self._early[kind] = count + 1
                self._remember(fact)
                self._facts.append(fact)
                continue
            late = self._late.setdefault(kind, deque(maxlen=LATE))
            if len(late) == LATE:
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
            late.append(fact)

    def close(self, source: str) -> list[Unreadable]:
        """The end of a source: what of it was left out."""
        for late in self._late.values():
            self._facts.extend(late)
        self._facts[self._begin :] = sorted(
            self._facts[self._begin :], key=lambda fact: fact.place.line
        )
        # Positions moved by the sorting.
        for position in range(self._begin, len(self._facts)):
            fact = self._facts[position]
            self._remember(fact, position)
            self._facts[position] = without_secrets(fact)
        notes = []
        for kind, count in self._left_out.items():
            reason = say(
                "{count} facts of the kind {kind} between its first {early} and last {late} were "
                "left out",
                count=count, kind=kind.__name__, early=EARLY, late=LATE,
            )  # fmt: skip
            notes.append(
                Unreadable(
                    place=Place(source, 1), quote="", reason=str(reason), text=reason, fatal=False
                )
            )
        self._early.clear()
        self._late.clear()
        self._left_out.clear()
        self._begin = len(self._facts)
        self._copied = None
        return notes

    def all(self) -> list[Fact]:
        """All facts: by source in the order given, by line within each."""
        return self._facts

    def _key(self, fact: Fact) -> bytes:
        nowhere = msgspec.structs.replace(fact, place=_NOWHERE, copies=1)
        return type(fact).__name__.encode() + self._encode(nowhere)

    def _remember(self, fact: Fact, position: int | None = None) -> None:
        if fact.moment is not None:
            self._known[self._key(fact)] = len(self._facts) if position is None else position

    def _is_copy(self, fact: Fact) -> bool:
        if fact.moment is None:
            before, self._copied = self._copied, None
            if before is None or not self._equal(before + 1, fact):
                return False
            position: int | None = before + 1
        else:
            whole = not isinstance(fact, WorkerGroupRestart)
            position = self._known.get(self._key(fact)) if whole else None
            if position is not None:
                self._take_back(position)
        self._copied = position
        if position is None:
            return False
        self._count(position, fact.copies)
        return True

    def _take_back(self, position: int) -> None:
        """Facts without a moment that stand above a copy as above its original are copies too."""
        facts = self._facts
        while (
            len(facts) > max(self._begin, position)
            and facts[-1].moment is None
            and position > 0
            and self._equal(position - 1, facts[-1])
            and len(facts) - 1 > position - 1
        ):
            position -= 1
            self._count(position, facts.pop().copies)

    def _equal(self, position: int, fact: Fact) -> bool:
        if position >= len(self._facts):
            return False
        other = self._facts[position]
        return type(other) is type(fact) and self._key(other) == self._key(fact)

    def _count(self, position: int, copies: int) -> None:
        first = self._facts[position]
        self._facts[position] = msgspec.structs.replace(first, copies=first.copies + copies)


_NOWHERE = Place("", 0)
