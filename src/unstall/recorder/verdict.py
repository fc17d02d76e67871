"""From the joined table and the graph of waiting to one ranked verdict."""

from __future__ import annotations

import msgspec

from unstall.model.findings import Evidence
from unstall.model.text import Text, say
from unstall.recorder import disagree, standstill
from unstall.recorder.collection import Incident, sort_into_incidents
from unstall.recorder.compose import compose
from unstall.recorder.records import Dump
from unstall.recorder.result import Cycle, RecorderVerdict, Sighting, Suspect
from unstall.recorder.scene import MOST, Claim, Scene

# Reasons worth less than this part of the strongest suspect's are not shown.
_WORTH = 0.6


def judge_all(dumps: list[Dump]) -> RecorderVerdict:
    """The verdict on the incident with the strongest suspect, the others' within it."""
    incidents, notes = sort_into_incidents(dumps)
    if not incidents:
        return RecorderVerdict(
            verdict="inconclusive",
            summary=say("None of the dumps could be read."),
            notes=tuple(notes),
        )
    verdicts = [judge(incident) for incident in incidents]
    verdicts.sort(
        key=lambda v: (-(v.suspects[0].score if v.suspects else 0.0), not v.front, -len(v.ranks))
    )
    first = verdicts[0]
    return msgspec.structs.replace(first, notes=(*notes, *first.notes), others=tuple(verdicts[1:]))


def judge(incident: Incident) -> RecorderVerdict:
    """The verdict on one incident."""
    scene = Scene(incident)
    claims: list[Claim] = []
    cycles: list[Cycle] = []
    undecided: list[Text] = []
    sights: list[Sighting] = []
    missing: list[int] = []
    for difference in scene.differences:
        claims += disagree.differing(scene, difference)
    for component in scene.graph.ends():
        ranks = sorted(node for node in component if isinstance(node, int))
        if len(ranks) > 1:
            found, cycle = disagree.ring(scene, ranks)
            claims += found
            if cycle is not None:
                cycles.append(cycle)
        elif not ranks:
            all_there, odd = disagree.together(scene, component)
            sights += all_there
            undecided += odd
        elif ranks[0] in scene.graph.stuck:
            claims += standstill.stuck(scene, ranks[0])
        elif ranks[0] in scene.ended or not scene.graph.waiting_for(ranks):
            continue
        elif ranks[0] in incident.dumps:
            claims += standstill.absent(scene, ranks[0])
        else:
            missing.append(ranks[0])
    if missing:
        found, untold = standstill.without_dump(scene, missing)
        claims += found
        undecided += untold
    claims += disagree.unequal_exchanges(scene)
    if not claims:
        claims += disagree.own_sides(scene)
    if not claims and not scene.graph.heads:
        claims += standstill.behind(scene)
    suspects = _suspects(scene, claims)
    verdict = compose(scene, suspects, cycles, undecided, sights)
    return msgspec.structs.replace(verdict, program=incident.program, attempt=incident.attempt)


def _suspects(scene: Scene, claims: list[Claim]) -> tuple[Suspect, ...]:
    """One suspect for each rank, its reasons joined, the strongest first."""
    by_rank: dict[int, list[Claim]] = {}
    for claim in claims:
        by_rank.setdefault(claim.rank, []).append(claim)
    top = max((claim.score for claim in claims), default=0.0)
    world = max(1, len(scene.incident.world))
    suspects = []
    for rank, reasons in by_rank.items():
        reasons.sort(key=lambda claim: -claim.score)
        best = reasons[0]
        if best.score < _WORTH * top:
            continue
        waiting = scene.graph.waiting_for([rank])
        kinds = {claim.kind for claim in reasons}
        score = best.score + 0.03 * (len(kinds) > 1) + 0.04 * len(waiting) / world
        dump = scene.incident.dumps.get(rank) or scene.incident.broken.get(rank)
        seen: dict[str, Evidence] = {}
        for claim in reasons:
            for evidence in claim.evidence:
                seen.setdefault(str(evidence.text), evidence)
        suspects.append(
            Suspect(
                rank=rank,
                kind=best.kind,
                score=round(min(0.99, score), 3),
                evidence=tuple(seen.values()),
                operation=best.operation,
                own=best.own,
                waiting=waiting,
                tie=best.tie,
                host=dump.host if dump else None,
            )
        )
    suspects.sort(key=lambda suspect: (-suspect.score, suspect.rank))
    return tuple(suspects[:MOST])
