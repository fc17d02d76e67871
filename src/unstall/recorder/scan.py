"""The short way through a pickle as torch writes it: entries are matched, not unpickled.

torch's C++ pickler writes every entry with the same keys in the same order, and refers to strings
it wrote before by number. After the first entry the others can be matched by one regular expression
that takes out only what the comparison needs, in less than half the time. Whatever looks different
is decoded operation by operation; a file that often looks different, or holds anything else than
plain values, is left to the unpickler (:class:`UnscannableError`). Nothing is executed here. What
is as in a dump read before is not even matched (:mod:`unstall.recorder.alike`).

Source of the form: PyTorch, torch/csrc/jit/serialization/pickler.cpp, seen in torch 2.8 and 2.13.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NoReturn

from unstall.recorder.alike import Alike, Known

_INTEGER = rb"(?:K.|M..|J.{4}|\x8a\x08.{8})"
_COUNT = rb"(?:K.|M..|J.{3}[\x00-\x7f])"
_OPTIONAL = rb"(?:N|K.|\x8a\x08.{8})"
_TEXT = rb"(?:h.|j.{4})"
_TEXTS = rb"\](?:\((?:%s)*e)?" % _TEXT
_SIZES = rb"\](?:\((?:\](?:\((?:%s)*e)?)*e)?" % _INTEGER
_FORMS = {
    "frames": _TEXTS, "process_group": rb"%s%s\x86" % (_TEXT, _TEXT), "thread_name": _TEXT,
    "thread_id": _TEXT, "profiling_name": _TEXT, "state": _TEXT, "input_sizes": _SIZES,
    "output_sizes": _SIZES, "input_dtypes": _TEXTS, "output_dtypes": _TEXTS,
    "retired": rb"[\x88\x89]", "is_p2p": rb"[\x88\x89]", "duration_ms": rb"G.{8}",
    "collective_seq_id": _COUNT, "p2p_seq_id": _COUNT, "time_created_ns": rb"\x8a\x08.{8}",
    "time_discovered_completed_ns": _OPTIONAL, "time_discovered_started_ns": _OPTIONAL,
    "record_id": _INTEGER, "pg_id": _INTEGER, "op_id": _INTEGER, "timeout_ms": _INTEGER,
}  # fmt: skip
_TENSORS = ["input_sizes", "input_dtypes", "output_sizes", "output_dtypes"]
#: What is taken out of an entry; ``tensors`` are the four fields above, which stand together.
COLUMNS = (
    "profiling_name", "tensors", "process_group", "is_p2p", "collective_seq_id", "p2p_seq_id",
)  # fmt: skip
#: What differs between ranks that do the same.
_TIMES = {
    "time_created_ns": rb"\x8a\x08(.{8})", "duration_ms": b"G(.{8})",
    "time_discovered_completed_ns": rb"(?:N|K.|\x8a\x08(.{8}))",
    "time_discovered_started_ns": rb"(?:N|K.|\x8a\x08(.{8}))",
}  # fmt: skip
_PROGRESS = ("state", "retired", "time_discovered_completed_ns", "time_created_ns")

_MAX_DEPTH = 16
_MAX_HEADER_OPERATIONS = 2_000_000
_MAX_ENTRY_OPERATIONS = 200_000


class UnscannableError(Exception):
    """Not of the expected form; the unpickler is to read it."""


class Machine:
    """A pickle machine for plain values: dictionaries, lists, pairs, texts, numbers.

    Only texts and dictionaries may be stored under a number: shared lists would let a small file
    stand for a huge value.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[int] = []

    def run(self, at: int, depth: int, limit: int, *, until_entries: bool = False) -> int:
        """Carry out operations from a position on.

        Args:
            at: position.
            depth: stop after the operation that leaves so many marks open.
            limit: most operations.
            until_entries: stop also where the top level's list of entries begins.

        Returns:
            The position after the last one, or that of the end of the pickle.
        """
        data, stack, marks, memo = self.data, self.stack, self.marks, self.memo
        push = stack.append
        for _ in range(limit):
            code = data[at]
            if code == 0x68:  # BINGET
                push(memo[data[at + 1]])
                at += 2
            elif code == 0x4B:  # BININT1
                push(data[at + 1])
                at += 2
            elif code == 0x28:  # MARK
                if len(marks) >= _MAX_DEPTH:
                    raise UnscannableError
                marks.append(len(stack))
                at += 1
                if until_entries and len(marks) == 2 and stack[-2:] == ["entries", []]:
                    return at
            elif code == 0x5D:  # EMPTY_LIST
                push([])
                at += 1
            elif code == 0x7D:  # EMPTY_DICT
                push({})
                at += 1
            elif code == 0x65 or code == 0x75:  # APPENDS, SETITEMS
                self._close(code)
                at += 1
                if len(marks) == depth:
                    return at
            elif code == 0x58:  # BINUNICODE
                end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "little")
                if end > len(data):
                    raise UnscannableError
                push(data[at + 5 : end].decode("utf-8", "surrogatepass"))
                at = end
            elif code == 0x71 or code == 0x72:  # BINPUT, LONG_BINPUT
                end = at + (2 if code == 0x71 else 5)
                number = int.from_bytes(data[at + 1 : end], "little")
                if type(stack[-1]) not in (str, dict) or number > len(data):
                    raise UnscannableError
                memo[number] = stack[-1]
                at = end
            elif code == 0x2E:  # STOP
                return at
            else:
                at = self._rare(code, at)
        raise UnscannableError

    def _close(self, code: int) -> None:
        stack, mark = self.stack, self.marks.pop()
        items = stack[mark:]
        del stack[mark:]
        home = stack[-1]
        if code == 0x65:
            if type(home) is not list:
                raise UnscannableError
            home.extend(items)
        else:
            if type(home) is not dict or len(items) % 2:
                raise UnscannableError
            keys = items[::2]
            for key in keys:
                if type(key) is not str:
                    raise UnscannableError
            home.update(zip(keys, items[1::2]))  # noqa: B905 - an even number of them

    def _rare(self, code: int, at: int) -> int:
        data, stack = self.data, self.stack
        if code == 0x4D:  # BININT2
            stack.append(int.from_bytes(data[at + 1 : at + 3], "little"))
            return at + 3
        if code == 0x4A:  # BININT
            stack.append(int.from_bytes(data[at + 1 : at + 5], "little", signed=True))
            return at + 5
        if code == 0x8A and data[at + 1] <= 8:  # LONG1
            end = at + 2 + data[at + 1]
            stack.append(int.from_bytes(data[at + 2 : end], "little", signed=True))
            return end
        if code == 0x47:  # BINFLOAT
            stack.append(struct.unpack_from(">d", data, at + 1)[0])
            return at + 9
        if code in _SINGLE:
            stack.append(_SINGLE[code])
            return at + 1
        if code == 0x6A:  # LONG_BINGET
            stack.append(self.memo[int.from_bytes(data[at + 1 : at + 5], "little")])
            return at + 5
        if code == 0x86:  # TUPLE2
            pair = tuple(stack[-2:])
            if len(pair) < 2 or any(type(item) is not str for item in pair):
                raise UnscannableError
            stack[-2:] = [pair]
            return at + 1
        raise UnscannableError

    def entry(self, at: int) -> tuple[dict[str, Any], int]:
        """The dictionary that begins at a position, and where it ends."""
        depth, marks = len(self.stack), len(self.marks)
        if self.data[at : at + 2] != b"}(":
            raise UnscannableError
        at = self.run(at, marks, _MAX_ENTRY_OPERATIONS)
        if len(self.stack) != depth + 1 or self.data[at : at + 1] in (b"q", b"r", b"a"):
            raise UnscannableError
        value = self.stack.pop()
        if type(value) is not dict:
            raise UnscannableError
        return value, at

    def values(self, fragment: bytes) -> list[Any]:
        """The values that a piece of an entry stands for."""
        part = Machine(fragment + b".")
        part.memo = self.memo
        if part.run(0, -1, len(fragment) + 1) != len(fragment) or part.marks:
            raise UnscannableError
        return part.stack


