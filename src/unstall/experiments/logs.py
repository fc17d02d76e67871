"""The logs of a run while it runs: followed, merged as a launcher does, searched for progress."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

#: Most that is read at once of one log, so that a chatty program cannot hold up the watching.
CHUNK = 1 << 20


class Log:
    """One process's (or server's) growing log file.

    Attributes:
        path: where its process writes.
        merged: file that gets its whole lines, each after ``prefix``.
        lines: whole lines so far.
    """

    def __init__(self, path: Path, merged: Path | None, prefix: str, begin: int = 0) -> None:
        self.path = path
        self.merged = merged
        self.prefix = prefix
        self.lines = 0
        self._offset = begin
        self._rest = b""

    @property
    def rest(self) -> str:
        """The end of a line that is not whole yet: a bar that only returns the carriage."""
        return self._rest[-4096:].decode("utf-8", "replace")

    @property
    def read(self) -> int:
        """Bytes read so far."""
        return self._offset

    def follow(self) -> list[str]:
        """The new whole lines."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(CHUNK)
        except FileNotFoundError:
            return []
        if not data:
            return []
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > CHUNK:  # a bar that only returns the carriage
            whole, self._rest = [*whole, self._rest], b""
        found = [line.decode("utf-8", "replace") for line in whole]
        self.lines += len(found)
        self._write(found)
        return found

    def drain(self) -> Iterator[list[str]]:
        """What is left, piece by piece, the last line without its end as well.

        No more than there is at the call: something may go on writing faster than it is read.
        """
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        while self._offset < size:
            before = self._offset
            more = self.follow()
            if self._offset == before:
                break
            if more:
                yield more
        if self._rest:
            last = [self._rest.decode("utf-8", "replace")]
            self._rest = b""
            self._write(last)
            yield last

    def copy(self) -> None:
        """Put what is left into the merged file as it is: nobody waits for its lines.

        A million short lines take seconds to look at. Without a prefix only.
        """
        if self.merged is None or self.prefix or not self.path.exists():
            return
        with self.path.open("rb") as source, self.merged.open("ab") as target:
            target.write(self._rest)
            self._rest = b""
            source.seek(self._offset)
            left = self.path.stat().st_size - self._offset
            while left > 0 and (data := source.read(min(CHUNK, left))):
                target.write(data)
                self._offset += len(data)
                left -= len(data)

    def finish(self) -> list[str]:
        """What is left in one."""
        return [line for piece in self.drain() for line in piece]

    def _write(self, lines: list[str]) -> None:
        if self.merged is None or not lines:
            return
        with self.merged.open("a", encoding="utf-8") as file:
            file.writelines(f"{self.prefix}{line}\n" for line in lines)


class Watch:
    """When a program last made progress, and how far it came.

    Attributes:
        step: highest step seen.
        since: monotonic time of the last progress, first of the start.
    """

    def __init__(self, pattern: str | None) -> None:
        self._pattern = re.compile(pattern) if pattern else None
        self.step = 0
        self.since = time.monotonic()

    def look(self, lines: list[str]) -> bool:
        """Take new lines in; every line is progress, those that match tell the step."""
        if not lines:
            return False
        self.since = time.monotonic()
        if self._pattern is not None:
            for line in lines:
                found = self._pattern.search(line[:4096])
                number = found.groupdict().get("step") if found is not None else None
                if number and number.isdigit():
                    self.step = max(self.step, int(number[:12]))
        return True

    @property
    def idle(self) -> float:
        """Seconds since the last progress."""
        return time.monotonic() - self.since
