"""What every report shows of a diagnosis, in one language and harmless, before any layout.

The terminal, Markdown and HTML reports only lay this out; the words and the choice of what is
said stand here, so that all of them say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unstall.model.facts import Fact, Place, Unreadable
from unstall.model.findings import (
    Change,
    Collective,
    Diagnosis,
    Evidence,
    Exonerated,
    Finding,
    Fix,
    Origin,
    ProcessGroup,
    Ranked,
)
from unstall.model.plan import JUDGEMENTS, Cited, Judgement
from unstall.model.secrets import redacted
from unstall.model.text import Text, TextValue, say, verbatim
from unstall.reports import words
from unstall.reports.launched import ProgramView, program_view
from unstall.reports.words import clean, speak

MOST_REASONS = 6
"""Reasons that a verdict names; the rest stands in the evidence."""


@dataclass(frozen=True)
class Point:
    """One statement.

    Attributes:
        text: the statement.
        cites: ``file:line`` of the lines it rests on.
        head: what it is about: a cause's identifier; empty for none.
        strength: how much it proves, in a word.
        source: the source of the knowledge it rests on: framework, version, file or document.
    """

    text: str
    cites: tuple[str, ...] = ()
    head: str = ""
    strength: str = ""
    source: str = ""


@dataclass(frozen=True)
class FixView:
    """What to do, and the change of settings it comes down to (empty: none)."""

    text: str
    change: str = ""


@dataclass(frozen=True)
class CauseView:
    """One ranked cause with all its evidence; ``head`` names it and says how sure it is."""

    id: str
    head: str
    summary: str
    support: tuple[Point, ...]
    against: tuple[Point, ...]
    fixes: tuple[FixView, ...]
    next_step: str


@dataclass(frozen=True)
class SettingView:
    """One row of the settings; ``level`` is the judgement's name, ``word`` how it is shown."""

    name: str
    values: tuple[str, ...]
    level: str
    word: str
    why: str
    cites: tuple[str, ...]
    correction: str


@dataclass(frozen=True)
class ExcerptView:
    """A line of the input; ``part`` is its role's name, ``word`` how it is shown."""

    part: str
    word: str
    cite: str
    text: str


@dataclass(frozen=True)
class Outline:
    """Everything that a report of one diagnosis shows. All strings are cleaned single lines.

    Attributes:
        facts: label and value of what identifies the failure, in the order to show them.
        reasons: the strongest evidence for the first cause, strongest first.
        benign: lines that look alarming and are not.
        others: the other causes, one line each.
        causes: every cause with its whole evidence.
        columns: labels of the programs, as columns of the settings.
        names: how many sources of the cited lines have a file name.
        titles: the fixed words, by key.
    """

    language: str
    verdict: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    reasons: tuple[Point, ...]
    ruled_out: tuple[Point, ...]
    benign: tuple[Point, ...]
    fixes: tuple[FixView, ...]
    next_step: str
    others: tuple[Point, ...]
    causes: tuple[CauseView, ...]
    columns: tuple[str, ...]
    settings: tuple[SettingView, ...]
    timeline: tuple[Point, ...]
    excerpts: tuple[ExcerptView, ...]
    programs: tuple[ProgramView, ...]
    notes: tuple[Point, ...]
    unread: tuple[Point, ...]
    read: str
    names: dict[str, int]
    titles: dict[str, str]

    def pair(self, head: str, text: str) -> str:
        """``head: text`` with the language's colon; the text alone without a head."""
        return speak(say("{head}: {text}", head=head, text=text), self.language) if head else text

    def brief(self, cite: str) -> str:
        """A line's place without its folder, where only one source has that name."""
        source, _, line = cite.rpartition(":")
        name = source.rpartition("/")[2]
        return f"{name}:{line}" if name and self.names.get(name) == 1 else cite

    def left_out(self, number: int) -> str:
        """Says that so many more are shown by ``-v``."""
        return speak(say("{n} more with -v", n=number), self.language)


