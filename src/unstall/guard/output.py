"""What a command prints: carried on to where it would have gone, and kept within bounds."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from pathlib import Path

_PIECE = 1 << 16
#: Lines that may wait to be looked at; a loop that prints is not read line by line.
_WAITING = 5_000
_LONGEST = 1 << 14


class Kept:
    """A log that does not grow without end: its beginning and its latest part.

    Args:
        folder: where its parts lie until :meth:`whole` puts them together.
        head: bytes of the beginning that stay.
        tail: bytes of the latest part; between one and two times as many stay.
    """

    def __init__(self, folder: Path, head: int = 16 << 20, tail: int = 64 << 20) -> None:
        self._paths = [folder / name for name in ("head.part", "older.part", "latest.part")]
        self._head, self._tail = head, tail
        self._file = self._paths[0].open("wb", buffering=0)
        self._size = 0
        self._in_head = True
        self.left_out = 0
        self.error: OSError | None = None

    def add(self, data: bytes) -> None:
        """Keep whole lines."""
        if self.error is not None:
            return
        try:
            if self._size and self._size + len(data) > (
                self._head if self._in_head else self._tail
            ):
                self._turn()
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
            self._size += len(data)
        except OSError as error:  # a full disk ends the log, not the job
            self.error = error

    def _turn(self) -> None:
        self._file.close()
        _, older, latest = self._paths
        if not self._in_head:
            with contextlib.suppress(FileNotFoundError):
                self.left_out += older.stat().st_size
            os.replace(latest, older)
        self._in_head, self._size = False, 0
        self._file = latest.open("wb", buffering=0)

    def whole(self, target: Path) -> None:
        """Put the parts together as they are now; the log can go on."""
        with target.open("wb") as file:
            for number, path in enumerate(self._paths):
                if number == 1 and self.left_out:
                    file.write(b"[unstall: %d bytes are left out here]\n" % self.left_out)
                with contextlib.suppress(FileNotFoundError), path.open("rb") as source:
                    while data := source.read(1 << 20):
                        file.write(data)

    def close(self) -> None:
        """Remove the parts."""
        self._file.close()
        for path in self._paths:
            path.unlink(missing_ok=True)


class Stream:
    """One stream of a command: a pipe whose content goes on to a descriptor and into a log.

    Args:
        target: descriptor that gets all of it, byte by byte; ``None`` for none.
        log: gets it in whole lines.
        lock: of the log, which both streams share.

    Attributes:
        mid_line: what went on last does not end a line.
    """

    def __init__(self, target: int | None, log: Kept, lock: threading.Lock) -> None:
        self._target = target
        self._log = log
        self._lock = lock
        self._rest = b""
        self._lines: deque[bytes] = deque(maxlen=_WAITING)
        self.mid_line = False
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True, name="output")

    def started(self) -> None:
        """The command has been started: its end of the pipe is closed here."""
        os.close(self.write_end)
        self._thread.start()

    def given_up(self) -> None:
        """The command could not be started."""
        os.close(self.write_end)
        os.close(self._read_end)

    def news(self) -> tuple[list[str], str]:
        """The lines since the last call, and the end of the one that is still being written."""
        found: list[str] = []
        while self._lines:
            found.append(self._lines.popleft()[-_LONGEST:].decode("utf-8", "replace"))
        return found, self._rest[-_LONGEST:].decode("utf-8", "replace")

    def settle(self, seconds: float) -> None:
        """Wait for the end of the pipe: all who could write have gone."""
        self._thread.join(seconds)

    def flush(self) -> None:
        """Give the log a line that is not whole yet: a bar only returns the carriage."""
        with self._lock:
            if self._rest:
                self._log.add(self._rest + b"\n")
                self._rest = b""

    def _carry(self) -> None:
        while True:
            try:
                data = os.read(self._read_end, _PIECE)
            except OSError:
                return
            if not data:
                break
            self._pass_on(data)
            self.mid_line = not data.endswith(b"\n")
            *whole, rest = (self._rest + data).split(b"\n")
            if len(rest) > 1 << 20:  # a bar that only returns the carriage, all day
                whole, rest = [*whole, rest], b""
            with self._lock:
                if whole:
                    self._log.add(b"\n".join(whole) + b"\n")
                self._rest = rest
            self._lines.extend(whole)
        os.close(self._read_end)

    def _pass_on(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._target is not None:
            try:
                view = view[os.write(self._target, view) :]
            except BlockingIOError:
                select_writable(self._target)
            except OSError:  # its reader has gone (head, a closed terminal): the job goes on
                self._target = None


def select_writable(descriptor: int) -> None:
    """Wait until a descriptor that does not block takes more."""
    import select

    select.select([], [descriptor], [], 1.0)
