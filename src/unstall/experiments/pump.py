"""What a script prints, from a pipe into a file that does not grow without end."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import threading
import time
from pathlib import Path

_PIECE = 1 << 16


class Pump:
    """Carries a pipe's content into a file, in a thread, until all writers have gone.

    A file alone would do, were it not for programs that print in a loop: they write gigabytes a
    second, most of all while somebody else is busy looking at their stacks. Beyond ``most`` bytes
    everything is read and thrown away, so that nothing is blocked and no disk is filled.

    Attributes:
        write_end: for the process that prints; :meth:`started` closes it here.
        full: whether more came than the file takes.
    """

    def __init__(self, target: Path, most: int) -> None:
        self._file = target.open("wb", buffering=0)
        self._most = most
        self._written = 0
        self._busy = False
        self._error: OSError | None = None
        self.full = False
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True, name="pump")

    def started(self) -> None:
        """The process that prints has been started."""
        os.close(self.write_end)
        self._thread.start()

    def check(self) -> None:
        """Whether the file takes what comes.

        Raises:
            OSError: it does not; the disk is full, say.
        """
        if self._error is not None:
            raise self._error

    def settle(self, seconds: float = 10.0) -> None:
        """Wait until what has been printed so far is in the file."""
        end = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < end:
            if not self._waiting() and not self._busy:
                return
            time.sleep(0.01)

    def close(self) -> None:
        """Wait for the end of the pipe, whose writers have been stopped, and close the file."""
        if self._thread.ident is None:
            os.close(self.write_end)
            os.close(self._read_end)
        else:
            self._thread.join(10.0)
            if not self._thread.is_alive():
                os.close(self._read_end)
        self._file.close()

    def _waiting(self) -> bool:
        answer = fcntl.ioctl(self._read_end, termios.FIONREAD, b"\0" * 4)
        return bool(struct.unpack("i", answer)[0])

    def _carry(self) -> None:
        ready = select.poll()
        ready.register(self._read_end, select.POLLIN)
        while True:
            ready.poll()
            self._busy = True  # before anything is taken out of the pipe: see settle
            data = os.read(self._read_end, _PIECE)
            if not data:
                self._busy = False
                return
            self._keep(data)
            self._busy = False

    def _keep(self, data: bytes) -> None:
        if self._written + len(data) > self._most:
            self.full = True
            return
        try:
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._error = error
            self._most = 0
        self._written += len(data)
