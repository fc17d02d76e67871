"""What the user named, opened: files, folders, patterns, archives, compressed files, a pipe."""

from __future__ import annotations

import difflib
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from unstall.model.facts import Place, Unreadable
from unstall.model.text import Text, say
from unstall.reading.archives import Spoilt, is_tar, is_zip, tar_members, zip_members
from unstall.reading.kinds import NOT_ARCHIVES, Kind, ending, named_like_dump, recognise
from unstall.reading.streams import (
    BLOCK,
    Budget,
    Counted,
    Guarded,
    Limits,
    Partial,
    Peeked,
    Stream,
    Unpacked,
    compression,
    explain,
)

HEAD = 256 * 1024  # what is looked at to tell what a source is and how its lines are prefixed
_NO_FOLLOW = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".mypy_cache"})
_PACKED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".z")


class Source:
    """One readable thing. It must be read before the next one is asked for.

    Attributes:
        name: as the user knows it; ``archive.tgz!inner/rank0.log`` for a member.
        kind: what it is: ``text``, ``script``, ``config``, ``code``, ``recorder``, ``binary``.
        head: its first bytes, at most :data:`HEAD`.
        size: its bytes where known (unpacked).
        path: the file, where it is one by itself.
    """

    def __init__(
        self, name: str, stream: Stream, *, size: int | None = None, path: str | None = None
    ) -> None:
        self.name = name
        self.size = size
        self.path = path
        self._guard = stream if isinstance(stream, Guarded) else Guarded(stream)
        self._stream = Peeked(self._guard)
        self.head = self._stream.peek(HEAD)
        self.kind: Kind = recognise(_unpacked_name(name), self.head)

    @property
    def trouble(self) -> Text | None:
        """Why reading ended early, if it did."""
        return self._guard.trouble

    def read_bytes(self, limit: int) -> bytes:
        """The first ``limit`` bytes, kept for whoever reads the source next."""
        return self._stream.peek(limit)

    def chunks(self, size: int = BLOCK * 4) -> Iterator[bytes]:
        """The whole of it, some bytes at a time; once."""
        while data := self._stream.read(size):
            yield data


def open_sources(
    paths: Iterable[str | Path],
    stdin: BinaryIO | None = None,
    limits: Limits | None = None,
) -> Iterator[Source | Unreadable]:
    """Everything readable behind the paths, in the order given, and what could not be read.

    Args:
        paths: files; folders (searched through, sorted); patterns that the shell did not expand;
            ``-`` for standard input; archives and compressed files, told by their bytes.
        stdin: what ``-`` reads instead of the process's own standard input.
        limits: bounds.

    Nothing is raised for what a path holds: a missing, empty, unreadable, damaged or hostile file
    is one :class:`~unstall.model.facts.Unreadable`. Links are followed, loops are not.
    """
    return _Opener(stdin, limits or Limits()).all(list(paths))


def unreadable(name: str, reason: Text, *, fatal: bool = True) -> Unreadable:
    """The fact that a source, or (not ``fatal``) the rest of it, could not be read."""
    return Unreadable(place=Place(name, 1), quote="", reason=str(reason), text=reason, fatal=fatal)


