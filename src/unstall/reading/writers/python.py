"""Python tracebacks: one fact for each exception, whoever printed it and however often.

Reads the interpreter's own form (3.6 to 3.14, with and without ``^^^^`` markers, exception
groups), lost indentation, several unmarked processes printing at once, loggers that put a header
before every line (vLLM), torchrun's report with an ``error_file``, the inner tracebacks of
mp.spawn and DataLoader, Ray's ``ray::task() (pid=…)`` sections and the boxes of ``rich``.

An exception that another one caused or that was raised again in another process is told with
``notes``; the one it came from is a fact of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from unstall.model.facts import CutTraceback, Fact, Frame, PythonException, Speaker
from unstall.reading.line import Line
from unstall.reading.writers.lines import Common, common, small_int
from unstall.reading.writers.traceback_text import (
    BARE,
    BOX,
    BOX_FRAME,
    CHAIN,
    FRAME,
    HEADER,
    IGNORED,
    ORIGINAL,
    RAY,
    SPAWN,
    Final,
    body_of,
    final_line,
    from_launcher,
    goes_on,
    indent_of,
    is_marker,
    without_headers,
)

_KEPT = 2_000
"""Different exceptions remembered, so that copies are counted rather than repeated."""
_OPEN = 512
"""Speakers whose tracebacks are read at the same time."""
_HEAD, _TAIL = 40, 160
"""Frames kept of a traceback: a recursion can have thousands."""
_JUNK = 60
"""Foreign lines after which a traceback that never came to its last line is dropped."""
_MESSAGE = 2_000
_PATIENCE = 2_000
"""Lines of others after which a speaker's traceback is taken to be complete."""
_SHORT = ("Empty", "Full", "Disconnect", "Disconnected", "Cancelled", "Closed", "Abort", "Killed")
"""Ends of exceptions' names that have no ``Error`` and often no message: ``queue.Empty``."""
_REPORT_RANK = re.compile(r"rank\s{0,12}: (\d{1,9}) \(local_rank: (\d{1,9})\)", re.ASCII)


class _Outer(msgspec.Struct):
    """An exception that only repeats the one that is being read."""

    fact: PythonException


class _Open(msgspec.Struct):
    """One speaker's traceback while it is being read.

    ``waiting`` counts headers whose last line has not come: more than one where several
    processes without a prefix print at once. Their frames are told apart by the first one's:
    ``behind`` holds how far each of the others has come.
    """

    first: Common
    waiting: int = 1
    frame_indent: int = -1
    fresh: bool = False
    """Whether the line before was a frame, so that this one is its source."""
    close: bool = True
    """Whether the line before belonged to this traceback."""
    boxed: bool = False
    source: str | None = None
    head: list[Frame] = []
    tail: list[Frame] = []
    behind: list[int] = []
    notes: tuple[str, ...] = ()
    outers: list[_Outer] = []
    junk: int = 0
    blanks: int = 0
    final: Final | None = None
    message: list[str] = []
    size: int = 0
    touched: int = 0


def _broken_off(one: _Open) -> bool:
    """Whether the input ended within the exception's name: ``RuntimeEr`` is no class."""
    final = one.final
    if final is None or final.sure or final.told or any(one.message) or one.outers:
        return False
    return not final.type.endswith(_SHORT)


