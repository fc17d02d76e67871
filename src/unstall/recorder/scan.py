"""The short way through a pickle as torch writes it: entries are matched, not unpickled.

torch's C++ pickler writes every entry with the same keys in the same order, and refers to strings
it wrote before by number. After the first entry the others can be matched by one regular expression
that takes out only what the comparison needs, in less than half the time. Whatever looks different
is decoded operation by operation; a file that often looks different, or holds anything else than
plain values, is left to the unpickler (:class:`UnscannableError`). Nothing is executed here.

Source of the form: PyTorch, torch/csrc/jit/serialization/pickler.cpp, seen in torch 2.8 and 2.13.
"""

from __future__ import annotations

import re
import struct
from typing import Any

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

    def step(self, at: int) -> int:
        """Carry out the operation at a position; the position after it."""
        data, stack = self.data, self.stack
        code = data[at : at + 1]
        if code == b"h":
            stack.append(self.memo[data[at + 1]])
            return at + 2
        if code == b"K":
            stack.append(data[at + 1])
            return at + 2
        if code == b"(":
            if len(self.marks) >= _MAX_DEPTH:
                raise UnscannableError
            self.marks.append(len(stack))
            return at + 1
        if code == b"]":
            stack.append([])
            return at + 1
        if code == b"}":
            stack.append({})
            return at + 1
        if code in (b"e", b"u"):
            self._close(code)
            return at + 1
        if code == b"X":
            end: int = at + 5 + struct.unpack_from("<I", data, at + 1)[0]
            if end > len(data):
                raise UnscannableError
            stack.append(data[at + 5 : end].decode("utf-8", "surrogatepass"))
            return end
        return self._rare(code, at)

    def _close(self, code: bytes) -> None:
        stack, mark = self.stack, self.marks.pop()
        items = stack[mark:]
        del stack[mark:]
        home = stack[-1]
        if code == b"e":
            if type(home) is not list:
                raise UnscannableError
            home.extend(items)
        else:
            if type(home) is not dict or len(items) % 2:
                raise UnscannableError
            if any(type(key) is not str for key in items[::2]):
                raise UnscannableError
            home.update(zip(items[::2], items[1::2], strict=True))

    def _rare(self, code: bytes, at: int) -> int:
        data, stack = self.data, self.stack
        if code == b"M":
            stack.append(int.from_bytes(data[at + 1 : at + 3], "little"))
            return at + 3
        if code == b"J":
            stack.append(int.from_bytes(data[at + 1 : at + 5], "little", signed=True))
            return at + 5
        if code == b"\x8a" and data[at + 1] <= 8:
            end = at + 2 + data[at + 1]
            stack.append(int.from_bytes(data[at + 2 : end], "little", signed=True))
            return end
        if code == b"G":
            stack.append(struct.unpack_from(">d", data, at + 1)[0])
            return at + 9
        if code in (b"N", b"\x88", b"\x89"):
            stack.append({b"N": None, b"\x88": True, b"\x89": False}[code])
            return at + 1
        if code == b"j":
            stack.append(self.memo[int.from_bytes(data[at + 1 : at + 5], "little")])
            return at + 5
        if code == b"\x86":
            pair = tuple(stack[-2:])
            if len(pair) < 2 or any(type(item) is not str for item in pair):
                raise UnscannableError
            stack[-2:] = [pair]
            return at + 1
        if code in (b"q", b"r"):
            width = 1 if code == b"q" else 4
            if type(stack[-1]) not in (str, dict):
                raise UnscannableError
            self.memo[int.from_bytes(data[at + 1 : at + 1 + width], "little")] = stack[-1]
            return at + 1 + width
        raise UnscannableError

    def entry(self, at: int) -> tuple[dict[str, Any], int]:
        """The dictionary that begins at a position, and where it ends."""
        depth, marks = len(self.stack), len(self.marks)
        if self.data[at : at + 2] != b"}(":
            raise UnscannableError
        at = self.step(self.step(at))
        for _ in range(_MAX_ENTRY_OPERATIONS):
            at = self.step(at)
            if len(self.marks) == marks:
                break
        if len(self.stack) != depth + 1 or self.data[at : at + 1] in (b"q", b"r", b"a"):
            raise UnscannableError
        value = self.stack.pop()
        if type(value) is not dict:
            raise UnscannableError
        return value, at

    def values(self, fragment: bytes) -> list[Any]:
        """The values that a piece of an entry stands for."""
        part = Machine(fragment)
        part.memo = self.memo
        at = 0
        while at < len(fragment):
            at = part.step(at)
        if part.marks:
            raise UnscannableError
        return part.stack