class _Opener:
    def __init__(self, stdin: BinaryIO | None, limits: Limits) -> None:
        self.stdin = stdin
        self.limits = limits
        self.seen: set[tuple[int, int]] = set()
        self.files = 0
        self.stopped = False

    def all(self, paths: Sequence[str | Path]) -> Iterator[Source | Unreadable]:
        for path in paths:
            name = str(path)
            if name == "-":
                yield from self._pipe(name, self.stdin or sys.stdin.buffer)
            elif "\0" in name:
                yield unreadable(name.replace("\0", "?"), say("no path can have this name"))
            else:
                yield from self._path(name, direct=True)

    def _path(self, name: str, *, direct: bool) -> Iterator[Source | Unreadable]:
        try:
            status = os.stat(name)
        except FileNotFoundError:
            yield from self._missing(name)
            return
        except (OSError, ValueError) as error:
            yield unreadable(name, explain(error))
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(name, status)
        elif stat.S_ISREG(status.st_mode):
            if (status.st_dev, status.st_ino) in self.seen:
                return
            self.seen.add((status.st_dev, status.st_ino))
            yield from self._file(name, status.st_size, direct=direct)
        elif name.startswith(("/dev/fd/", "/proc/self/fd/")) or name == "/dev/stdin":
            # A shell's <(command) is one of these: it is open already, so it cannot block.
            try:
                with open(name, "rb") as file:
                    yield from self._pipe(name, file)
            except OSError as error:
                yield unreadable(name, explain(error))
        elif direct:
            yield unreadable(
                name,
                say(
                    "it is a device, a socket or a named pipe, not a file; pipe its text in "
                    "instead: cat {name} | unstall diagnose -",
                    name=name,
                ),
            )

    def _missing(self, name: str) -> Iterator[Source | Unreadable]:
        if glob.has_magic(name):
            found = sorted(glob.glob(name, recursive=True))
            for one in found:
                yield from self._path(one, direct=False)
            if not found:
                yield unreadable(name, say("no file matches this pattern"))
            return
        near = [] if os.path.islink(name) else _near(name)
        if near:
            yield unreadable(
                name, say("there is no such file; did you mean {names}?", names=", ".join(near))
            )
        elif os.path.islink(name):
            yield unreadable(name, say("it is a link to a file that does not exist"))
        else:
            yield unreadable(name, say("there is no such file"))

    def _folder(self, top: str, status: os.stat_result) -> Iterator[Source | Unreadable]:
        skipped: list[str] = []
        found = 0
        for item in self._walk(top, status):
            if isinstance(item, Unreadable):
                yield item
                continue
            for one in self._path(item, direct=False):
                if isinstance(one, Source) and one.kind == "binary":
                    skipped.append(one.name)
                    continue
                found += isinstance(one, Source)
                yield one
        if skipped:
            yield unreadable(top, _skipped(skipped), fatal=not found)
        elif not found and not self.stopped:
            yield unreadable(top, say("the folder holds nothing that can be read"))

    def _walk(self, top: str, status: os.stat_result) -> Iterator[str | Unreadable]:
        """Files of a folder and the folders in it, sorted; each folder once, so links may loop."""
        visited = {(status.st_dev, status.st_ino)}
        waiting = [top]
        while waiting:
            here = waiting.pop()
            try:
                entries = sorted(os.scandir(here), key=lambda entry: entry.name)
            except OSError as error:
                yield unreadable(here, explain(error))
                continue
            folders = []
            for entry in entries:
                try:
                    if not entry.is_dir():
                        yield entry.path
                        continue
                    inner = entry.stat()
                except OSError as error:
                    yield unreadable(entry.path, explain(error))
                    continue
                key = (inner.st_dev, inner.st_ino)
                if key not in visited and entry.name not in _NO_FOLLOW:
                    visited.add(key)
                    folders.append(entry.path)
            waiting.extend(reversed(folders))

    def _file(self, name: str, size: int, *, direct: bool) -> Iterator[Source | Unreadable]:
        if size == 0 and not named_like_dump(name):
            if direct or ending(name) not in (".py", ".lock"):
                yield unreadable(name, say("the file is empty"))
            return
        try:
            file = open(name, "rb")  # noqa: SIM115 - closed below, whatever happens
        except OSError as error:
            yield unreadable(name, explain(error))
            return
        with file:
            budget = Budget(self.limits)
            layer = _Layer(name, name, depth=0.0, size=size, path=name)
            for one in self._layer(Counted(file, budget), layer, budget, file):
                if direct and isinstance(one, Source) and one.kind == "binary":
                    yield unreadable(name, _not_text(name))
                else:
                    yield one

    def _pipe(self, name: str, file: BinaryIO) -> Iterator[Source | Unreadable]:
        budget = Budget(self.limits)
        layer = _Layer(name, name, depth=0.0, size=None, path=None)
        stream = Counted(Partial(file), budget)
        for one in self._layer(stream, layer, budget, None):
            if isinstance(one, Source) and one.kind == "binary":
                yield unreadable(name, _not_text(""))
            else:
                yield one

    def _layer(
        self, raw: Stream, layer: _Layer, budget: Budget, seekable: BinaryIO | None
    ) -> Iterator[Source | Unreadable]:
        """One file or member: itself, or what is packed in it."""
        if self.files >= self.limits.files:
            if not self.stopped:
                self.stopped = True
                yield unreadable(
                    layer.name,
                    say("{count} files were read and the rest left out; give fewer of them",
                        count=self.limits.files),
                    fatal=False,
                )  # fmt: skip
            return
        guard = Guarded(raw)
        stream = Peeked(guard)
        head = stream.peek(512)
        packing = compression(head)
        if ending(layer.inner) in NOT_ARCHIVES:
            packing = None
        tar = is_tar(head)
        archive = tar or (is_zip(head) and ending(layer.inner) not in NOT_ARCHIVES)
        if (packing or archive) and layer.depth + (1 if archive else 0.5) > self.limits.depth:
            yield unreadable(layer.name, say("it is packed in too many layers; unpack it first"))
        elif packing is not None:
            inner = _Layer(
                layer.name, _unpacked_name(layer.inner), depth=layer.depth + 0.5,
                size=None, path=None,
            )  # fmt: skip
            yield from self._layer(Unpacked(stream, *packing, budget), inner, budget, None)
            if guard.trouble is not None:
                yield unreadable(layer.name, guard.trouble, fatal=guard.total == 0)
        elif archive:
            yield from self._archive(guard, stream, layer, budget, seekable, tar=tar)
        else:
            self.files += 1
            source = Source(layer.name, stream, size=layer.size, path=layer.path)
            if source.size is None and len(source.head) < HEAD:
                source.size = len(source.head)
            trouble = source.trouble or guard.trouble
            if source.head or source.kind == "recorder":
                yield source
            elif trouble is None and layer.depth < 1:  # empty members are of no interest
                pipe = layer.path is None and not layer.depth
                yield unreadable(
                    layer.name, say("nothing was given") if pipe else say("the file is empty")
                )
            trouble = source.trouble or guard.trouble
            if trouble is not None:
                yield unreadable(layer.name, trouble, fatal=not source.head)

    def _archive(
        self,
        guard: Guarded,
        stream: Peeked,
        layer: _Layer,
        budget: Budget,
        seekable: BinaryIO | None,
        *,
        tar: bool,
    ) -> Iterator[Source | Unreadable]:
        if not tar and seekable is not None:
            seekable.seek(0)
            budget.taken = layer.size or 0  # its parts are read in no order
        members = tar_members(stream) if tar else zip_members(stream, seekable, budget)
        skipped: list[str] = []
        count = found = 0
        spoilt: Text | None = None
        for member in members:
            if isinstance(member, Spoilt):
                if member.name:
                    yield unreadable(f"{layer.name}!{member.name}", member.reason)
                else:
                    spoilt = member.reason
                continue
            count += 1
            if count > self.limits.members:
                yield unreadable(
                    layer.name,
                    say("its first {count} members were read and the rest left out",
                        count=self.limits.members),
                    fatal=False,
                )  # fmt: skip
                break
            inner = _Layer(
                f"{layer.name}!{member.name}", member.name, depth=layer.depth + 1,
                size=member.size, path=None,
            )  # fmt: skip
            for one in self._layer(member.stream, inner, budget, None):
                if isinstance(one, Source) and one.kind == "binary":
                    skipped.append(one.name)
                    continue
                found += isinstance(one, Source)
                yield one
        spoilt = guard.trouble or spoilt  # why its bytes ended tells more than that they did
        if spoilt is not None:
            yield unreadable(layer.name, spoilt, fatal=not found)
        if skipped:
            yield unreadable(layer.name, _skipped(skipped), fatal=not found)
        elif not found and not count and spoilt is None:
            yield unreadable(layer.name, say("the archive holds no files"))


class _Layer:
    """What is being opened: the user's name, the name that tells its kind, and how deep it is."""

    def __init__(
        self, name: str, inner: str, *, depth: float, size: int | None, path: str | None
    ) -> None:
        self.name = name
        self.inner = inner
        self.depth = depth
        self.size = size
        self.path = path


def _unpacked_name(name: str) -> str:
    end = ending(name)
    if end == ".tgz":
        return name[:-4] + ".tar"
    return name[: -len(end)] if end in _PACKED else name


def _near(name: str) -> list[str]:
    """Names beside a missing file that look like it."""
    folder, base = os.path.split(name)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for _, entry in zip(range(5000), entries, strict=False)]
    except OSError:
        return []
    return [os.path.join(folder, one) for one in difflib.get_close_matches(base, names, n=3)]


def _not_text(name: str) -> Text:
    if ending(name) in NOT_ARCHIVES:
        return say("it is a binary file (a checkpoint or a package), not a log, script or dump")
    return say("it is a binary file, not a log, script, stack dump or Flight Recorder dump")


def _skipped(names: Sequence[str]) -> Text:
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return say("{count} binary files in it were not read: {names}", count=len(names), names=shown)
