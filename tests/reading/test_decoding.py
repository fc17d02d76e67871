"""Bytes to text."""

from __future__ import annotations

import codecs

from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.decoding import as_utf8, decode


def test_utf8_and_one_broken_byte() -> None:
    assert decode("看门狗 watchdog".encode()) == "看门狗 watchdog"
    assert decode("看门狗".encode() + b"\xff watchdog") == "看门狗\ufffd watchdog"


def test_chinese_of_windows_and_old_servers() -> None:
    assert (
        decode("显存占用一直都不高，watchdog".encode("gb18030")) == "显存占用一直都不高，watchdog"
    )


def test_other_bytes_stay_one_character_each() -> None:
    assert decode(b"bar \x80\x81 end") == "bar \ufffd\ufffd end"


def test_utf16_in_any_pieces() -> None:
    text = "rank 0 失败\nsecond 🏖\n"
    for encoded in (codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
                    codecs.BOM_UTF16_BE + text.encode("utf-16-be")):  # fmt: skip
        for size in (1, 2, 3, 100):
            chunks = [encoded[at : at + size] for at in range(0, len(encoded), size)]
            assert b"".join(as_utf8(chunks)).decode() == text


def test_a_mark_is_removed_and_short_input_kept() -> None:
    assert b"".join(as_utf8([b"\xef", b"\xbb", b"\xbfab", b"c"])) == b"abc"
    assert b"".join(as_utf8([b"a"])) == b"a"
    assert b"".join(as_utf8([])) == b""


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_other_bytes_pass_unchanged(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    if not whole.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        assert b"".join(as_utf8(chunks)) == whole


@given(st.binary(max_size=200))
def test_any_bytes_are_some_text(raw: bytes) -> None:
    assert len(decode(raw)) <= len(raw)