_SINGLE = {0x4E: None, 0x88: True, 0x89: False}


class Scan:
    """A dump that was read the short way.

    Attributes:
        top: the top level without the entries.
        pieces: in order, ``(number of the first entry, dictionary, rows or Alike)``; rows are
            tuples of bytes, to be read with :meth:`columns`.
        count: how many entries there are.
        done: whether the operations in rows ended. Only entries that are as the first one in this
            are matched: nearly all of a long dump have ended, none of a dump of active ones has.
    """

    def __init__(self, data: bytes, known: Known | None = None) -> None:
        self.machine = Machine(data)
        self._known = known
        self.pieces: list[tuple[int, Any]] = []
        self.count = 0
        self.done = False
        self._starts: list[tuple[int, Any]] = []
        try:
            self._read(data)
        except (KeyError, IndexError, UnicodeDecodeError, struct.error, ValueError):
            raise UnscannableError from None

    def _read(self, data: bytes) -> None:
        machine = self.machine
        if data[:4] != b"\x80\x02}(":
            raise UnscannableError
        at = machine.run(2, 0, _MAX_HEADER_OPERATIONS, until_entries=True)
        if len(machine.marks) != 2:
            raise UnscannableError
        at = self._entries(data, at)
        if machine.marks[-1] != len(machine.stack) or data[at : at + 1] != b"e":
            raise UnscannableError
        at = machine.run(at, -1, _MAX_HEADER_OPERATIONS)
        if len(machine.stack) != 1 or machine.marks or type(machine.stack[0]) is not dict:
            raise UnscannableError
        self.top: dict[str, Any] = machine.stack[0]

    def _entries(self, data: bytes, at: int) -> int:
        machine, known, pattern, odd = self.machine, self._known, None, 0
        hit = False
        longest: list[Any] = []
        while data[at : at + 1] == b"}":
            if pattern is not None:
                alike = None
                if known is not None and self.done and not hit and pattern.match(data, at):
                    alike = known.find(pattern.pattern, data, at)
                if alike is not None:
                    hit = True
                    self._add(alike, alike, alike.count)
                    at += alike.reference.end(alike.count)
                    continue
                found = list(iter(pattern.scanner(data, at).match, None))
                if found:
                    self._add([match.groups() for match in found], found, len(found))
                    longest = max(longest, found, key=len)
                    at = found[-1].end()
                    continue
            value, end = machine.entry(at)
            self._add(value, value, 1)
            odd += 1
            if odd > 64 and odd * 4 > self.count:
                raise UnscannableError
            if pattern is None:
                pattern = self._pattern(value)
            at = end
        if known is not None and pattern is not None and self.done:
            known.note(data, pattern.pattern, self._times, longest, hit)
        return at

    def _add(self, piece: Any, places: Any, count: int) -> None:
        """Take entries: what is to be read of them, and what knows where they stand."""
        self.pieces.append((self.count + 1, piece))
        self._starts.append((self.count + 1, places))
        self.count += count

    def _pattern(self, like: dict[str, Any]) -> Any:
        """An expression for entries with an entry's keys, in this order, and its progress."""
        keys = list(like)
        numbers = {text: at for at, text in self.machine.memo.items() if type(text) is str}
        tensors = keys.index(_TENSORS[0])
        needed = {*COLUMNS, *_PROGRESS} - {"tensors"}
        if keys[tensors : tensors + 4] != _TENSORS or not needed <= set(keys):
            raise UnscannableError
        self.done = like["state"] == "completed" or like["retired"] is True
        if not self.done and like["time_discovered_completed_ns"]:
            raise UnscannableError
        forms = {
            **_FORMS,
            "state": re.escape(_reference(numbers[like["state"]])),
            "retired": b"\x88" if like["retired"] is True else b"\x89",
        }
        if not self.done:
            forms["time_discovered_completed_ns"] = rb"(?:N|K\x00)"
        taken = COLUMNS if self.done else (*COLUMNS, "time_created_ns")
        parts, order = [], []
        times = group = b""
        for key in keys:
            form = re.escape(_reference(numbers[key]))
            value = forms[key]
            times += form + _TIMES.get(key, value)
            group += form + (b"(%s)" % value if key in ("process_group", "pg_id") else value)
            form += b"(" if key == _TENSORS[0] else b""
            if key in taken:
                value = b"(" + value + b")"
            parts.append(form + value + (b")" if key == _TENSORS[-1] else b""))
            if key in taken or key == _TENSORS[0]:
                order.append("tensors" if key == _TENSORS[0] else key)
        self.order = order
        self._times = rb"\}\(" + times + b"u"
        self._group = re.compile(rb"\}\(" + group + b"u", re.DOTALL)
        self._group_keys = [key for key in keys if key in ("process_group", "pg_id")]
        return re.compile(rb"\}\(" + b"".join(parts) + b"u", re.DOTALL)

    def columns(self, rows: list[tuple[bytes, ...]]) -> dict[str, tuple[bytes, ...]]:
        """Rows as columns by name: :data:`COLUMNS`, and ``time_created_ns`` of unfinished ones."""
        return dict(zip(self.order, zip(*rows, strict=True), strict=True))

    def entries(self, numbers: Iterable[int]) -> dict[int, Any]:
        """Some entries in full, by number."""
        found: dict[int, Any] = {}
        matched: dict[int, bytes] = {}
        for number in numbers:
            place = self._at(number)
            if isinstance(place, dict):
                found[number] = place
            else:
                matched[number] = place
        found.update(zip(matched, self._unpickled(list(matched.values())), strict=True))
        return found

    def group_at(self, number: int) -> tuple[Any, Any]:
        """Name and description of an entry's group, and its ``pg_id`` if it has one.

        Nothing else of the entry is looked at, so that a broken one is judged alike whether or not
        its group is asked for.
        """
        place = self._at(number)
        if not isinstance(place, dict):
            match = self._group.fullmatch(place)
            if match is None:
                raise UnscannableError
            values = [self.machine.values(value)[0] for value in match.groups()]
            place = dict(zip(self._group_keys, values, strict=True))
        return place["process_group"], place.get("pg_id")

    def _at(self, number: int) -> dict[str, Any] | bytes:
        """An entry, in full or as the bytes that the expression matched."""
        first, places = self._starts[bisect_right(self._starts, number, key=_first) - 1]
        if isinstance(places, dict):
            return places
        if isinstance(places, Alike):
            start, end = places.span(number - first)
            return self.machine.data[start:end]
        found: bytes = places[number - first].group()
        return found

    def _unpickled(self, parts: list[bytes]) -> list[Any]:
        """What entries stand for that the expression matched, so that they hold plain values."""
        memo = self.machine.memo
        if len(memo) > _MOST_PRELOADED or not parts:
            return [self.machine.values(part)[0] for part in parts]
        start = b"".join([_preload(number) for number in memo])
        reader = _Preloaded(io.BytesIO(start + b"](" + b"".join(parts) + b"e."))
        reader.values = memo
        try:
            found = reader.load()
        except Exception:  # a number under which nothing was stored
            raise UnscannableError from None
        if type(found) is not list or len(found) != len(parts):
            raise UnscannableError
        return found


_MOST_PRELOADED = 1000


class _Preloaded(pickle.Unpickler):
    """The C unpickler, started with what was stored before: fetched as persistent values.

    CPython has a setter for the store, which loses what it is given (seen in 3.11).
    """

    values: dict[int, Any]

    def find_class(self, *_: object) -> NoReturn:
        raise UnscannableError

    def persistent_load(self, pid: Any, /) -> Any:
        return self.values[pid]


@lru_cache(maxsize=_MOST_PRELOADED * 4)
def _preload(number: int) -> bytes:
    """Operations that fetch one value and store it under its number."""
    digits = number.to_bytes(4, "little")
    return b"J" + digits + b"Qr" + digits + b"0"


def _reference(number: int) -> bytes:
    """The operation that fetches what was stored under a number."""
    return b"h" + bytes([number]) if number < 256 else b"j" + number.to_bytes(4, "little")


def _first(piece: tuple[int, Any]) -> int:
    return piece[0]
