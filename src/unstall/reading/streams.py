"""Byte streams: counted, peeked into, unpacked within bounds, and safe to read when damaged."""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Protocol

import msgspec
import zstandard

from unstall.model.text import Text, say

BLOCK = 64 * 1024
_MEMORY = 256 << 20  # what an .xz or .zst may ask for; xz -9 needs 65 MiB, zstd --ultra -22 128 MiB


class Limits(msgspec.Struct, frozen=True):
    """How much is read at most; each limit that is met is told to the user.

    Attributes:
        files: files and members in all.
        members: members of one archive.
        depth: archives within archives; a compression layer counts half.
        expanded: bytes unpacked from one file the user named.
        ratio: bytes unpacked for each byte packed, once ``ratio_from`` bytes were unpacked. Logs
            that repeat themselves reach 200.
    """

    files: int = 50_000
    members: int = 20_000
    depth: float = 3
    expanded: int = 64 << 30
    ratio: int = 400
    ratio_from: int = 256 << 20


class Stream(Protocol):
    """What is read from: ``read(n)`` gives 1 to ``n`` bytes, and none at the end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


class BoundExceededError(Exception):
    """A limit was met; ``text`` says which."""

    def __init__(self, text: Text) -> None:
        super().__init__(str(text))
        self.text = text


class Budget:
    """Bytes taken from one file and bytes unpacked from it, at all its layers."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.taken = 0
        self.given = 0

    def give(self, size: int) -> None:
        """Account for unpacked bytes.

        Raises:
            BoundExceededError: more came out than a log can give.
        """
        self.given += size
        limits = self.limits
        if self.given > limits.expanded:
            raise BoundExceededError(
                say(
                    "it unpacks to more than {size}, so reading stopped there; unpack it and give "
                    "the files that matter",
                    size=amount(limits.expanded),
                )
            )
        if self.given > limits.ratio_from and self.given > limits.ratio * max(self.taken, 1):
            raise BoundExceededError(
                say(
                    "it unpacks to more than {ratio} times its size, as archive bombs do, so "
                    "reading stopped after {size}; if it is genuine, unpack it and give the files",
                    ratio=limits.ratio,
                    size=amount(self.given),
                )
            )


#: What a damaged or hostile file makes the libraries raise.
DAMAGE = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, tarfile.TarError,
    zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OverflowError,
    BoundExceededError, MemoryError, KeyError, IndexError, UnicodeError,
)  # fmt: skip


def explain(error: BaseException) -> Text:
    """What was wrong with a file, for a user."""
    if isinstance(error, BoundExceededError):
        return error.text
    if isinstance(error, PermissionError):
        return say("this user may not read it; change its permissions or copy it")
    if isinstance(error, EOFError):
        return say("it ends too early (a cut copy?); what stands before the damage was read")
    if isinstance(error, RuntimeError) and "password" in str(error):
        return say("it is protected by a password; unpack it first")
    if isinstance(error, NotImplementedError):
        return say("it is packed by a method that is not supported; unpack it first")
    if isinstance(error, OSError) and error.strerror:
        return say("the system refused to read it: {error}", error=error.strerror)
    return say(
        "it is damaged ({error}); what stands before the damage was read",
        error=(str(error) or type(error).__name__)[:200],
    )


def amount(size: int) -> str:
    """A number of bytes for a user: ``64 GiB``, ``1.5 MiB``."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"


class Partial:
    """A file that gives what there is instead of waiting until a block is full.

    So a pipe is read as it comes, and what stands before damage is not lost with it.
    """

    def __init__(self, file: IO[bytes], most: int = 1 << 20) -> None:
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._most = most

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        return self._read(min(size, self._most))


class Counted:
    """Counts what is taken from a file."""

    def __init__(self, stream: Stream, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        data = self._stream.read(size)
        self._budget.taken += len(data)
        return data


class Guarded:
    """Ends where reading fails, and remembers why.

    Attributes:
        trouble: what went wrong, once it did.
        total: bytes given so far.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.trouble: Text | None = None
        self.total = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes; none after a failure."""
        if self.trouble is not None:
            return b""
        try:
            data = self._stream.read(size)
        except DAMAGE as error:
            self.trouble = explain(error)
            return b""
        self.total += len(data)
        return data


class Peeked:
    """A stream that bytes can be given back to, and looked ahead in."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._ahead = b""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        if not self._ahead:
            return self._stream.read(size)
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data

    def peek(self, size: int) -> bytes:
        """Up to ``size`` bytes (fewer only at the end) that stay to be read."""
        parts = [self._ahead]
        have = len(self._ahead)
        while have < size:
            data = self._stream.read(max(size - have, BLOCK))
            if not data:
                break
            parts.append(data)
            have += len(data)
        self._ahead = b"".join(parts)
        return self._ahead[:size]

    def give_back(self, data: bytes) -> None:
        """Put bytes back before what is still to be read."""
        self._ahead = data + self._ahead

    def exactly(self, size: int) -> bytes:
        """Exactly ``size`` bytes.

        Raises:
            EOFError: there were fewer.
        """
        data = self.peek(size)
        if len(data) < size:
            raise EOFError
        self._ahead = self._ahead[size:]
        return data