class Tracebacks:
    """Turns tracebacks, and last lines that stand alone, into exceptions."""

    marks: tuple[str, ...] = (
        "Traceback (most recent call last)",
        'File "',
        "Error: ",
        "Error:",
        "Exception: ",
        "ray::",
        "KeyboardInterrupt",
        "Exception ignored in",
        "rank      : ",
    )

    def __init__(self) -> None:
        self._open: dict[Speaker, _Open] = {}
        self._chain: dict[Speaker, tuple[str, ...]] = {}
        self._told: dict[tuple[object, ...], PythonException] = {}
        self._aliases: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._report_rank: dict[Speaker, tuple[int, int]] = {}
        self._ignored: set[Speaker] = set()
        self._clock = 0

    @property
    def wants_more(self) -> bool:
        """Whether a traceback is open."""
        return bool(self._open)

    def feed(self, line: Line) -> Iterable[Fact]:
        """Nothing, as a rule: exceptions are told at the end, when their copies are counted."""
        self._clock += 1
        facts = self._sweep() if self._clock % 512 == 0 else []
        facts += self._read(line)
        if (one := self._open.get(line.speaker)) is not None:
            one.touched = self._clock
        return facts

    def _sweep(self) -> list[Fact]:
        """Closes what has waited too long, so that a crash does not make the rest slow."""
        old = [who for who, one in self._open.items() if self._clock - one.touched > _PATIENCE]
        return [fact for who in old for fact in self._tell(who)]

    def _read(self, line: Line) -> Iterable[Fact]:
        text = without_headers(line.text[:8192])
        who = line.speaker
        found = _REPORT_RANK.search(text) if "local_rank: " in text else None
        if found is not None and len(self._report_rank) < _OPEN:
            self._report_rank[who] = (int(found[1]), int(found[2]))
        ignored = "Exception ignored in" in text and IGNORED.match(text) is not None
        if ignored and len(self._ignored) < _OPEN:
            self._ignored.add(who)
        one = self._open.get(who)
        if HEADER.search(text) is not None:
            return self._header(line, text)
        if one is None:
            return self._alone(line, text)
        if one.final is None:
            return self._inside(line, one, text)
        if self._after(who, one, text):
            return ()
        if who not in self._open:
            return self._alone(line, text)
        return [*self._tell(who), *self._alone(line, text)]

    def finish(self) -> Iterable[Fact]:
        """Every exception once, in the order of their places; then tracebacks that were cut off."""
        cut = [
            CutTraceback(**one.first, frames=(*one.head, *one.tail[-_TAIL:]))
            for one in self._open.values()
            if one.head and not one.outers and (one.final is None or _broken_off(one))
        ]
        for who in [who for who, one in self._open.items() if one.head and _broken_off(one)]:
            self._open.pop(who)
        extra = [fact for who in list(self._open) for fact in self._tell(who)]
        told = sorted(self._told.values(), key=lambda fact: fact.place)
        self._told = {}
        return [*extra, *told, *cut]

    def _header(self, line: Line, text: str) -> list[Fact]:
        who = line.speaker
        one = self._open.get(who)
        if one is None:
            self._start(line, text)
            return []
        if one.final is None:
            if one.boxed or BOX.search(text) is not None:
                self._open.pop(who)
                self._start(line, text)
            else:
                one.waiting = min(one.waiting + 1, _OPEN)
                if len(one.behind) < _OPEN:
                    one.behind.append(0)
            return []
        spawned = SPAWN.search(one.message[-1]) if one.message else None
        if spawned is not None or ORIGINAL.search(text) is not None:
            outer = self._open.pop(who)
            self._start(line, text, outer=outer)
            if spawned is not None:
                inner = self._open[who].first
                inner["speaker"] = msgspec.structs.replace(who, local_rank=int(spawned[1]))
            return []
        if one.waiting > 1:
            return []
        facts = self._tell(who)
        self._start(line, text)
        return facts

    def _start(self, line: Line, text: str, outer: _Open | None = None) -> _Open:
        who = line.speaker
        if len(self._open) >= _OPEN:
            self._tell(next(iter(self._open)))
        one = _Open(first=common(line), notes=self._chain.pop(who, ()))
        if outer is not None:
            one.outers = [*outer.outers, _Outer(self._fact(outer))][-16:]
        if BOX.search(text) is not None:
            one.boxed = True
        if (ray := RAY.search(text)) is not None:
            one.source = "ray"
            one.first["speaker"] = msgspec.structs.replace(
                who, rank=None, pid=small_int(ray[2]), host=ray[3], name=ray[1].split(".")[0]
            )
        elif "traceback :" in text and who in self._report_rank:
            rank, local = self._report_rank.pop(who)
            one.first["speaker"] = msgspec.structs.replace(who, rank=rank, local_rank=local)
        if who in self._ignored:
            self._ignored.discard(who)
            one.source = "ignored"
        self._open[who] = one
        return one

    def _inside(self, line: Line, one: _Open, text: str) -> list[Fact]:
        body = body_of(text)
        if one.boxed:
            if (found := BOX_FRAME.match(body)) is not None:
                _add(one, Frame(found[3], found[1], int(found[2])))
            elif body and body[0] not in "│|╰╭❱":
                self._last(line, one, body, trusting=bool(one.head))
            return []
        indent = indent_of(text)
        if (found := FRAME.match(text)) is not None:
            _add(one, Frame((found[3] or "?").strip(), found[1], int(found[2])))
            one.frame_indent, one.junk = indent, 0
            one.fresh = one.close = True
            return []
        if not body or is_marker(body) or body.startswith("[Previous line repeated"):
            one.fresh = False
            return []
        kept = one.frame_indent > 0
        fresh, one.fresh = one.fresh, False
        if kept and indent > one.frame_indent:
            return []
        if fresh and not kept:
            final = final_line(body, trusting=False)
            if final is None or not final.sure:
                return []
        self._last(line, one, body, trusting=kept and one.close and indent < one.frame_indent)
        return []

    def _last(self, line: Line, one: _Open, body: str, *, trusting: bool) -> None:
        """Takes a line for the last one if it looks so, and else counts it as foreign."""
        final = final_line(body, trusting=trusting)
        if final is None:
            one.close = False
            one.junk += 1
            if one.junk > _JUNK:
                self._open.pop(line.speaker, None)
            return
        one.final, one.message, one.size, one.blanks = final, [final.told], len(final.told), 0
        if RAY.search(body) is not None:
            outer = self._open.pop(line.speaker)
            self._start(line, body, outer=outer)

    def _after(self, who: Speaker, one: _Open, text: str) -> bool:
        """Whether a line behind the last line still belongs to this traceback."""
        body = body_of(text)
        if not body:
            one.blanks += 1
            return one.blanks <= 3
        if CHAIN.search(body) is not None and one.final is not None:
            notes = (*one.notes, one.final.type)[-16:]
            self._tell(who)
            if len(self._chain) < _OPEN:
                self._chain[who] = notes
            return True
        if one.waiting > 1 and self._another(one, text, body):
            return True
        if one.blanks and SPAWN.match(body) is None:
            return False
        if not goes_on(one.message, body, indent_of(text)):
            return False
        if one.size < _MESSAGE:
            one.message.append(body)
            one.size += len(body) + 1
        return True

    def _another(self, one: _Open, text: str, body: str) -> bool:
        """Whether the line belongs to another process that prints the same traceback."""
        if (found := FRAME.match(text)) is not None:
            frame = Frame((found[3] or "?").strip(), found[1], int(found[2]))
            return frame in one.head or frame in one.tail
        if indent_of(text) > 2 or is_marker(body):
            return True
        final = final_line(body, trusting=False)
        if final is None or one.final is None:
            return False
        one.waiting -= 1
        one.blanks = 0
        if final != one.final:
            self._count(self._fact(one))
            one.final, one.message, one.size = final, [final.told], len(final.told)
            return True
        self._count(self._fact(one))
        return True

    def _alone(self, line: Line, text: str) -> list[Fact]:
        """A frame, a Ray section or a last line whose head was cut off."""
        if (found := FRAME.match(text)) is not None:
            if found[3]:
                self._inside(line, self._start(line, text), text)
            return []
        body = text.strip().strip("`")  # a line that a person quotes
        if BARE.match(body) is not None:
            final = final_line(body, trusting=False)
            if final is not None and final.sure:
                self._last(line, self._start(line, ""), body, trusting=False)
                return []
        if RAY.search(text) is not None and "(pid=" in text:
            self._start(line, text)
        return []

    def _tell(self, who: Speaker) -> list[Fact]:
        one = self._open.pop(who)
        if one.final is None:
            # Ray's section without an end, or a cut traceback: what it repeats is still true.
            return [fact for outer in one.outers for fact in self._count(outer.fact)]
        facts = self._count(self._fact(one))
        for outer in reversed(one.outers):
            facts += self._count(
                msgspec.structs.replace(outer.fact, notes=(one.final.type, *outer.fact.notes))
            )
        return facts

    @staticmethod
    def _fact(one: _Open) -> PythonException:
        kind = one.final.type if one.final is not None else "?"
        frames = (*one.head, *one.tail[-_TAIL:])
        source = one.source
        if source is None and from_launcher(kind, frames):
            source = "launcher"
        return PythonException(
            **one.first,
            type=kind,
            message="\n".join(one.message)[:_MESSAGE].strip("\n"),
            frames=frames,
            notes=one.notes,
            frames_from=source,
        )

    def _count(self, fact: PythonException) -> list[Fact]:
        """Counts a copy of a known exception, or remembers a new one."""
        said = (fact.type, fact.message[:200])
        who = fact.speaker
        last = fact.frames[-1:]
        keys: list[tuple[object, ...]] = [(who, *said, last)]
        if who.rank is not None:
            keys.append((who.rank, *said))
        if not last:
            keys.append((who, *said))
        for key in keys:
            if (at := self._aliases.get(key)) is not None:
                seen = self._told[at]
                early, late = sorted((seen, fact), key=lambda one: one.place)
                self._told[at] = msgspec.structs.replace(
                    early,
                    frames=max(early.frames, late.frames, key=len),
                    notes=early.notes or late.notes,
                    copies=seen.copies + fact.copies,
                )
                return []
        if len(self._told) >= _KEPT:
            return [fact]
        self._told[keys[0]] = fact
        for key in {*keys, (who, *said)}:
            self._aliases.setdefault(key, keys[0])
        return []


def _add(one: _Open, frame: Frame) -> None:
    """Adds a frame, unless it is one that another waiting process has only now come to."""
    seen = [*one.head, *one.tail] if one.behind else []
    for which, place in enumerate(one.behind):
        if place < len(seen) and seen[place] == frame:
            one.behind[which] += 1
            return
    if len(one.head) < _HEAD:
        one.head.append(frame)
        return
    one.tail.append(frame)
    if len(one.tail) > 2 * _TAIL:
        del one.tail[:_TAIL]
