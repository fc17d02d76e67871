"""Words that every report needs: how sure, how long, when, which ranks, and text made harmless."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from unstall.model.facts import Moment
from unstall.model.secrets import HIDDEN, is_secret, redacted
from unstall.model.text import Text, TextValue, say, verbatim

LONGEST = 4000
"""Characters of one statement or quotation that a report shows at most."""

MOST_RANKS = 12
"""Runs of ranks that a rank list names before it only counts the rest."""

NOT_SET = "not set"
"""What a comparison of settings shows where a program was not given one."""

_ESCAPES = re.compile(
    "\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    "|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)"  # OSC: titles, links
    "|[PX^_][^\x1b]*\x1b\\\\"  # device control and other strings
    "|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)


class _Harmless(dict[int, "str | None"]):
    """A translation table that is filled as characters are met."""

    def __missing__(self, code: int) -> str | None:
        kind = unicodedata.category(chr(code))
        shown: str | None = chr(code)
        if kind in ("Zl", "Zp") or code in (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85):
            shown = " "
        elif kind == "Cc":
            shown = "\ufffd"
        elif kind == "Cs":
            shown = f"\\u{code:04x}"  # an undecodable byte of a file's name
        elif kind == "Cf" or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
            shown = None  # direction overrides, joiners, variation selectors: nothing to see
        self[code] = shown
        return shown


_HARMLESS = _Harmless()


def clean(text: str, most: int = LONGEST) -> str:
    """One line without anything that a terminal or a browser would obey.

    Terminal escapes are removed, white space becomes blanks, other control characters U+FFFD;
    invisible format characters go. At most ``most`` characters stay, the last an ellipsis.
    """
    if len(text) > most:
        text = text[: most - 1] + "…"
    return _ESCAPES.sub("", text).translate(_HARMLESS)


def speak(text: Text, language: str) -> str:
    """A sentence in a language, cleaned and without secrets."""
    return clean(redacted(text.render(language)))


def shown_value(name: str, value: str) -> str:
    """A setting's value, or :data:`HIDDEN` for one whose name says it is a secret."""
    return HIDDEN if value not in ("", "-", NOT_SET) and is_secret(name) else redacted(value)


def shown_command(words: Sequence[str]) -> tuple[str, ...]:
    """A command's words with the values of secret flags and variables hidden."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            shown.append(HIDDEN)
            hide_next = False
            continue
        secret = is_secret(name)
        hide_next = secret and not equals and word.startswith("--")
        shown.append(f"{name}={HIDDEN}" if secret and value else redacted(word))
    return tuple(shown)


def certainty(confidence: float) -> Text:
    """Confidence (0 to 1) in words."""
    if confidence >= 0.9:
        return say("almost certain")
    if confidence >= 0.75:
        return say("very likely")
    if confidence >= 0.5:
        return say("likely")
    if confidence >= 0.25:
        return say("possible")
    return say("not likely")


def percent(confidence: float) -> str:
    """Confidence (0 to 1) as a whole percentage; never 100 %, and 0 % only for none at all."""
    share = min(max(confidence, 0.0), 1.0)
    if share <= 0 or share != share:
        return "0%"
    return f"{min(max(round(share * 100), 1), 99)}%"


def strength(weight: float) -> Text:
    """What a piece of evidence's weight (natural logarithm of a likelihood ratio) amounts to."""
    if weight >= 4:
        return say("decisive")
    if weight >= 2.25:
        return say("strong")
    if weight >= 1.1:
        return say("fair")
    return say("weak")


def duration(milliseconds: float) -> Text:
    """A length of time in its two largest units: ``10 min``, ``9 h 33 min``, ``0.465 s``."""
    if milliseconds < 0 or milliseconds != milliseconds:
        return say("unknown")
    if milliseconds < 1:
        return say("{n} ms", n=f"{milliseconds:.3g}")
    seconds = milliseconds / 1000
    if seconds < 60:
        return say("{n} s", n=f"{seconds:.3f}".rstrip("0").rstrip("."))
    whole = round(seconds)
    if whole < 3600:
        return _pair(say("{n} min", n=whole // 60), say("{n} s", n=str(whole % 60)), whole % 60)
    minutes = round(seconds / 60)
    if minutes < 1440:
        rest = minutes % 60
        return _pair(say("{n} h", n=minutes // 60), say("{n} min", n=rest), rest)
    hours = round(seconds / 3600)
    return _pair(say("{n} d", n=f"{hours // 24:,}"), say("{n} h", n=hours % 24), hours % 24)


def _pair(large: Text, small: Text, rest: int) -> Text:
    return say("{large} {small}", large=large, small=small) if rest else large


def moment(when: Moment) -> Text:
    """A point in time as a person reads it; without a year where the log gave none."""
    stamp = when.stamp
    clock = f"{stamp:%H:%M:%S}" + (f".{stamp.microsecond // 1000:03d}" if stamp.microsecond else "")
    if when.zone is not None:
        sign = "-" if when.zone < 0 else "+"
        clock += f" UTC{sign}{abs(when.zone) // 60:02d}:{abs(when.zone) % 60:02d}"
    if when.year_known:
        return verbatim(f"{stamp.year:04d}-{stamp.month:02d}-{stamp.day:02d} {clock}")
    return say("{month} {day}, {clock}", month=_month(stamp.month), day=stamp.day, clock=clock)


def _month(number: int) -> Text:
    return (
        say("Jan"),
        say("Feb"),
        say("Mar"),
        say("Apr"),
        say("May"),
        say("Jun"),
        say("Jul"),
        say("Aug"),
        say("Sep"),
        say("Oct"),
        say("Nov"),
        say("Dec"),
    )[number - 1]


def runs(numbers: Iterable[int], most: int = MOST_RANKS) -> str:
    """Numbers in order with their runs joined: ``0-5, 7``; ``0, 2, 4, …`` where there are many."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    shown = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in spans]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")


def ranks(numbers: Iterable[int]) -> Text:
    """``rank 3``, ``ranks 0-5, 7`` or, where the list had to be cut, their number as well."""
    distinct = set(numbers)
    listed = runs(distinct)
    if len(distinct) == 1:
        return say("rank {ranks}", ranks=listed)
    if listed.endswith("…"):
        return say("ranks {ranks} ({n} in all)", ranks=listed, n=len(distinct))
    return say("ranks {ranks}", ranks=listed)


def sequence(parts: Sequence[TextValue]) -> Text:
    """Parts as one enumeration: comma-separated in English, with the language's own mark else."""
    if not parts:
        return verbatim("")
    joined: TextValue = parts[0]
    for part in parts[1:]:
        joined = say("{first}, {next}", first=joined, next=part)
    return joined if isinstance(joined, Text) else verbatim(str(joined))


def role(name: str) -> Text:
    """What a program of a role does in its job."""
    known = {
        "trainer": say("trainer"),
        "rollout": say("rollout"),
        "inference": say("inference"),
        "reward": say("reward model"),
        "launcher": say("launcher"),
        "node": say("node"),
    }
    return known.get(name) or verbatim(name)


def judgement(name: str) -> Text:
    """A setting's judgement as a word, so that no colour is needed."""
    known = {
        "ok": say("ok"),
        "conflict": say("CONFLICT"),
        "suspicious": say("suspicious"),
        "no effect": say("no effect"),
    }
    return known.get(name) or verbatim(name)


def part(name: str) -> Text:
    """What an excerpt's line has to do with the failure."""
    known = {
        "origin": say("origin"),
        "messenger": say("messenger"),
        "consequence": say("consequence"),
        "noise": say("noise"),
    }
    return known.get(name) or verbatim(name)