def outline(diagnosis: Diagnosis, language: str = "en") -> Outline:
    """The outline of a diagnosis in ``en`` or ``zh``."""
    first = diagnosis.causes[0] if diagnosis.causes else None
    settings = diagnosis.settings or diagnosis.plan.judgements
    programs = diagnosis.programs or diagnosis.plan.programs
    columns = _columns([program.label for program in programs], settings)
    finding = first.finding if first else None
    return Outline(
        language=language,
        verdict=diagnosis.verdict,
        headline=speak(headline(diagnosis), language),
        facts=tuple(
            (speak(label, language), speak(value, language)) for label, value in _facts(diagnosis)
        ),
        reasons=_points(strongest(finding.support), language) if finding else (),
        ruled_out=tuple(_ruled_out(e, language) for e in diagnosis.exonerated),
        benign=tuple(_ruled_out(e, language) for e in diagnosis.benign),
        fixes=tuple(_fix(f, language) for f in finding.fixes) if finding else (),
        next_step=speak(finding.next_step, language) if finding and finding.next_step else "",
        others=tuple(_other(r, language) for r in diagnosis.causes[1:]),
        causes=tuple(_cause(r, language) for r in diagnosis.causes),
        columns=tuple(clean(label) for label in columns),
        settings=_settings(settings, columns, language),
        timeline=_points(finding.timeline, language, strengths=False) if finding else (),
        excerpts=tuple(
            ExcerptView(
                excerpt.role,
                speak(words.part(excerpt.role), language),
                _cite(excerpt.place),
                clean(excerpt.text),
            )
            for excerpt in diagnosis.excerpts
        ),
        programs=tuple(program_view(program, language) for program in programs),
        notes=tuple(_note(n, language) for n in diagnosis.plan.notes),
        unread=tuple(_unread(fact, language) for fact in diagnosis.unread),
        read=speak(_read(diagnosis.counts), language) if diagnosis.counts else "",
        names=_names(diagnosis),
        titles={key: speak(text, language) for key, text in _titles(diagnosis).items()},
    )


def headline(diagnosis: Diagnosis) -> Text:
    """The verdict in one sentence."""
    first = diagnosis.causes[0] if diagnosis.causes else None
    if diagnosis.verdict == "benign":
        return say("Nothing failed in this input.")
    if first is None:
        return say("The input does not show what failed.")
    summary = first.finding.summary
    if first.finding.cause == "unknown":
        return say("Not decided: {summary}", summary=summary)
    if diagnosis.verdict == "inconclusive":
        return say("Not decided; the best candidate: {summary}", summary=summary)
    return summary


def strongest(evidence: Sequence[Evidence], most: int = MOST_REASONS) -> list[Evidence]:
    """The pieces of evidence with the greatest weights, greatest first."""
    return sorted(evidence, key=lambda item: -item.weight)[:most]


def surely(ranked: Ranked) -> Text:
    """How sure a cause is: ``very likely (82%)``. ``unknown`` claims nothing."""
    if ranked.finding.cause == "unknown":
        return say("the evidence does not decide")
    return say(
        "{word} ({percent})",
        word=words.certainty(ranked.confidence),
        percent=words.percent(ranked.confidence),
    )


def group_text(group: ProcessGroup) -> Text:
    """A process group: what it is for, its numbers, its ranks."""
    parts: list[TextValue] = []
    if group.meaning is not None:
        parts.append(group.meaning)
    if group.name:
        parts.append(say('named "{name}"', name=group.name))
    if group.id is not None:
        parts.append(f"PG ID {group.id}")
    if group.guid is not None:
        parts.append(f"PG GUID {group.guid}")
    if group.ranks:
        parts.append(words.ranks(group.ranks))
    return words.sequence(parts)


def origin_text(origin: Origin) -> Text:
    """Where a failure started: program, role, software, ranks."""
    kinds: list[TextValue] = [] if origin.role == origin.program else [words.role(origin.role)]
    if origin.software and origin.software != origin.program:
        kinds.append(origin.software)
    where = _program(origin.program)
    if kinds:
        where = say("{program} ({kind})", program=where, kind=words.sequence(kinds))
    if origin.ranks:
        return say("{first}, {next}", first=where, next=words.ranks(origin.ranks))
    return where


