"""When things happened: facts in order, also where most lines carry no time of their own."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from unstall.model.facts import Fact, Moment, Place


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
        return None if gap is None or gap == 0 else gap > 0

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
