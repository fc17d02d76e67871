"""Offers each line to the readers that can do something with it, and to no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from unstall.model.facts import Fact, Place, Unreadable, WorkerGroupRestart
from unstall.model.text import say
from unstall.reading.line import Line, Reader
from unstall.reading.literals import Literals


class Marks:
    """All readers' marks, looked for at once.

    Args:
        readers: classes of readers; they are known by their position here.
    """

    def __init__(self, readers: Sequence[type[Reader]]) -> None:
        owners: dict[str, list[int]] = {}
        for position, reader in enumerate(readers):
            for mark in reader.marks:
                if mark and position not in owners.setdefault(mark, []):
                    owners[mark].append(position)
        self.words = list(owners)
        self._owners = [frozenset(positions) for positions in owners.values()]
        self._found = Literals(self.words).found

    def wanted(self, text: str) -> set[int]:
        """Positions of the readers of whose marks one stands in the text."""
        owners = self._owners
        return {position for mark in self._found(text) for position in owners[mark]}


class Triage:
    """The readers of one source.

    A reader that fails costs its own facts from there on, never those of the others. Where a
    launcher starts its workers anew, all other readers begin anew: what the next attempt says in
    the same words is no copy.

    Attributes:
        troubles: failures, each told once.
    """

    def __init__(self, readers: Iterable[type[Reader]], marks: Marks) -> None:
        self._makers = tuple(readers)
        self._readers: dict[int, Reader] = {at: make() for at, make in enumerate(self._makers)}
        self._wanted = marks.wanted
        self._busy = {at for at, reader in self._readers.items() if reader.wants_more}
        self._place = Place("", 1)
        self.troubles: list[Unreadable] = []

    @property
    def idle(self) -> bool:
        """Whether a line without any reader's marks says nothing to any reader."""
        return not self._busy

    def feed(self, line: Line) -> Iterator[Fact]:
        """The facts that a line completes."""
        self._place = line.place
        wanted = self._wanted(line.text)
        restarted: int | None = None
        if self._busy:
            wanted |= self._busy
        for at in sorted(wanted) if len(wanted) > 1 else wanted:
            reader = self._readers.get(at)
            if reader is None:
                continue
            try:
                for fact in reader.feed(line):
                    yield fact
                    if isinstance(fact, WorkerGroupRestart):
                        restarted = at
                if reader.wants_more:
                    self._busy.add(at)
                else:
                    self._busy.discard(at)
            except Exception as error:  # a reader's fault must not cost the other readers' facts
                self._fail(at, line, error)
        if restarted is not None:
            yield from self._begin_anew(restarted)

    def _begin_anew(self, launcher: int) -> Iterator[Fact]:
        """The facts that the end of an attempt completes; the launcher's own reader goes on."""
        for at in [at for at in self._readers if at != launcher]:
            yield from self._finish(at)
            if at in self._readers:
                reader = self._readers[at] = self._makers[at]()
                self._busy.discard(at)
                if reader.wants_more:
                    self._busy.add(at)

    def finish(self) -> Iterator[Fact]:
        """The facts that the end of the source completes."""
        for at in list(self._readers):
            yield from self._finish(at)

    def _finish(self, at: int) -> Iterator[Fact]:
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
