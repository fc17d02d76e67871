"""Streams: what they give back, hold to and tell."""

from __future__ import annotations

import errno
import gzip
import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.streams import (
    BoundExceededError,
    Budget,
    Guarded,
    Limits,
    Part,
    Peeked,
    Unpacked,
    amount,
    compression,
    explain,
)


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"),
     (64 << 30, "64 GiB"), (5000 << 30, "5000 GiB")],
)  # fmt: skip
def test_amounts(size: int, shown: str) -> None:
    assert amount(size) == shown


def test_what_went_wrong_is_said_in_words() -> None:
    assert "may not read" in str(explain(PermissionError(errno.EACCES, "Permission denied")))
    assert "ends too early" in str(explain(EOFError()))
    assert "Input/output error" in str(explain(OSError(errno.EIO, "Input/output error")))
    assert "damaged (invalid code)" in str(explain(zlib.error("invalid code")))
    assert len(str(explain(ValueError("x" * 9999)))) < 400


def test_a_budget_counts_what_comes_out() -> None:
    budget = Budget(Limits(expanded=100, ratio=3, ratio_from=50))
    budget.taken = 20
    budget.give(50)
    budget.give(10)
    with pytest.raises(BoundExceededError, match="3 times its size"):
        budget.give(1)
    with pytest.raises(BoundExceededError, match="100 bytes"):
        budget.give(40)


def test_a_failure_ends_a_guarded_stream() -> None:
    guard = Guarded(Part(io.BytesIO(b"abc"), 5))
    assert [guard.read(2), guard.read(2), guard.read(2), guard.read(2)] == [b"ab", b"c", b"", b""]
    assert guard.total == 3
    assert guard.trouble is not None


@given(st.binary(max_size=40), st.lists(st.integers(0, 12), max_size=12))
def test_looking_ahead_loses_nothing(data: bytes, steps: list[int]) -> None:
    stream = Peeked(io.BytesIO(data))
    got = b""
    for size in steps:
        ahead = stream.peek(size)
        assert data[len(got) :].startswith(ahead)
        part = stream.read(size // 2) if size > 1 else b""
        stream.give_back(part[1:])
        got += part[:1]
    while part := stream.read(7):
        got += part
    assert got == data


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 50))
def test_parts_one_after_the_other_are_one(parts: list[bytes], size: int) -> None:
    packed = b"".join(gzip.compress(part) for part in parts)
    packing = compression(packed)
    assert packing is not None
    stream = Unpacked(io.BytesIO(packed), *packing, Budget(Limits()))
    got = b""
    while piece := stream.read(size):
        assert len(piece) <= size
        got += piece
    assert got == b"".join(parts)


def test_text_is_not_packed() -> None:
    for head in (b"", b"BZh is a magic", b"PK", b"\x1f\x8b", b"[rank0]: text"):
        assert compression(head) is None
