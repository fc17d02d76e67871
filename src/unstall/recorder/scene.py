"""What the judges of one incident look at, and the form of what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from unstall.model.facts import Place
from unstall.model.findings import Evidence
from unstall.model.text import Text, say
from unstall.recorder.collection import Incident
from unstall.recorder.groups import Divergence, Group, Table
from unstall.recorder.result import Sighting, ranks_text
from unstall.recorder.sightings import Sightings
from unstall.recorder.waits import WaitGraph, needs_everyone

#: How much each reason counts for; sorts suspects, is no probability.
SCORES = {
    "other-operation": 0.92, "stuck": 0.90, "other-size": 0.87, "other-type": 0.87, "absent": 0.85,
    "order-deadlock": 0.80, "alone": 0.70, "dump-truncated": 0.66, "dump-empty": 0.64,
    "dump-unreadable": 0.60, "dump-missing": 0.60, "stopped-earlier": 0.50,
}  # fmt: skip
TIE = 0.7
FINISHED = 0.5
GUESSED = 0.6
MOST = 64


class Claim:
    """A reason to suspect a rank, before the reasons of one rank are joined.

    Attributes:
        rank, kind: who and why (see :data:`~unstall.recorder.result.KINDS`).
        evidence: what it rests on.
        operation, own: what the others did, and what this rank did.
        tie: no majority tells which side is right.
        score: how much it counts for.
    """

    def __init__(
        self,
        rank: int,
        kind: str,
        evidence: Iterable[Evidence],
        *,
        operation: Sighting | None = None,
        own: Sighting | None = None,
        factor: float = 1.0,
        tie: bool = False,
    ) -> None:
        self.rank, self.kind, self.evidence = rank, kind, tuple(evidence)
        self.operation, self.own, self.tie = operation, own, tie
        self.score = SCORES[kind] * factor


class Scene:
    """One incident, joined and compared.

    Attributes:
        incident: its dumps.
        table: its groups.
        graph: who waits for whom.
        see: makes sightings.
        differences: where members of a group did different things.
        ended: ranks whose difference explains their waiting by itself.
        fronts: how many ranks have an operation as the first that they wait in.
    """

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self.table = Table(incident)
        self.see = Sightings(self.table)
        self.differences: list[Divergence] = self.table.divergences()
        self.ended: set[int] = set()
        for difference in self.differences:
            if difference.pending:
                self.ended.update(difference.odd_ranks())
        self.graph = WaitGraph(self.table, self.ended)
        self.fronts = Counter(
            (group.index, unit.seq) for group, unit in self.graph.heads.values() if not unit.p2p
        )

    def pending(self, rank: int, group: Group, seq: int) -> Sighting:
        """The unfinished collective of that number on a rank."""
        unit = next(
            u
            for u in group.logs[rank].pending
            if u.seq == seq and not u.parts and (not u.p2p or needs_everyone(u.op))
        )
        return self.see.unit(rank, group, unit)

    def awaited(self, rank: int) -> list[int]:
        """Ranks that a rank's unfinished operations wait for, not through others."""
        found: set[int] = set()
        for node in self.graph.edges.get(rank, ()):
            if isinstance(node, int):
                found.add(node)
            else:
                found.update(n for n in self.graph.edges.get(node, ()) if isinstance(n, int))
        found.discard(rank)
        return sorted(found)


def tie_evidence(place: Place | None) -> Evidence:
    """Says that no majority decides."""
    return Evidence(
        say(
            "As many ranks did the one as the other: the dumps alone cannot tell which of them "
            "is right."
        ),
        place,
    )


def named(ranks: Iterable[int]) -> Text:
    """``rank 3`` or ``ranks 0-2``."""
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return say("rank {rank}", rank=ordered[0])
    return say("ranks {ranks}", ranks=ranks_text(ordered))