class Part:
    """The next ``size`` bytes of a stream, as a stream."""

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self.left = size

    def read(self, size: int, /) -> bytes:
        """The next bytes.

        Raises:
            EOFError: the stream ended within the part.
        """
        if self.left <= 0:
            return b""
        data = self._stream.read(min(size, self.left))
        if not data:
            raise EOFError
        self.left -= len(data)
        return data


class _Engine(Protocol):
    """A decompressor of the standard library's newer form."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Zlib:
    """zlib's decompressor in the form of the newer ones."""

    def __init__(self, window: int) -> None:
        self._engine = zlib.decompressobj(window)
        self._tail = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._engine.eof

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        out = self._engine.decompress(self._tail + data, max_length)
        self._tail = self._engine.unconsumed_tail
        # Output can wait inside even when all input went in.
        self.needs_input = not self._tail and len(out) < max_length
        return out


class _Zstd:
    """zstandard's decompressor, fed so little at a time that what comes out stays bounded.

    A block of a frame is at most 128 KiB and takes 4 bytes at least, so 512 bytes give 16 MiB.
    """

    _FEED = 512

    def __init__(self) -> None:
        self._engine = zstandard.ZstdDecompressor(max_window_size=_MEMORY).decompressobj()
        self._in = b""
        self._in_at = 0
        self._out = b""
        self._out_at = 0

    @property
    def eof(self) -> bool:
        return self._engine.eof and self._out_at >= len(self._out)

    @property
    def needs_input(self) -> bool:
        return self._in_at >= len(self._in) and self._out_at >= len(self._out)

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data + self._in[self._in_at :]

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        if data:
            self._in, self._in_at = self._in[self._in_at :] + data, 0
        while self._out_at >= len(self._out) and self._in_at < len(self._in):
            if self._engine.eof:
                break
            piece = self._in[self._in_at : self._in_at + self._FEED]
            self._in_at += len(piece)
            self._out, self._out_at = self._engine.decompress(piece), 0
        out = self._out[self._out_at : self._out_at + max_length]
        self._out_at += len(out)
        return out


class Unpacked:
    """A compressed stream, unpacked; several of them one after the other count as one.

    Attributes:
        rest: bytes taken from the stream that lie behind its end. With an empty ``magic`` there is
            one part only, and this says where the next thing begins.
    """

    def __init__(
        self, stream: Stream, make: Callable[[], _Engine], magic: bytes, budget: Budget
    ) -> None:
        self._stream = stream
        self._make = make
        self._magic = magic
        self._budget = budget
        self._engine = make()
        self._done = False
        self.rest = b""

    def read(self, size: int, /) -> bytes:
        """The next bytes.

        Raises:
            EOFError: the compressed stream ended early.
            BoundExceededError: the budget is used up.
        """
        while not self._done:
            engine = self._engine
            if engine.eof:
                self._next()
                continue
            data = b""
            if engine.needs_input:
                data = self._stream.read(BLOCK)
                if not data:
                    raise EOFError
            out = engine.decompress(data, size)
            if out:
                self._budget.give(len(out))
                return out
        return b""

    def _next(self) -> None:
        if not self._magic:
            self.rest, self._done = self._engine.unused_data, True
            return
        rest = self._engine.unused_data.lstrip(b"\0")  # tape and flash copies are padded
        while len(rest) < len(self._magic):
            more = self._stream.read(BLOCK)
            if not more:
                self._done = True
                return
            rest = (rest + more).lstrip(b"\0")
        if not rest.startswith(self._magic):
            self._done = True
            return
        pushed = Peeked(self._stream)
        pushed.give_back(rest)
        self._stream = pushed
        self._engine = self._make()


def raw_deflate() -> _Engine:
    """A decompressor for a ZIP member."""
    return _Zlib(-15)


def compression(head: bytes) -> tuple[Callable[[], _Engine], bytes] | None:
    """How to unpack a stream that begins so, and what each of its parts begins with."""
    if head.startswith(b"\x1f\x8b\x08"):
        return (lambda: _Zlib(31)), b"\x1f\x8b"
    if head[:3] == b"BZh" and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return bz2.BZ2Decompressor, b"BZh"
    if head.startswith(b"\xfd7zXZ\0"):
        return (lambda: lzma.LZMADecompressor(memlimit=_MEMORY)), b"\xfd7zXZ"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _Zstd, b"\x28\xb5\x2f\xfd"
    return None
