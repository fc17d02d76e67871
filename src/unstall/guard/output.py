"""What a command prints: carried on to where it would have gone, and kept within bounds."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

_PIECE = 1 << 16
#: Of what waits to be looked at the latest lines, and bytes: a flood is not read line by line.
_LINES, _WAITING = 2_000, 1 << 18
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
        at: when that was, as monotonic time.
    """

    def __init__(self, target: int | None, log: Kept, lock: threading.Lock) -> None:
        self._target = target
        self._log = log
        self._lock = lock
        #: Of what is heard; not that of the log, which a file server may hold up.
        self._own = threading.Lock()
        self._rest = b""
        self._blocks: deque[bytes] = deque()
        self._waiting = 0
        self._since: float | None = None
        self.mid_line = False
        self.at = 0.0
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
        """The latest lines since the last call, and the end of the one still being written."""
        with self._own:
            blocks, rest = list(self._blocks), self._rest
            self._blocks.clear()
            self._waiting = 0
        lines = b"".join(blocks)[-_WAITING:].split(b"\n")[:-1][-_LINES:]
        found = [line[-_LONGEST:].decode("utf-8", "replace") for line in lines]
        return found, rest[-_LONGEST:].decode("utf-8", "replace")

    @property
    def target_file(self) -> tuple[int, int] | None:
        """Which file it goes to; ``None``: to none."""
        if self._target is not None:
            with contextlib.suppress(OSError):
                about = os.fstat(self._target)
                return about.st_dev, about.st_ino
        return None

    @property
    def blocked(self) -> float:
        """Seconds since the reader of the output last took something, while it does not."""
        since = self._since
        return time.monotonic() - since if since is not None else 0.0

    def settle(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Wait for the end of the pipe: all who could write have gone.

        Args:
            seconds: for the end to come, counted from what came last; a reader that takes its time
                is given more.
            enough: whether it is given no more.
        """
        begun = time.monotonic()
        while self._thread.is_alive():
            self._thread.join(0.05)
            over = time.monotonic() - max(begun, self.at) > seconds and self._since is None
            if over or (time.monotonic() - begun > seconds and enough()):
                break

    def flush(self) -> None:
        """Give the log a line that is not whole yet: a bar only returns the carriage."""
        with self._own:
            rest, self._rest = self._rest, b""
        if rest:
            with self._lock:
                self._log.add(rest + b"\n")

    def _carry(self) -> None:
        while True:
            try:
                data = os.read(self._read_end, _PIECE)
            except OSError:
                return
            if not data:
                break
            self._hear(data)
            self._pass_on(data)
            self.mid_line, self.at = not data.endswith(b"\n"), time.monotonic()
        os.close(self._read_end)

    def _hear(self, data: bytes) -> None:
        with self._own:
            if b"\n" in data:
                whole, _, rest = (self._rest + data).rpartition(b"\n")
                whole += b"\n"
            else:
                whole, rest = b"", self._rest + data
            if len(rest) > 1 << 20:  # a bar that only returns the carriage, all day
                whole, rest = whole + rest + b"\n", b""
            self._rest = rest
            if not whole:
                return
            self._blocks.append(whole)
            self._waiting += len(whole)
            while self._waiting - len(self._blocks[0]) >= _WAITING:
                self._waiting -= len(self._blocks.popleft())
        with self._lock:
            self._log.add(whole)

    def _pass_on(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._target is not None:
            self._since = time.monotonic()
            try:
                view = view[os.write(self._target, view) :]
            except BlockingIOError:
                select_writable(self._target)
            except OSError:  # its reader has gone (head, a closed terminal): the job goes on
                self._target = None
        self._since = None


def mid_line(out: Stream, error: Stream) -> bool:
    """Whether what came last where the second goes does not end a line: a bar, a prompt."""
    last = error
    if out.target_file is not None and out.target_file == error.target_file:
        last = max(out, error, key=lambda one: one.at)  # a terminal, or 2>&1
    return last.mid_line


def select_writable(descriptor: int) -> None:
    """Wait until a descriptor that does not block takes more."""
    import select

    select.select([], [descriptor], [], 1.0)
