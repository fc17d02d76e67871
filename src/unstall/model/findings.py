"""What a cause claims of a job, and the diagnosis made of such claims."""

from __future__ import annotations

import msgspec

from unstall.model.facts import Fact, Moment, Place
from unstall.model.plan import Judgement, Plan, Program
from unstall.model.text import Text


class Evidence(msgspec.Struct, frozen=True):
    """A statement and what it rests on.

    Attributes:
        text: the statement.
        place: the line it rests on; ``None`` only where it rests on knowledge, named in ``source``.
        weight: how much it moves the odds, as a natural logarithm of a likelihood ratio: about 0.7
            weak, 1.5 fair, 3 strong, 5 decisive. Positive in both lists: a piece of evidence
            against a cause is one that stands under ``against``.
        source: for knowledge: framework, version and file or document.
    """

    text: Text
    place: Place | None = None
    weight: float = 0.0
    source: str | None = None


class Change(msgspec.Struct, frozen=True):
    """A machine-readable change of one program: flags and variables to set and to remove."""

    program: str
    set: dict[str, str] = {}
    unset: tuple[str, ...] = ()


class Fix(msgspec.Struct, frozen=True):
    """What to do about a cause."""

    text: Text
    change: Change | None = None


class ProcessGroup(msgspec.Struct, frozen=True):
    """A process group as far as it is known; ``meaning`` says what it is for."""

    id: int | None = None
    guid: str | None = None
    name: str | None = None
    meaning: Text | None = None
    ranks: tuple[int, ...] | None = None


class Origin(msgspec.Struct, frozen=True):
    """Where a failure started."""

    program: str
    role: str
    software: str | None = None
    ranks: tuple[int, ...] = ()
    process_group: ProcessGroup | None = None


class Collective(msgspec.Struct, frozen=True):
    """The operation that could not finish."""

    op: str
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None


class Exonerated(msgspec.Struct, frozen=True):
    """A cause or suspicion that the evidence rules out and a user would have."""

    id: str
    why: Text
    places: tuple[Place, ...] = ()


class Excerpt(msgspec.Struct, frozen=True):
    """A line that matters; ``role`` is ``origin``, ``messenger``, ``consequence`` or ``noise``."""

    place: Place
    text: str
    role: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause's claim. The diagnosis turns the weights of all claims into confidences.

    Attributes:
        cause: identifier of causes.md.
        summary: one sentence that a user understands.
        support, against: evidence.
        origin, collective, waiting_ranks, started_at: what the JSON contract asks.
        exonerated: what this claim, if true, rules out.
        waiting_program: label of the program whose ranks waited, where it is not the origin's.
        ceiling: highest confidence this claim can have, where its nature forbids more.
        timeline: what happened, in order.
    """

    cause: str
    summary: Text
    support: tuple[Evidence, ...]
    against: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    next_step: Text | None = None
    origin: Origin | None = None
    collective: Collective | None = None
    waiting_ranks: tuple[int, ...] = ()
    waiting_program: str | None = None
    started_at: Moment | None = None
    exonerated: tuple[Exonerated, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    ceiling: float = 0.97
    timeline: tuple[Evidence, ...] = ()


class Ranked(msgspec.Struct, frozen=True):
    """A finding with its confidence, 0 to 1, after the look-alikes were weighed."""

    finding: Finding
    confidence: float


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report shows.

    Attributes:
        verdict: ``failure``, ``benign`` or ``inconclusive``.
        causes: ranked, most likely first; empty for ``benign``.
        language: language of the input, ``en`` or ``zh``.
        unread: what of the input could not be read.
        counts: ``lines``, ``bytes``, ``sources``, ``facts`` read.
        benign: harmless lines that a user might take for the cause, with why they are not.
    """

    verdict: str
    causes: tuple[Ranked, ...] = ()
    programs: tuple[Program, ...] = ()
    plan: Plan = Plan()
    settings: tuple[Judgement, ...] = ()
    exonerated: tuple[Exonerated, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    benign: tuple[Exonerated, ...] = ()
    language: str = "en"
    unread: tuple[Fact, ...] = ()
    counts: dict[str, int] = {}
    attempts: int = 1
