"""Bytes to logical lines, in bounded memory, each with the physical line where it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from unstall.model.facts import Moment, Place
from unstall.reading.decoding import as_utf8, decode
from unstall.reading.glue import unescape, unglue
from unstall.reading.line import Line
from unstall.reading.passing import Passing
from unstall.reading.prefixes import Fields, Prefixes, Speakers, Stripped
from unstall.reading.profile import LOOKED_AT, profile
from unstall.reading.sources import Source
from unstall.reading.tidy import controls, markup
from unstall.reading.unwrap import Unwrapper, wrapped_at

LONGEST = 64 * 1024
"""Characters of a logical line, and bytes of a physical one, that are taken at once."""
RAW = 600
_PARTIAL = 64  # speakers whose cut lines are held at a time
_OUTER = ("host", "container", "task", "stream")  # hold for all that stands on a line


class Kept:
    """The first lines of a source, for those who need to see them together.

    Attributes:
        lines: one for each physical line, without prefixes and terminal escapes.
        whole: whether these are all of the source.
    """

    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.whole = True
        self._left = most

    def add(self, text: str) -> None:
        """One more line, as long as there is room."""
        self._left -= len(text) + 60
        if self._left < 0:
            self.whole = False
        if self.whole:
            self.lines.append(text)


class Scanner:
    """Reads one source.

    Args:
        source: a text; it is read to its end.
        kept: takes the first physical lines.
        on_bytes: called with the size of each chunk that was read.
        passing: tells which lines count. Others are passed over, once the first lines are kept,
            as long as nothing is waited for.
        waiting: whether whoever takes the lines wants the next one, whatever it is.

    Attributes:
        lines: physical lines read so far.
    """

    def __init__(
        self,
        source: Source,
        kept: Kept | None = None,
        on_bytes: Callable[[int], None] | None = None,
        passing: Passing | None = None,
        waiting: Callable[[], bool] | None = None,
    ) -> None:
        self._name = source.name
        self._chunks = as_utf8(_told(source.chunks(), on_bytes))
        head = b"".join(as_utf8([source.head]))
        looked = [controls(decode(line)) for line in head.split(b"\n", LOOKED_AT)[:LOOKED_AT]]
        looked = [line.rstrip("\r") for line in looked]
        plain = [markup(line.rpartition("\r")[2][:2000]) for line in looked]
        self._prefixes = Prefixes(profile(plain))
        self._unwrapper = Unwrapper(wrapped_at([line for line in looked if "\r" not in line]))
        self._speakers = Speakers()
        self._kept = kept
        self._passing = passing
        self._waiting = waiting
        self._cut: dict[tuple[object, ...], tuple[int, Stripped]] = {}
        self._last = "", self._prefixes.strip("")
        self.lines = 0

    def __iter__(self) -> Iterator[Line]:
        kept, unwrapper = self._kept, self._unwrapper
        out: list[Line] = []
        for number, raw, whole in self._counting():
            self.lines = number
            text = controls(decode(raw))
            if kept is not None and kept.whole:
                self._keep(number, text, kept)
            if whole and "\r" not in text:
                for begun, joined in unwrapper.feed(number, text):
                    self._logical(begun, joined, out)
            else:
                for begun, joined in unwrapper.flush():
                    self._logical(begun, joined, out)
                for part in text.split("\r"):
                    if part.strip():
                        self._logical(number, part, out)
            if out:
                yield from out
                out.clear()
        for begun, joined in unwrapper.flush():
            self._logical(begun, joined, out)
        for number, stripped in self._cut.values():
            self._spoken(number, stripped, stripped.text, out)
        self._cut.clear()
        yield from out

    def _counting(self) -> Iterator[tuple[int, bytes, bool]]:
        """The physical lines that count, as :func:`physical_lines` gives them."""
        passing, kept = self._passing, self._kept
        if passing is None or self._unwrapper.column is not None:
            yield from physical_lines(self._chunks)
            return
        for number, block, whole in blocks(self._chunks):
            places = None
            if kept is None or not kept.whole:
                places = passing.places(block)
            if not whole:
                self.lines = number
                if places != [] or not self._idle():
                    yield number, block, False
                continue
            if places is None:
                yield from _numbered(block, number)
                continue
            at = 0
            coming = iter([*places, len(block)])
            place = next(coming)
            while at < len(block):
                if self._idle():
                    while place < at:
                        place = next(coming)
                    begin = block.rfind(b"\n", at, place) + 1
                    if begin:
                        number += block.count(b"\n", at, begin)
                        at = begin
                        continue
                end = block.find(b"\n", at)
                if end < 0:
                    end = len(block)
                yield number, block[at : end - block.startswith(b"\r", end - 1, end)], True
                number += 1
                at = end + 1
            self.lines = number - 1

    def _idle(self) -> bool:
        """Whether a line that does not count is nothing to anyone."""
        waiting = self._waiting
        return self._unwrapper.idle and not self._cut and (waiting is None or not waiting())

    def _keep(self, number: int, text: str, kept: Kept) -> None:
        if len(kept.lines) >= number:
            return  # a further part of a very long line
        last = text.rpartition("\r")[2] if "\r" in text else text
        stripped = self._stripped(markup(last))
        kept.add(stripped.text[:LONGEST].replace("\n", " "))

    def _stripped(self, text: str) -> Stripped:
        """The text without prefixes; the first lines are wanted twice, so the last is kept."""
        if text != self._last[0]:
            self._last = text, self._prefixes.strip(text)
        return self._last[1]

    def _logical(self, number: int, text: str, out: list[Line]) -> None:
        written = text[:LONGEST]
        text = markup(written)
        # Addresses are taken out of the text; they stay in the line as written.
        raw = written if "](http" in written else text
        stripped = self._stripped(text)
        if stripped.partial or self._cut:
            joined = self._join(number, stripped)
            if joined is None:
                return
            number, stripped = joined
        self._spoken(number, stripped, raw, out)

    def _join(self, number: int, stripped: Stripped) -> tuple[int, Stripped] | None:
        """Parts of one line that a container runtime cut (CRI's ``P``, Docker's 16 KiB)."""
        key = tuple(stripped.fields.get(name) for name in ("container", "host", "stream"))
        before = self._cut.pop(key, None)
        if before is not None:
            number, first = before
            text = (first.text + stripped.text)[:LONGEST]
            stripped = first._replace(text=text, partial=stripped.partial)
        if stripped.partial and len(stripped.text) < LONGEST and len(self._cut) < _PARTIAL:
            self._cut[key] = (number, stripped)
            return None
        return number, stripped

    def _spoken(self, number: int, stripped: Stripped, raw: str, out: list[Line]) -> None:
        """The lines of one speaker's text: several where it was packed into one."""
        text = stripped.text
        if "\\n" in text:
            text = unescape(text)
        if "\n" not in text:
            self._pieces(number, text, stripped.fields, stripped.moment, raw, out)
            return
        for part in text.split("\n"):
            inner = markup(controls(part).replace("\r", " "))
            again = self._prefixes.strip(inner, stripped.fields, stripped.moment)
            self._pieces(number, again.text, again.fields, again.moment, inner, out)

    def _pieces(
        self,
        number: int,
        text: str,
        fields: Fields,
        moment: Moment | None,
        raw: str,
        out: list[Line],
    ) -> None:
        if text.startswith("```") and len(text) < 40:
            return  # a code fence is no program's line
        place = Place(self._name, number)
        pieces = unglue(text)
        if pieces is None:
            out.append(Line(place, text[:LONGEST], raw[:RAW], self._speakers.of(fields), moment))
            return
        for piece in pieces:
            said = piece.text
            if piece.other:
                outer = {name: fields[name] for name in _OUTER if name in fields}
                again = self._prefixes.strip(said, outer, moment)
                fields, said = again.fields, again.text
            out.append(Line(place, said, piece.text[:RAW], self._speakers.of(fields), moment))


