"""Offers each line to the readers that can do something with it, and to no others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from unstall.model.facts import Fact, Place, Unreadable
from unstall.model.text import say
from unstall.reading.line import Line, Reader


class Marks:
    """All readers' marks, looked for at once.

    A mark that begins with another reader's is looked for by way of the shorter one. No other two
    can stand at one place, so one search after the other finds all that a line holds.

    Args:
        readers: classes of readers; they are known by their position here.
    """

    def __init__(self, readers: Sequence[type[Reader]]) -> None:
        owners: dict[str, list[int]] = {}
        for position, reader in enumerate(readers):
            for mark in reader.marks:
                if mark and position not in owners.setdefault(mark, []):
                    owners[mark].append(position)
        self._longer: dict[str, list[tuple[str, list[int]]]] = {}
        shortest = ""
        for mark in sorted(owners):
            if not shortest or not mark.startswith(shortest):
                shortest = mark
            self._longer.setdefault(shortest, []).append((mark, owners[mark]))
        pattern = _alternation(list(self._longer))
        self._search = re.compile(pattern).search if pattern else None

    def wanted(self, text: str) -> set[int]:
        """Positions of the readers of whose marks one stands in the text."""
        found: set[int] = set()
        search = self._search
        if search is None:
            return found
        match = search(text)
        while match is not None:
            start = match.start()
            for mark, owners in self._longer[match[0]]:
                if text.startswith(mark, start):
                    found.update(owners)
            match = search(text, start + 1)
        return found


class Triage:
    """The readers of one source.

    A reader that fails costs its own facts from there on, never those of the others.

    Attributes:
        troubles: failures, each told once.
    """

    def __init__(self, readers: Iterable[type[Reader]], marks: Marks) -> None:
        self._readers: dict[int, Reader] = {at: make() for at, make in enumerate(readers)}
        self._wanted = marks.wanted
        self._busy = {at for at, reader in self._readers.items() if reader.wants_more}
        self._place = Place("", 1)
        self.troubles: list[Unreadable] = []

    def feed(self, line: Line) -> Iterator[Fact]:
        """The facts that a line completes."""
        self._place = line.place
        wanted = self._wanted(line.text)
        if self._busy:
            wanted |= self._busy
        for at in sorted(wanted) if len(wanted) > 1 else wanted:
            reader = self._readers.get(at)
            if reader is None:
                continue
            try:
                yield from reader.feed(line)
                if reader.wants_more:
                    self._busy.add(at)
                else:
                    self._busy.discard(at)
            except Exception as error:  # a reader's fault must not cost the other readers' facts
                self._fail(at, line, error)

    def finish(self) -> Iterator[Fact]:
        """The facts that the end of the source completes."""
        for at in list(self._readers):
            try:
                yield from self._readers[at].finish()
            except Exception as error:
                self._fail(at, None, error)

    def _fail(self, at: int, line: Line | None, error: Exception) -> None:
        reader = self._readers.pop(at)
        self._busy.discard(at)
        reason = say(
            "the reader {reader} failed here ({error}); its facts from here on are missing. "
            "Please report this line",
            reader=type(reader).__name__,
            error=f"{type(error).__name__}: {error}"[:200],
        )
        self.troubles.append(
            Unreadable(
                place=self._place,
                quote=line.raw if line is not None else "",
                reason=str(reason),
                text=reason,
                fatal=False,
            )
        )


def _alternation(marks: Sequence[str]) -> str:
    """Marks as nested alternatives of their first characters; sorted, none begins another.

    So each place in a line is looked at once, however many marks there are.
    """
    groups: dict[str, list[str]] = {}
    for mark in marks:
        groups.setdefault(mark[0], []).append(mark)
    parts = []
    for group in groups.values():
        if len(group) == 1:
            parts.append(re.escape(group[0]))
            continue
        shortest = min(group, key=len)
        shared = 1
        while shared < len(shortest) and all(mark[shared] == shortest[shared] for mark in group):
            shared += 1
        rest = [mark[shared:] for mark in group]
        parts.append(re.escape(shortest[:shared]) + f"(?:{_alternation(rest)})")
    return "|".join(parts)