def collective_text(collective: Collective) -> Text:
    """The operation that could not finish."""
    parts: list[TextValue] = [collective.op or say("unnamed operation")]
    if collective.seq is not None:
        parts.append(f"SeqNum {collective.seq}")
    if collective.numel_in is not None and collective.numel_in == collective.numel_out:
        one = collective.numel_in == 1
        parts.append(say("1 element") if one else say("{n} elements", n=collective.numel_in))
    elif collective.numel_in is not None and collective.numel_out is not None:
        sizes = (collective.numel_in, collective.numel_out)
        parts.append(say("{a} elements in, {b} out", a=sizes[0], b=sizes[1]))
    elif collective.numel_in is not None:
        one = collective.numel_in == 1
        parts.append(say("1 element in") if one else say("{n} elements in", n=collective.numel_in))
    elif collective.numel_out is not None:
        one = collective.numel_out == 1
        parts.append(
            say("1 element out") if one else say("{n} elements out", n=collective.numel_out)
        )
    if collective.timeout_ms is not None:
        parts.append(say("time-out {time}", time=words.duration(collective.timeout_ms)))
    return words.sequence(parts)


def change_text(change: Change) -> Text:
    """A machine-readable change as a person reads it."""
    parts: list[TextValue] = []
    if change.set:
        pairs = [f"{k}={words.shown_value(k, v)}" for k, v in change.set.items()]
        parts.append(say("set {settings}", settings=" ".join(pairs)))
    if change.unset:
        parts.append(say("remove {settings}", settings=" ".join(change.unset)))
    return say("{program}: {change}", program=change.program, change=words.sequence(parts))


def _facts(diagnosis: Diagnosis) -> Iterable[tuple[Text, Text]]:
    if diagnosis.attempts > 1:
        attempts = say("{n} in this input; this is about the last", n=diagnosis.attempts)
        yield say("attempts"), attempts
    if not diagnosis.causes:
        return
    first = diagnosis.causes[0]
    finding = first.finding
    yield say("cause"), say("{cause}: {sure}", cause=finding.cause, sure=surely(first))
    if finding.origin is not None:
        yield say("origin"), origin_text(finding.origin)
        group = finding.origin.process_group
        if group is not None and group != ProcessGroup():
            yield say("group"), group_text(group)
    if finding.collective is not None:
        yield say("operation"), collective_text(finding.collective)
    if finding.started_at is not None:
        yield say("since"), words.moment(finding.started_at)
    if finding.waiting_ranks:
        yield say("waiting"), _waiting(finding)


def _waiting(finding: Finding) -> Text:
    waiting = words.ranks(finding.waiting_ranks)
    if finding.origin is None:
        return say("{ranks} only waited", ranks=waiting)
    program = _program(finding.waiting_program or finding.origin.program)
    return say("{ranks} of {program} only waited", ranks=waiting, program=program)


def _program(label: str) -> Text:
    return say("a program not identified") if label == "unknown" else verbatim(label)


def _read(counts: dict[str, int]) -> Text:
    lines, sources = counts.get("lines", 0), counts.get("sources", 0)
    return say(
        "Lines read: {lines}; sources: {sources}.", lines=f"{lines:,}", sources=f"{sources:,}"
    )


def _names(diagnosis: Diagnosis) -> dict[str, int]:
    sources = {item.place.source for item in diagnosis.excerpts}
    for ranked in diagnosis.causes:
        evidence = (*ranked.finding.support, *ranked.finding.against)
        sources.update(item.place.source for item in evidence if item.place)
    for ruled_out in (*diagnosis.exonerated, *diagnosis.benign):
        sources.update(place.source for place in ruled_out.places)
    return dict(Counter(clean(source).rpartition("/")[2] for source in sources))


def _cite(place: Place) -> str:
    return clean(str(place))


def _points(
    evidence: Iterable[Evidence], language: str, *, strengths: bool = True
) -> tuple[Point, ...]:
    points = []
    for item in evidence:
        points.append(
            Point(
                speak(item.text, language),
                (_cite(item.place),) if item.place else (),
                strength=speak(words.strength(item.weight), language)
                if strengths and item.weight > 0
                else "",
                source=clean(item.source or ""),
            )
        )
    return tuple(points)


def _ruled_out(item: Exonerated, language: str) -> Point:
    return Point(speak(item.why, language), tuple(map(_cite, item.places)), head=clean(item.id))


