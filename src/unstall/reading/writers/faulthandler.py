"""Fatal signals: Python's faulthandler, torch's and absl's signal handlers, the C library.

Sources: ``Python/pylifecycle.c`` and ``Modules/faulthandler.c`` of CPython 3.8 to 3.14,
``c10/util/signal_handler.cpp``, absl's failure signal handler (which Ray installs), glibc's
``fortify_fail`` and ``malloc_printerr``, c10's ``!!!!!!! Segfault encountered !!!!!!!``, UCX's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from unstall.model.facts import Fact, FatalSignal, Frame, Speaker
from unstall.reading.line import Line
from unstall.reading.writers.lines import Common, common

_FATAL = re.compile(
    r"(?:Fatal Python error|Windows fatal exception): ([^:\n]{1,200}(?::.{0,300})?)"
)
_THREAD = re.compile(
    r"^\s*(?:Current thread|Thread) 0x[0-9a-fA-F]{1,16}\b.{0,200}most recent call first"
)
_FRAME = re.compile(r"^\s*File \"([^\"]{1,600})\", line (\d{1,8}) in (.{1,300})$", re.ASCII)
_NATIVE = re.compile(
    r"^\s*(?:#\d{1,3} |@ |\d{1,3} (?=0x))\s*(?:0x[0-9a-fA-F]{1,16}:? )?(.{1,300})$"
)
_TORCH = re.compile(r"!{3,12} ?(Segfault|SIG[A-Z]{2,8}) encountered ?!{3,12}")
_ABSL = re.compile(r"\*\*\* (SIG(?:SEGV|ABRT|BUS|FPE|ILL|TRAP)) (?:\([^)]{1,80}\) )?received")
_GLIBC = re.compile(
    r"\*\*\* (stack smashing detected|buffer overflow detected) \*\*\*"
    r"|^(?:\S{1,200}: )?(double free or corruption(?: \([\w!]{1,20}\))?"
    r"|free\(\): invalid (?:pointer|size|next size(?: \(\w{1,10}\))?)"
    r"|munmap_chunk\(\): invalid pointer|corrupted size vs\. prev_size(?: [\w ]{1,30})?"
    r"|corrupted double-linked list|malloc\(\): [a-z].{1,60}|malloc_consolidate\(\): .{1,60}"
    r"|realloc\(\): invalid .{1,40})\s*$"
)
# UCX's handler, which MPI programs and NCCL's plug-ins bring along (ucs/debug/debug.c)
_UCX = re.compile(
    r"\[[\w.-]{1,200}:\d{1,10} ?:\d{1,6} ?:\d{1,10}\] Caught signal \d{1,3} "
    r"\(([A-Z][A-Za-z /]{2,40})(?=[:)])"
)
_GLOG_SIGNAL = re.compile(r"\*\*\* (?:Process received signal|Aborted at \d)")
_KEPT = 100


class _Dump(msgspec.Struct):
    first: Common
    what: str
    state: str = "head"
    frames: list[Frame] = []
    blanks: int = 0
    lines: int = 0


class FatalSignals:
    """Fatal signals with the frames of the thread that met them, innermost first."""

    marks: tuple[str, ...] = (
        "Fatal Python error: ",
        "Windows fatal exception: ",
        "most recent call first",
        "encountered !!",
        "encountered!!",
        "*** SIG",
        "*** stack smashing",
        "*** buffer overflow",
        "double free or corruption",
        "free(): invalid",
        "munmap_chunk(): invalid",
        "corrupted size vs",
        "corrupted double-linked",
        "malloc(): ",
        "malloc_consolidate(): ",
        "realloc(): invalid",
        "*** Process received signal",
        "Caught signal ",
    )

    def __init__(self) -> None:
        self._open: dict[Speaker, _Dump] = {}

    @property
    def wants_more(self) -> bool:
        """Whether frames are being read."""
        return bool(self._open)

    def feed(self, line: Line) -> Iterable[Fact]:
        """Fatal signals that this line completes."""
        text = line.text[:2048]
        who = line.speaker
        facts: list[Fact] = []
        what = _named(text)
        if what is not None:
            facts += self._close(who)
            if len(self._open) < 256:
                self._open[who] = _Dump(first=common(line), what=what)
            return facts
        one = self._open.get(who)
        if one is None:
            return facts
        one.lines += 1
        if one.lines > 400:
            return self._close(who)
        return facts + self._more(who, one, text)

    def finish(self) -> Iterable[Fact]:
        """Fatal signals whose frames the source's end cut."""
        return [fact for who in list(self._open) for fact in self._close(who)]

    def _more(self, who: Speaker, one: _Dump, text: str) -> list[Fact]:
        body = text.strip()
        if not body:
            one.blanks += 1
            return self._close(who) if one.frames or one.blanks > 3 else []
        if _THREAD.match(text) is not None:
            if one.frames:
                return self._close(who)
            # Other threads stand before or after the current one; only its frames matter.
            one.state = "frames" if body.startswith("Current") or "Thread" in body else one.state
            return []
        if (found := _FRAME.match(text)) is not None:
            if len(one.frames) < _KEPT:
                one.frames.append(Frame(found[3].strip(), found[1], int(found[2])))
            return []
        if (found := _NATIVE.match(text)) is not None:
            if len(one.frames) < _KEPT:
                one.frames.append(Frame(found[1].strip(), "", None, native=True))
            return []
        one.blanks += 1
        return self._close(who) if one.blanks > 6 else []

    def _close(self, who: Speaker) -> list[Fact]:
        one = self._open.pop(who, None)
        if one is None:
            return []
        return [FatalSignal(**one.first, what=one.what, frames=tuple(one.frames))]


def _named(text: str) -> str | None:
    """The fatal signal that a line names, in the C library's words where it is a signal."""
    if (found := _FATAL.search(text)) is not None:
        return found[1].strip()
    if (found := _TORCH.search(text)) is not None:
        return "Segmentation fault" if found[1] == "Segfault" else _WORDS.get(found[1], found[1])
    if (found := _ABSL.search(text)) is not None:
        return _WORDS.get(found[1], found[1])
    if (found := _GLIBC.search(text)) is not None:
        return (found[1] or found[2]).strip()
    if (found := _UCX.search(text)) is not None:
        return found[1].strip()
    if _GLOG_SIGNAL.search(text) is not None:
        return "Aborted"
    return None


_WORDS = {
    "SIGSEGV": "Segmentation fault",
    "SIGABRT": "Aborted",
    "SIGBUS": "Bus error",
    "SIGFPE": "Floating point exception",
    "SIGILL": "Illegal instruction",
    "SIGTRAP": "Trace/breakpoint trap",
}
