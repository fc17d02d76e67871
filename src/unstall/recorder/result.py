"""What the comparison of dumps ends in; data only, for reports and for the diagnosis."""

from __future__ import annotations

import msgspec

from unstall.model.facts import Place
from unstall.model.findings import Evidence, ProcessGroup
from unstall.model.text import Text, say
from unstall.recorder.records import Entry, FrameTuple

#: Reasons for which a rank is suspected, strongest kind of proof first.
KINDS = (
    "other-operation", "other-size", "other-type", "stuck", "absent", "order-deadlock", "alone",
    "dump-truncated", "dump-empty", "dump-unreadable", "dump-missing", "stopped-earlier",
)  # fmt: skip


def reason(kind: str) -> Text:
    """A suspect's kind in a few words."""
    return {
        "other-operation": say("called another operation than the others"),
        "other-size": say("called the operation with another size"),
        "other-type": say("called the operation with another element type"),
        "stuck": say("did not finish what its peers finished"),
        "absent": say("never entered the operation that the others wait in"),
        "order-deadlock": say("takes operations in another order than its peers"),
        "alone": say("entered an operation that no other member entered"),
        "dump-truncated": say("its dump breaks off"),
        "dump-empty": say("its dump is empty"),
        "dump-unreadable": say("its dump cannot be read"),
        "dump-missing": say("has no dump, and others wait for it"),
        "stopped-earlier": say("stopped earlier than the others"),
    }[kind]


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as one rank's dump shows it.

    Attributes:
        rank: whose dump.
        group: its process group; ``label`` is how a user would name it.
        op, seq: operation and sequence number within the group.
        shape, types: sizes and element types as recorded.
        place: dump and entry, counted from 1.
        frames: the user's frames, innermost first, without torch's own.
        created: nanoseconds since 1970, 0 where unknown.
        done: it ended.
    """

    rank: int
    group: ProcessGroup
    label: str
    op: str
    seq: int
    shape: str = ""
    types: str = ""
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    place: Place
    frames: tuple[FrameTuple, ...] = ()
    created: int = 0
    done: bool = False


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that may be to blame.

    Attributes:
        rank: global rank.
        kind: one of :data:`KINDS`.
        score: 0 to 1, to rank suspects of one verdict; not a probability.
        evidence: what speaks for it.
        operation: what the others do at the place in question.
        own: what this rank did there, or last.
        waiting: ranks that wait for it, directly or through others.
        tie: as many ranks did the one as the other.
        host: host by the dump's name.
    """

    rank: int
    kind: str
    score: float
    evidence: tuple[Evidence, ...]
    operation: Sighting | None = None
    own: Sighting | None = None
    waiting: tuple[int, ...] = ()
    tie: bool = False
    host: str | None = None


class Wait(msgspec.Struct, frozen=True):
    """Ranks that wait in one operation.

    Attributes:
        operation: as the first of them recorded it.
        ranks: who waits in it.
        awaited: members of the group that it waits for.
        groups: in how many groups the same happens (pipelines have one group a column).
    """

    operation: Sighting
    ranks: tuple[int, ...]
    awaited: tuple[int, ...] = ()
    groups: int = 1


class Cycle(msgspec.Struct, frozen=True):
    """A ring of waiting: each step's ranks wait in its operation for the next step's."""

    steps: tuple[Wait, ...]


class Tail(msgspec.Struct, frozen=True):
    """The last operations of one rank."""

    rank: int
    source: str
    role: str
    entries: tuple[Entry, ...]
    labels: tuple[str, ...]


class RecorderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one incident.

    Attributes:
        verdict: ``failure``, ``benign`` (nothing unfinished, nobody behind) or ``inconclusive``.
        summary: one sentence.
        suspects: ranked.
        front: where everyone waits, most ranks first.
        cycles: rings of waiting.
        healthy: what the dumps rule out.
        undecided: what they cannot tell, and why.
        next_step: the cheapest thing that would tell more.
        notes: about files and dumps.
        tails: last operations of the ranks that differ, and of one that waits.
        ranks, missing: ranks with and without a readable dump.
        label: tells this incident from others in the same input.
        entries: operations compared.
        others: verdicts on further incidents in the same input.
        program, attempt: whose dumps these are by the logs; ``""`` and -1 where they do not tell.
    """

    verdict: str
    summary: Text
    suspects: tuple[Suspect, ...] = ()
    front: tuple[Wait, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    healthy: tuple[Text, ...] = ()
    undecided: tuple[Text, ...] = ()
    next_step: Text | None = None
    notes: tuple[Text, ...] = ()
    tails: tuple[Tail, ...] = ()
    ranks: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    label: str = ""
    entries: int = 0
    backends: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    others: tuple[RecorderVerdict, ...] = ()
    program: str = ""
    attempt: int = -1


def ranks_text(ranks: tuple[int, ...] | list[int], limit: int = 12) -> str:
    """``0-3, 7`` for a set of ranks; long lists are cut and counted."""
    ordered = sorted(set(ranks))
    spans: list[str] = []
    at = 0
    while at < len(ordered):
        end = at
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        if end - at >= 2:
            spans.append(f"{ordered[at]}-{ordered[end]}")
        else:
            spans.extend(str(rank) for rank in ordered[at : end + 1])
        at = end + 1
    if len(spans) > limit:
        return ", ".join(spans[:limit]) + f", … ({len(ordered)})"
    return ", ".join(spans)