def scan(
    source: Source,
    kept: Kept | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Line]:
    """The logical lines of a source, in order, all of them; see :class:`Scanner`.

    Numbers count line feeds; carriage returns separate logical lines of one physical line.
    """
    return iter(Scanner(source, kept, on_bytes))


def physical_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Lines of UTF-8 (or GB18030) bytes: number from 1, content, and whether it is all of the line.

    A line longer than :data:`LONGEST` comes in parts of one number, cut at a carriage return or a
    blank where there is one.
    """
    for number, block, whole in blocks(chunks):
        if whole:
            yield from _numbered(block, number)
        else:
            yield number, block, False


def blocks(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Bytes cut at line ends: the first line's number, the block, whether it holds whole lines.

    Of whole lines each has its line feed (but for the last one of all, that may lack it), and none
    is longer than :data:`LONGEST`. Other blocks are a part of one line.
    """
    number = 1
    rest = b""
    parted = False
    for chunk in chunks:
        data = rest + chunk
        at = 0
        end = data.rfind(b"\n") + 1
        while at < end:
            # Long lines are rare: the next one is looked for only where one could be.
            stop = at if parted else _before_long(data, at, end)
            if stop > at:
                yield number, data[at:stop], True
                number += data.count(b"\n", at, stop)
                at = stop
            if at < end:
                stop = data.index(b"\n", at)
                for part in _parts(data[at:stop]):
                    yield number, part, False
                parted = False
                number += 1
                at = stop + 1
        rest = data[end:]
        if len(rest) > LONGEST:
            *parts, rest = _parts(rest)
            for part in parts:
                yield number, part, False
            parted = True
    if rest:
        if parted or len(rest) > LONGEST:
            for part in _parts(rest):
                yield number, part, False
        else:
            yield number, rest, True


def _before_long(data: bytes, at: int, end: int) -> int:
    """Where the first line longer than :data:`LONGEST` begins among whole lines, or their end."""
    while end - at > LONGEST:
        last = data.rfind(b"\n", at, at + LONGEST + 1) + 1
        if not last:
            return at
        at = last
    return end


def _numbered(block: bytes, number: int) -> Iterator[tuple[int, bytes, bool]]:
    """Whole lines one by one, without their ends."""
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for at, line in enumerate(lines, number):
        yield at, line[:-1] if line.endswith(b"\r") else line, True


def _parts(line: bytes) -> list[bytes]:
    parts = []
    start = 0
    while len(line) - start > LONGEST:
        end = start + LONGEST
        cut = line.rfind(b"\r", start + 1, end)
        if cut < 0:
            cut = line.rfind(b" ", start + LONGEST // 2, end)
        if cut < 0:
            cut = end
            while cut > end - 4 and line[cut] & 0xC0 == 0x80:
                cut -= 1
        parts.append(line[start:cut])
        start = cut
    parts.append(line[start:])
    return parts


def _told(chunks: Iterable[bytes], on_bytes: Callable[[int], None] | None) -> Iterator[bytes]:
    for chunk in chunks:
        if on_bytes is not None:
            on_bytes(len(chunk))
        yield chunk
