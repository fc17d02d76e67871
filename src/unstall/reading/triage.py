"""Offers each line to the readers that can do something with it, and to no others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from unstall.model.facts import Fact, Unreadable
from unstall.model.text import say
from unstall.reading.line import Line, Reader


class Triage:
    """The readers of one source.

    One search per line with all readers' marks tells whether anybody wants it. A reader that fails
    costs its own facts from there on, never those of the others.

    Attributes:
        troubles: failures, each told once.
    """

    def __init__(self, readers: Iterable[type[Reader]], any_mark: re.Pattern[str] | None) -> None:
        self._readers: list[Reader] = [reader() for reader in readers]
        self._search = any_mark.search if any_mark is not None else None
        self._busy: list[Reader] = [reader for reader in self._readers if reader.wants_more]
        self.troubles: list[Unreadable] = []

    def feed(self, line: Line) -> Iterator[Fact]:
        """The facts that a line completes."""
        text = line.text
        if self._search is None or self._search(text) is None:
            if not self._busy:
                return
            wanted = self._busy
        else:
            wanted = [
                reader
                for reader in self._readers
                if reader.wants_more or any(mark in text for mark in reader.marks)
            ]
        for reader in wanted:
            try:
                yield from reader.feed(line)
            except Exception as error:  # a reader's fault must not cost the other readers' facts
                self._fail(reader, line, error)
        self._busy = [reader for reader in self._readers if reader.wants_more]

    def finish(self) -> Iterator[Fact]:
        """The facts that the end of the source completes."""
        for reader in list(self._readers):
            try:
                yield from reader.finish()
            except Exception as error:
                self._fail(reader, None, error)

    def _fail(self, reader: Reader, line: Line | None, error: Exception) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        if line is None:
            return
        reason = say(
            "the reader {reader} failed here ({error}); its facts from here on are missing. "
            "Please report this line",
            reader=type(reader).__name__,
            error=f"{type(error).__name__}: {error}"[:200],
        )
        self.troubles.append(
            Unreadable(
                place=line.place, quote=line.raw, reason=str(reason), text=reason, fatal=False
            )
        )


def any_mark(readers: Iterable[type[Reader]]) -> re.Pattern[str] | None:
    """One pattern that finds any of the readers' marks; ``None`` where they have none.

    Marks with a common beginning share it, so that each place in a line is looked at once.
    """
    marks = sorted({mark for reader in readers for mark in reader.marks if mark})
    # A mark that begins with another one adds nothing.
    kept: list[str] = []
    for mark in marks:
        if not kept or not mark.startswith(kept[-1]):
            kept.append(mark)
    return re.compile(_alternation(kept)) if kept else None


def _alternation(marks: Sequence[str]) -> str:
    """Marks as nested alternatives of their first characters; sorted, none begins another."""
    groups: dict[str, list[str]] = {}
    for mark in marks:
        groups.setdefault(mark[0], []).append(mark)
    parts = []
    for group in groups.values():
        if len(group) == 1:
            parts.append(re.escape(group[0]))
            continue
        shared = 0
        shortest = min(group, key=len)
        while shared < len(shortest) and all(mark[shared] == shortest[shared] for mark in group):
            shared += 1
        rest = [mark[shared:] for mark in group]
        parts.append(re.escape(shortest[:shared]) + f"(?:{_alternation(rest)})")
    return "|".join(parts)
