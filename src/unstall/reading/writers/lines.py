"""What the readers of launchers, frameworks and schedulers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, NamedTuple, TypedDict

from unstall.model.facts import Fact, Moment, Place, Speaker
from unstall.reading.line import Line
from unstall.reading.literals import Literals
from unstall.reading.writers.stamps import full_moment, glog_stamp, python_stamp

# Linux numbers (signal(7), x86 and ARM): logs come from Linux wherever they are read.
SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
}
NUMBERS = {name: number for number, name in SIGNALS.items()}

# How strsignal(3) of glibc, shells and schedulers name them.
WORDS = {
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Hangup": "SIGHUP",
    "Illegal instruction": "SIGILL",
    "Interrupt": "SIGINT",
    "Killed": "SIGKILL",
    "Quit": "SIGQUIT",
    "Segmentation fault": "SIGSEGV",
    "Terminated": "SIGTERM",
    "Trace/breakpoint trap": "SIGTRAP",
    "User defined signal 1": "SIGUSR1",
    "User defined signal 2": "SIGUSR2",
    "CPU time limit exceeded": "SIGXCPU",
    "File size limit exceeded": "SIGXFSZ",
}


_CLOCK = re.compile(r"\d\d:\d\d:\d\d", re.ASCII)


class Common(TypedDict):
    """Fields that every fact takes from its line."""

    place: Place
    quote: str
    speaker: Speaker
    moment: Moment | None


def common(line: Line, speaker: Speaker | None = None) -> Common:
    """Where, who and when of a fact that one line tells."""
    return {
        "place": line.place,
        "quote": line.raw,
        "speaker": line.speaker if speaker is None else speaker,
        "moment": moment_of(line),
    }


def moment_of(line: Line) -> Moment | None:
    """The line's own time, else the one that its outer prefix told."""
    head = line.text[:160]
    if _CLOCK.search(head) is None:
        return line.moment
    for stamp in (glog_stamp(head), python_stamp(head)):
        if stamp is not None and stamp.moment is not None and len(stamp.before) < 60:
            return stamp.moment
    return full_moment(head[:80]) or line.moment


def exit_code(code: int) -> int:
    """An exit code as Python counts: shells' 128+N becomes -N."""
    return 128 - code if 128 < code <= 192 else code


def signal_of(code: int | None) -> str | None:
    """Name of the signal in a negative exit code."""
    return SIGNALS.get(-code) if code is not None and code < 0 else None


def small_int(digits: str | None) -> int | None:
    """A number of at most 18 digits, thousands separators allowed; ``None`` otherwise."""
    digits = (digits or "").replace(",", "").strip()
    sign = digits[:1] == "-"
    body = digits[1:] if sign else digits
    if not 0 < len(body) <= 18 or not (body.isascii() and body.isdigit()):
        return None
    return -int(body) if sign else int(body)


def small_float(digits: str | None) -> float | None:
    """A finite number of at most 40 characters; ``None`` otherwise."""
    digits = (digits or "").strip()
    if not 0 < len(digits) <= 40 or "_" in digits:
        return None
    try:
        value = float(digits.replace(",", ""))
    except ValueError:
        return None
    return value if -1e300 < value < 1e300 else None


class Pattern(NamedTuple):
    """One sentence of a writer.

    Attributes:
        marks: literals of which one stands in every line that the sentence is in; ``|`` separates.
        regex: the sentence.
        fact: the fact made of a match, or ``None`` where the match turns out to say nothing.
    """

    marks: str
    regex: re.Pattern[str]
    fact: Callable[[Line, re.Match[str]], Fact | None]


class Sentences:
    """A reader of sentences that stand alone on a line. Subclasses give ``patterns``."""

    patterns: tuple[Pattern, ...] = ()
    marks: tuple[str, ...] = ()
    _owners: ClassVar[tuple[set[int], ...]] = ()
    _literals: ClassVar[Literals | None] = None
    many = False
    """Whether one line can hold several of the sentences; else the first that fits counts."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owners: dict[str, set[int]] = {}
        for at, pattern in enumerate(cls.patterns):
            for mark in pattern.marks.split("|"):
                owners.setdefault(mark, set()).add(at)
        cls.marks = tuple(owners)
        cls._owners = tuple(owners.values())
        cls._literals = None

    @property
    def wants_more(self) -> bool:
        """Never: each sentence stands on one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The facts of one line."""
        facts: list[Fact] = []
        text = line.text[:LONGEST]
        for at in self._possible(text):
            _, regex, make = self.patterns[at]
            found = regex.search(text)
            if found is None:
                continue
            fact = make(line, found)
            if fact is not None:
                facts.append(fact)
                if not self.many:
                    break
        return facts

    @classmethod
    def _possible(cls, text: str) -> list[int]:
        """Which patterns have a mark in the text, in their order."""
        if cls._literals is None:
            cls._literals = Literals(cls.marks)
        return sorted({at for mark in cls._literals.found(text) for at in cls._owners[mark]})

    def finish(self) -> Iterable[Fact]:
        """Nothing is held back."""
        return ()


LONGEST = 16_384
"""Characters of a line that sentences are looked for in."""


class Thinned:
    """Bounds how many facts of a kind that repeats for hours are kept.

    Up to ``limit`` facts pass as they come. After that, only the latest of each key is held and
    given out at the end, so that the last state before a stall is never lost.
    """

    def __init__(self, limit: int = 20_000, keys: int = 2_000) -> None:
        self._left = limit
        self._keys = keys
        self._latest: dict[Hashable, Fact] = {}

    def pass_on(self, key: Hashable, fact: Fact) -> tuple[Fact, ...]:
        """The fact itself while the limit lasts, else nothing now."""
        if self._left > 0:
            self._left -= 1
            return (fact,)
        if key in self._latest or len(self._latest) < self._keys:
            self._latest[key] = fact
        return ()

    def rest(self) -> list[Fact]:
        """The latest fact of each key, in the order of their places."""
        facts = sorted(self._latest.values(), key=lambda fact: fact.place)
        self._latest = {}
        return facts
