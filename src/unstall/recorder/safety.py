"""Bytes of a dump to plain Python values, without running anything that stands in them.

A Flight Recorder dump is a pickle of plain values (protocol 2, written by C++) or JSON. A pickle
may name any function and have it called; here every name is refused, and so are the other ways by
which a crafted file could take memory out of proportion to its size.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from typing import Any, NoReturn

import msgspec

#: Largest dump that is read, in bytes. 20,000 entries with C++ frames stay below 64 MiB.
MAX_BYTES = 256 << 20

_PEEK = 1 << 20


class DumpError(Exception):
    """A dump cannot be read.

    Attributes:
        state: ``empty``, ``truncated``, ``refused`` (holds what a dump never holds), ``foreign``
            (something else than a dump) or ``too-big``.
        found: what was found in it, in English: a name, an operation, a size.
    """

    def __init__(self, state: str, found: str) -> None:
        super().__init__(state, found)
        self.state = state
        self.found = found


class _PlainUnpickler(pickle.Unpickler):
    """The C unpickler with its door to names shut."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise DumpError("refused", f"the name {module[:80]}.{name[:80]}")

    def persistent_load(self, pid: object, /) -> NoReturn:
        raise DumpError("refused", f"a persistent identifier of type {type(pid).__name__}")


def parse(data: bytes, *, walk: bool = True) -> Any:
    """The plain value that a dump's bytes stand for.

    Args:
        data: the whole file.
        walk: check a pickle's operations one by one first (about 0.3 µs each). Without it the
            caller must have limited the process's memory.

    Raises:
        DumpError: for anything that is not plain values in pickle or JSON.
    """
    if not data:
        raise DumpError("empty", "no bytes at all")
    if len(data) > MAX_BYTES:
        raise DumpError("too-big", f"{len(data)} bytes")
    if data[:1] == b"\x80":
        return _unpickle(data, walk)
    if data.lstrip()[:1] in (b"{", b"["):
        return _from_json(data)
    if data[:1] in b"(]}lcidIVSX" and b"." in data[-2:]:  # a pickle of protocol 0 or 1
        return _unpickle(data, True)
    raise DumpError("foreign", "neither a pickle nor JSON")


def _from_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise DumpError("refused", "JSON nested too deeply") from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise DumpError("truncated", "JSON that ends too early") from None
        raise DumpError("foreign", f"JSON with an error: {str(error)[:120]}") from None


def _unpickle(data: bytes, walk: bool) -> Any:
    if walk:
        walk_operations(data)
    try:
        return _PlainUnpickler(io.BufferedReader(io.BytesIO(data), _PEEK)).load()
    except DumpError:
        raise
    except EOFError:
        raise DumpError("truncated", "a pickle that ends too early") from None
    except MemoryError:
        raise DumpError("refused", "a demand for more memory than its size explains") from None
    except pickle.UnpicklingError as error:
        state = "truncated" if "truncated" in str(error) else "foreign"
        raise DumpError(state, f"a broken pickle: {str(error)[:120]}") from None
    except Exception as error:  # a crafted pickle can make the C code raise nearly anything
        raise DumpError("refused", f"a broken pickle: {type(error).__name__}") from None


# Operations of protocols 0 to 5 that a writer of plain values uses, by the shape of what follows.
# Source: Python's pickle protocol, documented in CPython's Lib/pickletools.py.
_FIXED = {b"\x80": 1, b"K": 1, b"M": 2, b"J": 4, b"G": 8, b"q": 1, b"h": 1, b"j": 4, b"\x95": 8}
_COUNTED = {b"U": "<B", b"\x8c": "<B", b"X": "<I", b"T": "<I", b"\x8d": "<Q", b"B": "<I",
            b"C": "<B", b"\x8e": "<Q", b"\x8a": "<B", b"\x8b": "<I"}  # fmt: skip
_BARE = frozenset(b"()}]tlduesaN\x85\x86\x87\x88\x89\x8f\x90\x94.0")
_LINES = frozenset(b"IFLSVgp")
_FORBIDDEN = {
    ord("c"): "GLOBAL", 0x93: "STACK_GLOBAL", ord("i"): "INST", ord("o"): "OBJ", ord("R"): "REDUCE",
    ord("b"): "BUILD", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", ord("P"): "PERSID", ord("Q"): "BINPERSID",
    0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
    0x96: "BYTEARRAY8",
}  # fmt: skip
# A run of operations of fixed length: skipped by the regular expression machine in one step.
_RUN = re.compile(
    rb"(?:[()}\]tlduesaN\x85\x86\x87\x88\x89\x8f\x90\x940]|[Kqh].|M..|[Jj].{4}|G.{8}|\x8a\x08.{8}){1,2048}",
    re.DOTALL,
)


def walk_operations(data: bytes) -> None:
    """Go through a pickle's operations without carrying them out.

    Raises:
        DumpError: at the first operation that names, calls or builds something, that stores under
            a number larger than the file could need, or that is none at all.
    """
    position, size = 0, len(data)
    fixed = {key[0]: width for key, width in _FIXED.items()}
    counted = {key[0]: struct.Struct(form) for key, form in _COUNTED.items()}
    while True:
        match = _RUN.match(data, position)
        position = match.end() if match else position
        if position >= size:
            raise DumpError("truncated", "a pickle that ends too early")
        code = data[position]
        if code == 0x2E:  # STOP
            return
        start, position = position, position + 1
        if code in fixed:
            position += fixed[code]
        elif code in counted:
            form = counted[code]
            if position + form.size > size:
                raise DumpError("truncated", "a pickle that ends too early")
            (length,) = form.unpack_from(data, position)
            position += form.size + length
        elif code == 0x72:  # LONG_BINPUT: the memo is an array as long as its largest number
            if int.from_bytes(data[position : position + 4], "little") > size:
                raise DumpError("refused", f"a memo number beyond the file's size at byte {start}")
            position += 4
        elif code in _FORBIDDEN:
            raise DumpError("refused", _named(data, start))
        elif code in _LINES:
            end = data.find(b"\n", position)
            if end < 0:
                raise DumpError("truncated", "a pickle that ends too early")
            if code == ord("p") and not data[position:end].isdigit():
                raise DumpError("refused", f"an odd memo number at byte {start}")
            if code == ord("p") and (end - position > 9 or int(data[position:end]) > size):
                raise DumpError("refused", f"a memo number beyond the file's size at byte {start}")
            if end - position > 4096 and code in b"IL":
                raise DumpError("refused", f"an integer of {end - position} digits")
            position = end + 1
        elif code not in _BARE:
            raise DumpError("foreign", f"byte {code:#04x} where a pickle operation should be")
        if position > size:
            raise DumpError("truncated", "a pickle that ends too early")


def _named(data: bytes, at: int) -> str:
    """What a forbidden operation asks for, with its name where it carries one."""
    code = data[at]
    words = _FORBIDDEN[code]
    if code in b"ci":
        parts = data[at + 1 : at + 200].split(b"\n")
        if len(parts) > 2:
            name = b".".join(parts[:2]).decode("ascii", "replace")
            return f"the name {name} ({words} at byte {at})"
    if code == 0x93:
        texts = re.findall(rb"\x8c(.)([^\x00-\x1f\x80-\xff]{1,80})", data[max(0, at - 200) : at])
        shown = [text[: length[0]].decode("ascii") for length, text in texts[-2:]]
        if len(shown) == 2:
            return f"the name {shown[0]}.{shown[1]} ({words} at byte {at})"
    return f"the operation {words} at byte {at}"
