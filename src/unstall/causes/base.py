"""What a cause is, and the words its modules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from unstall.job import Blocked, Job
from unstall.model.facts import Fact, Place
from unstall.model.findings import (
    Collective,
    Evidence,
    Excerpt,
    Finding,
    Origin,
    ProcessGroup,
)
from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.programs.identify import probabilities

#: Weights of evidence: natural logarithms of likelihood ratios.
WEAK, FAIR, STRONG, DECISIVE = 0.7, 1.5, 3.0, 5.0


class LookAlike(msgspec.Struct, frozen=True):
    """A cause that shows itself in the same way, and how the two differ."""

    cause: str
    difference: Text


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of the vocabulary.

    Attributes:
        id: stable identifier, as in the JSON output.
        family: heading under which ``unstall explain`` lists it.
        title: a few words.
        about: what happens and why, for ``unstall explain``.
        shows: how it shows itself in logs.
        decide: what settles it.
        remedies: what fixes it, in order.
        look_alikes: what is mistaken for it.
        examine: claims about a job; none where nothing speaks for it.
        sources: where the knowledge can be checked.
    """

    id: str
    family: str
    title: Text
    about: Text
    shows: tuple[Text, ...]
    decide: Text
    remedies: tuple[Text, ...]
    look_alikes: tuple[LookAlike, ...]
    examine: Callable[[Job], Iterable[Finding]]
    sources: tuple[str, ...] = ()


def evidence(
    text: Text, weight: float, at: Fact | Place | None = None, *, source: str | None = None
) -> Evidence:
    """A statement that rests on a fact's line, or on knowledge with its source."""
    place = at.place if isinstance(at, Fact) else at
    return Evidence(text, place, weight, source)


def excerpt(fact: Fact, role: str) -> Excerpt:
    """A line to show: ``origin``, ``messenger``, ``consequence`` or ``noise``."""
    return Excerpt(fact.place, fact.quote, role)


def collective_of(blocked: Blocked) -> Collective:
    """The operation that could not finish."""
    work = blocked.stall.work
    return Collective(
        work.op or "unknown", work.seq, work.numel_in, work.numel_out, work.timeout_ms
    )


def group_of(blocked: Blocked) -> ProcessGroup:
    """The group a stall is in, as far as it is known."""
    tag = blocked.stall.tag
    known = blocked.best.group if blocked.best is not None and _clear(blocked) else None
    ranks = blocked.members if blocked.members_certain else None
    return ProcessGroup(
        id=tag.pg_id,
        guid=tag.guid,
        name=tag.description or (known.name if known is not None else None),
        meaning=known.meaning if known is not None else None,
        ranks=ranks,
    )


def _clear(blocked: Blocked) -> bool:
    """Whether what the group is for is more likely so than not, among all readings of its tag."""
    best = blocked.best
    if blocked.stall.default_group or best is None or best.group is None:
        return best is not None
    meaning = str(best.group.meaning)
    shares = zip(blocked.matches, probabilities(blocked.matches), strict=True)
    same = sum(
        share
        for match, share in shares
        if match.group is not None and str(match.group.meaning) == meaning
    )
    return same >= 0.5


def origin_of(
    program: Program | None,
    ranks: Sequence[int],
    *,
    role: str = "trainer",
    group: ProcessGroup | None = None,
) -> Origin:
    """Where a failure started; the role is a program's own where the program is known."""
    if program is None:
        return Origin("unknown", role, None, tuple(sorted(ranks)), group)
    return Origin(
        program.label, program.role, program.engine or program.software, tuple(sorted(ranks)), group
    )


def ranks_text(ranks: Iterable[int]) -> Text:
    """``rank 3`` or ``ranks 0-5, 7``."""
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return say("rank {rank}", rank=ordered[0])
    return say("ranks {ranks}", ranks=compressed(ordered))


def compressed(ranks: Sequence[int]) -> str:
    """``0-5, 7`` for sorted, distinct numbers."""
    parts: list[str] = []
    start = previous = None
    for rank in [*ranks, None]:
        if start is not None and previous is not None and rank == previous + 1:
            previous = rank
            continue
        if start is not None:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = rank
    return ", ".join(parts)
