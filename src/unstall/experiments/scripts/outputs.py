"""What a script's programs print into files: ``nohup torchrun … > train.log 2>&1 &``.

Such a file shows the steps as the script's own output does. It is found by the program that has it
as standard output or error (Linux), so that nothing of the script has to be understood for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from unstall.experiments.logs import Log

#: Files of one run that are followed.
MOST = 32
#: Bytes of a file's end that are kept as evidence.
KEPT = 16 << 20
_APPENDS = 0o2000
#: What writes configurations, not logs.
_WRITERS = frozenset(("cat", "sed", "awk", "jq", "envsubst", "printf"))


class Outputs:
    """The files that a run's programs print into.

    Args:
        besides: files that are followed already.
        named: see :func:`named_in`: a program that ends at once is not seen.
    """

    def __init__(
        self, besides: Iterable[Path] = (), named: Mapping[Path, bool] | None = None
    ) -> None:
        self._known = set(map(_identity, besides))
        self._named = [(path, keeps, _state(path)) for path, keeps in (named or {}).items()]
        self._logs: list[Log] = []
        self._from: dict[Path, int] = {}
        self._only_named: set[Path] = set()
        self._begun = time.monotonic()
        self._next = 0.0

    def due(self) -> bool:
        """Whether it is time to look for new ones: often at first, where programs end quickly."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + (0.2 if now - self._begun < 10 else 2.0)
        return True

    def find(self, pids: Iterable[int]) -> None:
        """Look for files that these processes print into, and for those that were named."""
        for path, keeps, before in self._named:
            now, identity = _state(path), _identity(path)
            if now is not None and now != before and identity not in self._known:
                self._only_named.add(path)
                self._add(path, identity, before[0] if keeps and before is not None else 0)
        for pid in pids:
            for number in (1, 2):
                with contextlib.suppress(OSError, ValueError):
                    self._take(Path(f"/proc/{pid}"), number)

    def _take(self, process: Path, number: int) -> None:
        path = Path(os.readlink(process / "fd" / str(number)))
        identity = _identity(path)
        if identity is None or (process / "comm").read_text().strip() in _WRITERS:
            return
        self._only_named.discard(path)
        if identity in self._known or len(self._logs) >= MOST:
            return
        flags = (process / "fdinfo" / str(number)).read_text(encoding="ascii")
        found = re.search(r"^flags:\s*([0-7]{1,12})", flags, re.MULTILINE)
        # what is appended to may hold the output of a day before
        appends = found is not None and bool(int(found[1], 8) & _APPENDS)
        self._add(path, identity, path.stat().st_size if appends else 0)

    def _add(self, path: Path, identity: tuple[int, int] | None, begin: int) -> None:
        self._known.add(identity)
        self._from[path] = begin
        self._logs.append(Log(path, None, "", begin))

    def follow(self) -> list[tuple[str, list[str], str]]:
        """Of each file its path, its new lines, and the end of the line that is being written.

        Not of those that are only named in the script: they may be configurations.
        """
        return [(str(log.path), log.follow(), log.rest) for log in self._printed()]

    def drain(self) -> list[list[str]]:
        """What is left of all of them, piece by piece."""
        return [piece for log in self._printed() for piece in log.drain()]

    def _printed(self) -> list[Log]:
        return [log for log in self._logs if log.path not in self._only_named]

    def keep(self, folder: Path) -> list[Path]:
        """Copy the end of each into a folder; the copies."""
        made: list[Path] = []
        for log in self._logs:
            target = folder / f"{log.path.stem}.log"
            number = 1
            while target.exists():
                number += 1
                target = folder / f"{log.path.stem}-{number}.log"
            with contextlib.suppress(OSError), log.path.open("rb") as source:
                size = source.seek(0, 2)
                source.seek(max(self._from[log.path], size - KEPT))
                target.write_bytes(source.read(KEPT))
                made.append(target)
        return made


_REDIRECTION = re.compile(r">(>?)\|?[ \t]{0,8}([\w./+@%:,=-]{1,400})", re.ASCII)


def named_in(text: str, folders: Sequence[Path]) -> dict[Path, bool]:
    """Files into which a script's text sends output, and whether it appends to them.

    Only as far as it names them without variables.
    """
    found: dict[Path, bool] = {}
    for appends, word in _REDIRECTION.findall(text):
        if not word.startswith("/dev/"):
            for folder in folders:
                found.setdefault((folder / word).resolve(), bool(appends))
        if len(found) >= MOST:
            break
    return found


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; ``None`` where there is no such file."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return None


def _identity(path: Path) -> tuple[int, int] | None:
    """A regular file's device and number; ``None`` for anything else."""
    with contextlib.suppress(OSError):
        found = path.stat()
        if stat.S_ISREG(found.st_mode):
            return found.st_dev, found.st_ino
    return None
