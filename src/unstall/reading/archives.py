"""Members of tar and ZIP archives, in order, from a stream that may be cut, hostile or endless."""

from __future__ import annotations

import struct
import tarfile
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from unstall.model.text import Text, say
from unstall.reading.streams import (
    BLOCK,
    DAMAGE,
    BoundExceededError,
    Budget,
    Part,
    Partial,
    Peeked,
    Stream,
    Unpacked,
    explain,
    raw_deflate,
)

_HEADERS = 8 << 20  # a member's headers; real ones take some KiB
_LOCAL = struct.Struct("<4s5H3I2H")


class Member(NamedTuple):
    """One file in an archive; its stream must be read before the next member is asked for."""

    name: str
    stream: Stream
    size: int | None


class Spoilt(NamedTuple):
    """A member, or with an empty name the archive itself, that could not be read (further)."""

    name: str
    reason: Text


def is_tar(head: bytes) -> bool:
    """Whether a stream that begins so (512 bytes) is a tar archive."""
    if len(head) < 512 or head[257:262] != b"ustar":
        return False
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def is_zip(head: bytes) -> bool:
    """Whether a stream that begins so is a ZIP archive."""
    return head[:4] in (b"PK\x03\x04", b"PK\x05\x06")


class _Allowance:
    """Lets only so much through at a time: a tar header can claim any size for itself."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.left: int | None = _HEADERS

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size if size > 0 else BLOCK)
        if self.left is not None:
            self.left -= len(data)
            if self.left < 0:
                raise BoundExceededError(
                    say("the headers within it are larger than any real archive's")
                )
        return data


def tar_members(stream: Stream) -> Iterator[Member | Spoilt]:
    """Regular files of a tar archive. Links are not followed, nothing is written anywhere."""
    allowance = _Allowance(stream)
    try:
        archive = tarfile.open(  # noqa: SIM115 - it holds nothing open
            fileobj=cast(BinaryIO, allowance), mode="r|", bufsize=BLOCK
        )
    except DAMAGE as error:
        yield Spoilt("", explain(error))
        return
    while True:
        allowance.left = _HEADERS
        try:
            info = archive.next()
            # tarfile keeps every header it has seen; nothing here goes back to one.
            archive.members = []  # type: ignore[attr-defined]
            content = archive.extractfile(info) if info is not None and info.isreg() else None
            if info is not None and info.issparse():
                content = None  # its holes can claim any size, and no log has holes
        except DAMAGE as error:
            yield Spoilt("", explain(error))
            return
        if info is None:
            return
        allowance.left = None
        name = info.name.encode("utf-8", "replace").decode("utf-8", "replace")
        if content is not None:
            member = Part(Partial(content, most=8192), info.size)
            yield Member(name, member, info.size)
            try:
                while member.read(BLOCK):
                    pass
            except DAMAGE as error:
                yield Spoilt("", explain(error))
                return


def zip_members(
    stream: Stream, seekable: BinaryIO | None, budget: Budget
) -> Iterator[Member | Spoilt]:
    """Files of a ZIP archive, by its table of contents, or one after the other without it."""
    archive = None
    if seekable is not None:
        try:
            archive = zipfile.ZipFile(seekable)
        except DAMAGE:
            seekable.seek(0)
            yield Spoilt("", say("its table of contents is missing (a cut copy?); the members "
                                 "were read one after the other as far as they go"))  # fmt: skip
    if archive is None:
        yield from _zip_in_order(Peeked(stream if seekable is None else seekable), budget)
        return
    for info in archive.infolist():
        if info.is_dir():
            continue
        name = info.filename.encode("utf-8", "replace").decode("utf-8", "replace")
        try:
            content = archive.open(info)
        except DAMAGE as error:
            yield Spoilt(name, explain(error))
            continue
        with content:
            yield Member(name, _Metered(Partial(content), budget), info.file_size)


class _Metered:
    """A member that the standard library unpacks, counted."""

    def __init__(self, stream: Stream, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._budget.give(len(data))
        return data


def _zip_in_order(stream: Peeked, budget: Budget) -> Iterator[Member | Spoilt]:
    """Members by their local headers (APPNOTE 4.3.7), for streams and archives cut short."""
    while True:
        head = stream.peek(_LOCAL.size)
        if head[:4] in (b"PK\x01\x02", b"PK\x05\x06") or not head:
            return  # the table of contents: every member has been seen
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            yield Spoilt("", explain(EOFError()))
            return
        stream.exactly(_LOCAL.size)
        _, _, flags, method, _, _, _, packed, size, name_size, extra_size = _LOCAL.unpack(head)
        try:
            raw_name = stream.exactly(name_size)
            extra = stream.exactly(extra_size)
        except EOFError as error:
            yield Spoilt("", explain(error))
            return
        name = raw_name.decode("utf-8", "replace")
        if packed == 0xFFFFFFFF:
            packed = _zip64_packed(extra, size)
        later = bool(flags & 8)  # sizes follow the data
        unpackable = method in (0, 8) and not flags & 1 and not (method == 0 and later)
        if not unpackable:
            why = RuntimeError("password") if flags & 1 else NotImplementedError()
            yield Spoilt(name, explain(why))
            if later:
                return  # where the next member begins is not known
        content: Stream = (
            Unpacked(stream, raw_deflate, b"", budget)
            if method == 8 and unpackable
            else Part(stream, packed)
        )
        deflate = content if isinstance(content, Unpacked) else None
        if unpackable and not name.endswith("/"):
            yield Member(name, content, None if later else size)
        try:
            while content.read(BLOCK):
                pass
        except DAMAGE as error:
            yield Spoilt("", explain(error))
            return
        if deflate is not None:
            stream.give_back(deflate.rest)
        if later:
            mark = stream.peek(4)
            stream.peek(24)
            stream.read(16 if mark == b"PK\x07\x08" else 12)


def _zip64_packed(extra: bytes, size: int) -> int:
    """The packed size in a ZIP64 extra field (APPNOTE 4.5.3)."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == 1:
            at = position + 4 + (8 if size == 0xFFFFFFFF else 0)
            if at + 8 <= len(extra):
                return int(struct.unpack_from("<Q", extra, at)[0])
        position += 4 + length
    return 0
