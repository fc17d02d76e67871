"""Bytes to text, line by line, so that one broken or foreign line costs nothing but itself."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

_CJK = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef\u2014\u2018-\u201d\u2026]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")


def decode(raw: bytes) -> str:
    """One line as text: UTF-8, else GB18030 where that gives Chinese, else with U+FFFD."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    text = raw.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    good = len(_NOT_ASCII.findall(text)) - broken
    if broken <= good:
        return text
    try:
        chinese = raw.decode("gb18030")
    except UnicodeDecodeError:
        return text
    foreign = len(_NOT_ASCII.findall(chinese))
    return chinese if len(_CJK.findall(chinese)) * 10 >= foreign * 9 else text


def as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks of a file in UTF-8: UTF-16 with a byte order mark is converted, a mark removed."""
    decoder: codecs.IncrementalDecoder | None = None
    start = b""
    started = False
    for chunk in chunks:
        if not started:
            start += chunk
            if len(start) < 3:
                continue
            chunk, started = start, True
            if chunk[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
            elif chunk.startswith(codecs.BOM_UTF8):
                chunk = chunk[3:]
        yield chunk if decoder is None else _convert(decoder, chunk, final=False)
    if not started and start:
        yield start
    if decoder is not None:
        yield _convert(decoder, b"", final=True)


def _convert(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool) -> bytes:
    return decoder.decode(chunk, final).encode("utf-8", "replace")