class Scan:
    """A dump that was read the short way.

    Attributes:
        top: the top level without the entries.
        pieces: in order, ``(number of the first entry, dictionary or rows)``; rows are tuples of
            bytes, to be read with :meth:`columns`.
        count: how many entries there are.
        done: whether the operations in rows ended. Only entries that are as the first one in this
            are matched: nearly all of a long dump have ended, none of a dump of active ones has.
    """

    def __init__(self, data: bytes) -> None:
        self.machine = Machine(data)
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
        at = machine.step(machine.step(2))
        for _ in range(_MAX_HEADER_OPERATIONS):
            at = machine.step(at)
            if len(machine.marks) == 2 and data[at - 1 : at] == b"(":
                stack = machine.stack
                if len(stack) >= 2 and stack[-2] == "entries" and stack[-1] == []:
                    break
            if data[at : at + 1] in (b".", b""):
                raise UnscannableError
        at = self._entries(data, at)
        if machine.marks[-1] != len(machine.stack) or data[at : at + 1] != b"e":
            raise UnscannableError
        while data[at : at + 1] != b".":
            at = machine.step(at)
        if len(machine.stack) != 1 or machine.marks or type(machine.stack[0]) is not dict:
            raise UnscannableError
        self.top: dict[str, Any] = machine.stack[0]

    def _entries(self, data: bytes, at: int) -> int:
        machine, pattern, odd = self.machine, None, 0
        while data[at : at + 1] == b"}":
            if pattern is not None:
                found = list(iter(pattern.scanner(data, at).match, None))
                if found:
                    self.pieces.append((self.count + 1, [match.groups() for match in found]))
                    self._starts.append((self.count + 1, found))
                    self.count += len(found)
                    at = found[-1].end()
                    continue
            value, end = machine.entry(at)
            self.count += 1
            self.pieces.append((self.count, value))
            self._starts.append((self.count, value))
            odd += 1
            if odd > 64 and odd * 4 > self.count:
                raise UnscannableError
            if pattern is None:
                pattern = self._pattern(value)
            at = end
        return at

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
        for key in keys:
            form = re.escape(_reference(numbers[key])) + (b"(" if key == _TENSORS[0] else b"")
            value = forms[key]
            if key in taken:
                value = b"(" + value + b")"
            parts.append(form + value + (b")" if key == _TENSORS[-1] else b""))
            if key in taken or key == _TENSORS[0]:
                order.append("tensors" if key == _TENSORS[0] else key)
        self.order = order
        return re.compile(rb"\}\(" + b"".join(parts) + b"u", re.DOTALL)

    def columns(self, rows: list[tuple[bytes, ...]]) -> dict[str, tuple[bytes, ...]]:
        """Rows as columns by name: :data:`COLUMNS`, and ``time_created_ns`` of unfinished ones."""
        return dict(zip(self.order, zip(*rows, strict=True), strict=True))

    def entry(self, number: int) -> Any:
        """One entry in full."""
        import bisect

        first, found = self._starts[bisect.bisect_right(self._starts, number, key=_first) - 1]
        if isinstance(found, dict):
            return found
        return self.machine.entry(found[number - first].start())[0]


def _reference(number: int) -> bytes:
    """The operation that fetches what was stored under a number."""
    return b"h" + bytes([number]) if number < 256 else b"j" + number.to_bytes(4, "little")


def _first(piece: tuple[int, Any]) -> int:
    return piece[0]