def _note(note: Cited, language: str) -> Point:
    return Point(speak(note.text, language), tuple(map(_cite, note.places)))


def _unread(fact: Fact, language: str) -> Point:
    head = clean(fact.place.source)
    if isinstance(fact, Unreadable) and fact.text is not None:
        return Point(speak(fact.text, language), head=head)
    return Point(clean(fact.reason if isinstance(fact, Unreadable) else fact.quote), head=head)


def _of_unread(facts: Sequence[Fact]) -> Text:
    """What is said of sources: some may have been read, but for a part of them."""
    fatal = {not isinstance(fact, Unreadable) or fact.fatal for fact in facts}
    if fatal == {False}:
        return say("Not read whole")
    return say("Could not be read, or not whole") if False in fatal else say("Could not be read")


def _fix(fix: Fix, language: str) -> FixView:
    change = fix.change
    if change is None or not (change.set or change.unset):
        return FixView(speak(fix.text, language))
    return FixView(speak(fix.text, language), speak(change_text(change), language))


def _other(ranked: Ranked, language: str) -> Point:
    head = say("{first}, {next}", first=ranked.finding.cause, next=surely(ranked))
    return Point(speak(ranked.finding.summary, language), head=speak(head, language))


def _cause(ranked: Ranked, language: str) -> CauseView:
    finding = ranked.finding
    return CauseView(
        id=clean(finding.cause),
        head=speak(
            say("Evidence on {cause}: {sure}", cause=finding.cause, sure=surely(ranked)), language
        ),
        summary=speak(finding.summary, language),
        support=_points(finding.support, language),
        against=_points(finding.against, language),
        fixes=tuple(_fix(fix, language) for fix in finding.fixes),
        next_step=speak(finding.next_step, language) if finding.next_step else "",
    )


def _columns(labels: Sequence[str], settings: Iterable[Judgement]) -> list[str]:
    """Programs that have a value in some setting, in the plan's order and then as they appear."""
    used = dict.fromkeys(label for setting in settings for label in setting.values)
    return [label for label in labels if label in used] + [
        label for label in used if label not in labels
    ]


def _settings(
    settings: Sequence[Judgement], columns: Sequence[str], language: str
) -> tuple[SettingView, ...]:
    worst_first = ("conflict", "suspicious", "no effect", "ok")
    order = {name: at for at, name in enumerate(worst_first)}
    return tuple(
        SettingView(
            name=clean(setting.name),
            values=tuple(
                _shown(setting.name, setting.values.get(label, ""), language) for label in columns
            ),
            level=setting.judgement if setting.judgement in JUDGEMENTS else "suspicious",
            word=speak(words.judgement(setting.judgement), language),
            why=speak(setting.why, language),
            cites=tuple(map(_cite, setting.places)),
            correction=clean(redacted(setting.correction or "")),
        )
        for setting in sorted(settings, key=lambda item: order.get(item.judgement, 1))
    )


def _shown(name: str, value: str, language: str) -> str:
    if value == words.NOT_SET:
        return speak(say("not set"), language)
    return clean(words.shown_value(name, value))


def _titles(diagnosis: Diagnosis) -> dict[str, Text]:
    return {
        "why": say("why"),
        "ruled_out": say("ruled out"),
        "fixes": say("fixes"),
        "next": say("next step"),
        "decide": say("to decide"),
        "others": say("less likely"),
        "candidates": say("candidates"),
        "benign": say("harmless"),
        "support": say("For it"),
        "against": say("Against it"),
        "settings": say("Settings side by side"),
        "setting": say("Setting"),
        "judgement": say("Judgement"),
        "reason": say("Reason"),
        "correction": say("corrected"),
        "timeline": say("Time line"),
        "excerpts": say("Lines that matter"),
        "programs": say("Launch plan"),
        "notes": say("Noticed in the launch scripts"),
        "unread": _of_unread(diagnosis.unread),
        "report": say("Diagnosis by unstall"),
        "nothing": say("none found"),
        "none_benign": say("No line of it looks like a failure."),
        "looks": say("These lines look alarming but are not:"),
        "more": say(
            "-v shows everything: all evidence, settings, time line, excerpts, launch plan"
        ),
        "details": say("Details"),
    }
