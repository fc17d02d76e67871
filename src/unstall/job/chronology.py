"""When things happened: facts in order, also where most lines carry no time of their own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from unstall.model.facts import Fact, Moment, Place

_DATE = re.compile(r"(?<!\d)(20\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?([0-2]\d|3[01])(?!\d)", re.ASCII)
_ROTATED = re.compile(r"(.{1,200}?)(?:\.(\d{1,4}))?(?:\.(?:gz|xz|bz2|zst))?", re.ASCII)


def older(one: str, other: str) -> bool | None:
    """Whether one file was written before another, by their names: ``None`` where none tells.

    Names that differ in a date only, or in the number that log rotation appends: ``run.log.2`` is
    older than ``run.log.1``, and that than ``run.log``.
    """
    one, other = _name(one), _name(other)
    first, second = _DATE.search(one), _DATE.search(other)
    if first is not None and second is not None:
        rest = _DATE.sub("", one, count=1), _DATE.sub("", other, count=1)
        if rest[0] == rest[1] and first.groups() != second.groups():
            return first.groups() < second.groups()
        return None
    mine, theirs = _ROTATED.fullmatch(one), _ROTATED.fullmatch(other)
    if mine is None or theirs is None or mine[1] != theirs[1] or mine[2] == theirs[2]:
        return None
    return int(mine[2] or 0) > int(theirs[2] or 0)


def _name(source: str) -> str:
    return source.replace("\\", "/").rpartition("/")[2]


class Chronology:
    """Orders facts of several sources.

    A line without a time takes, approximately, the last time that stood above it in its source;
    logs are written in order, so the true time is not earlier than that.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        stamped: dict[str, list[tuple[int, Moment]]] = defaultdict(list)
        self._year: int | None = None
        for fact in facts:
            if fact.moment is not None:
                stamped[fact.place.source].append((fact.place.line, fact.moment))
                if fact.moment.year_known and self._year is None:
                    self._year = fact.moment.stamp.year
        self._lines: dict[str, list[int]] = {}
        self._moments: dict[str, list[Moment]] = {}
        for source, pairs in stamped.items():
            pairs.sort(key=lambda pair: pair[0])
            self._lines[source] = [line for line, _ in pairs]
            self._moments[source] = [moment for _, moment in pairs]

    def at(self, place: Place) -> Moment | None:
        """The last time told at or above that line of its source; ``None`` where none was."""
        lines = self._lines.get(place.source)
        if not lines:
            return None
        index = bisect_right(lines, place.line) - 1
        return self._moments[place.source][index] if index >= 0 else None

    def moment_of(self, fact: Fact) -> Moment | None:
        """The fact's own time, or the approximate one of its line."""
        return fact.moment or self.at(fact.place)

    def seconds_between(self, earlier: Fact, later: Fact) -> float | None:
        """Seconds from one fact to another; ``None`` where a time is missing."""
        first, second = self.moment_of(earlier), self.moment_of(later)
        if first is None or second is None:
            return None
        return second.seconds_since(first)

    def before(self, one: Fact, other: Fact) -> bool | None:
        """Whether ``one`` came before ``other``; ``None`` where nothing tells."""
        if one.moment is not None and other.moment is not None:
            return other.moment.seconds_since(one.moment) > 0
        if one.place.source == other.place.source:
            return one.place.line < other.place.line
        gap = self.seconds_between(one, other)
        return older(one.place.source, other.place.source) if not gap else gap > 0

    def in_order(self, facts: Sequence[Fact]) -> list[Fact]:
        """Facts by time where all have one, else by place."""
        moments = [self.moment_of(fact) for fact in facts]
        if all(moment is not None for moment in moments):
            first = next((moment for moment in moments if moment is not None), None)
            if first is None:
                return list(facts)
            keyed = [
                ((moment.seconds_since(first) if moment else 0.0), fact.place, fact)
                for moment, fact in zip(moments, facts, strict=True)
            ]
            return [fact for _, _, fact in sorted(keyed, key=lambda key: (key[0], key[1]))]
        return sorted(facts, key=lambda fact: fact.place)

    def with_year(self, moment: Moment | None) -> Moment | None:
        """The moment with the year that other lines of the same input tell, where they do."""
        if moment is None or moment.year_known or self._year is None:
            return moment
        try:
            return Moment(moment.stamp.replace(year=self._year), True, moment.zone)
        except ValueError:  # 29 February in a year that has none: the year is another's
            return moment
