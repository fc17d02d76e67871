"""Ranks that the others wait for: stuck, absent, alone, without a dump, behind."""

from __future__ import annotations

from unstall.model.facts import Place
from unstall.model.findings import Evidence
from unstall.model.text import Text, TextValue, say
from unstall.recorder.groups import Group
from unstall.recorder.result import Sighting, ranks_text
from unstall.recorder.scene import GUESSED, MOST, Claim, Scene, named, tie_evidence

_BROKEN = {"empty": "dump-empty", "truncated": "dump-truncated"}


def stuck(scene: Scene, rank: int) -> list[Claim]:
    """A rank in which an operation did not end that ended on its peers."""
    found = scene.graph.stuck[rank]
    own = scene.see.unit(rank, found.group, found.unit)
    ahead = max(found.group.completed(peer) for peer in found.peers) - found.unit.seq + 1
    text = say(
        "{op} number {seq} of {group} never ended on rank {rank}, although it and {ahead} more of "
        "that group ended on {peers}: rank {rank} took part in it and then stood still.",
        op=own.op, seq=own.seq, group=own.label, rank=rank, peers=named(found.peers),
        ahead=ahead - 1,
    )  # fmt: skip
    claims = [Claim(rank, "stuck", [Evidence(text, own.place, 3.0)], own=own)]
    place = _where_awaited(scene, rank)
    if place is not None:
        claims.append(_never_entered(scene, rank, *place))
    return claims


def absent(scene: Scene, rank: int) -> list[Claim]:
    """A rank that others wait for and that waits for nobody."""
    place = _where_awaited(scene, rank)
    if place is None:
        return _no_counterpart(scene, rank)
    group, seq = place
    inside = scene.graph.inside[(group.index, seq)]
    away = scene.graph.absent[(group.index, seq)]
    idle = [member for member in away if member not in scene.graph.heads]
    if len(inside) < len(idle) == len(away):
        return _alone(scene, group, seq, inside)  # the majority is elsewhere, and rests there
    claim = _never_entered(scene, rank, group, seq)
    waiter = claim.operation
    if waiter is not None:
        if len(inside) == len(away) and len(inside) + len(away) == len(group.members):
            claim.tie = True
            claim.evidence += (tie_evidence(waiter.place),)
        claim.evidence += tuple(_own_end(scene, rank, waiter))
    return [claim]


def _where_awaited(scene: Scene, rank: int) -> tuple[Group, int] | None:
    """The operation in which most ranks wait first and that the rank has not entered."""
    graph = scene.graph
    places = [
        (scene.fronts[place], len(graph.inside[place]), -place[1], place)
        for place in graph.awaited_in(rank)
        if graph.inside.get(place)
    ]
    if not places:
        return None
    index, seq = max(places)[-1]
    return scene.table.groups[index], seq


def _never_entered(scene: Scene, rank: int, group: Group, seq: int) -> Claim:
    inside = scene.graph.inside[(group.index, seq)]
    waiter = scene.pending(inside[0], group, seq)
    last = group.enqueued(rank)
    text = say(
        "Rank {rank} never entered {op} number {seq} of {group}, unlike {inside}; {known}.",
        rank=rank, op=waiter.op, seq=seq, group=group.label, inside=named(inside),
        known=say("the last one it enqueued there is number {last}", last=last)
        if last >= 0
        else say("it never enqueued anything there"),
    )  # fmt: skip
    evidence, factor = [Evidence(text, waiter.place, 3.0)], 1.0
    if rank not in group.members:
        text = say(
            "Who belongs to {group} is not recorded; rank {rank} may not be a member.",
            group=group.label, rank=rank,
        )  # fmt: skip
        evidence, factor = [Evidence(evidence[0].text, waiter.place, 1.0), Evidence(text)], GUESSED
    return Claim(
        rank, "absent", evidence, operation=waiter, own=scene.see.last(rank), factor=factor
    )


def _no_counterpart(scene: Scene, rank: int) -> list[Claim]:
    """A rank that lacks the other half of a send or receive."""
    found = next((u for u in scene.graph.unmatched if u[4] == rank), None)
    if found is None:
        return []
    who, group, unit, half, _ = found
    waiter = scene.see.unit(who, group, unit)
    places: dict[str, TextValue] = {"who": who, "rank": rank, "group": group.label}
    if half.sends:
        text = say(
            "Rank {who} waits to send to rank {rank} in {group}, which has no receive for it.",
            **places,
        )
    else:
        text = say(
            "Rank {who} waits to receive from rank {rank} in {group}, which has no send for it.",
            **places,
        )
    evidence = [Evidence(text, waiter.place, 2.5), *_own_end(scene, rank, waiter)]
    return [Claim(rank, "absent", evidence, operation=waiter, own=scene.see.last(rank))]


def _own_end(scene: Scene, rank: int, waiter: Sighting) -> list[Evidence]:
    """What the rank's own dump says of its standstill."""
    dump = scene.incident.dumps[rank]
    last = scene.see.last(rank)
    if last is None:
        text = say("Its dump holds no unfinished operation: it waits for nothing.")
        return [Evidence(text, Place(dump.source, 1), 1.0)]
    places: dict[str, TextValue] = {"op": last.op, "seq": last.seq, "group": last.label}
    text = (
        say(
            "The last operation in its dump is {op} number {seq} of {group}, which ended.", **places
        )
        if last.done
        else say("The last operation in its dump is {op} number {seq} of {group}.", **places)
    )
    found = [Evidence(text, last.place, 0.7)]
    gap = (waiter.created - last.created) / 1e9
    if last.created and waiter.created and gap > 1:
        text = say(
            "It enqueued that {seconds} s before the others entered the operation they wait in.",
            seconds=round(gap, 1),
        )
        found.append(Evidence(text, last.place, 0.7))
    return found


def _alone(scene: Scene, group: Group, seq: int, inside: list[int]) -> list[Claim]:
    """Ranks in an operation that the majority never entered, and does not wait for."""
    claims = []
    outside = next(r for r in scene.graph.absent[(group.index, seq)])
    for rank in inside[:MOST]:
        own = scene.pending(rank, group, seq)
        text = say(
            "Of {size} members of {group} only {inside} entered {op} number {seq}; the others wait "
            "for nothing.",
            inside=named(inside), size=len(group.members), group=group.label, op=own.op, seq=seq,
        )  # fmt: skip
        claims.append(
            Claim(
                rank, "alone", [Evidence(text, own.place, 1.5)], own=own,
                operation=scene.see.last(outside),
            )
        )  # fmt: skip
    return claims


def without_dump(scene: Scene, ranks: list[int]) -> tuple[list[Claim], list[Text]]:
    """Ranks that others wait for and that left no readable dump."""
    world = len(scene.incident.world)
    if len(ranks) > 1 and 2 * len(scene.incident.absent) > world:
        text = say(
            "Dumps of {count} of {world} ranks are missing, among them {ranks}, which others wait "
            "for: without them it cannot be told who is to blame.",
            count=len(scene.incident.absent), world=world, ranks=ranks_text(ranks),
        )  # fmt: skip
        return [], [text]
    claims = []
    for rank in ranks[:MOST]:
        waiting = scene.graph.waiting_for([rank])
        waiter = scene.see.unit(waiting[0], *scene.graph.heads[waiting[0]])
        broken = scene.incident.broken.get(rank)
        kind, place = "dump-missing", waiter.place
        if broken is not None:
            kind, place = _BROKEN.get(broken.state, "dump-unreadable"), Place(broken.source, 1)
        text = say(
            "All other members are in the operation that keeps {waiting} waiting, and rank {rank} "
            "left no readable dump: it died, was killed, or hung before it could write one.",
            waiting=named(waiting), rank=rank,
        )  # fmt: skip
        claims.append(Claim(rank, kind, [Evidence(text, place, 1.5)], operation=waiter))
    return claims, []


def behind(scene: Scene) -> list[Claim]:
    """Where nothing is unfinished: ranks that stopped earlier than the others."""
    claims = []
    for group in scene.table.groups:
        if not group.comparable or len(group.logs) < 2:
            continue
        ends = {rank: group.enqueued(rank) for rank in group.logs}
        top = max(ends.values())
        late = sorted(rank for rank, end in ends.items() if 0 <= end < top)
        ahead = sorted(rank for rank, end in ends.items() if end == top)
        if not late or len(late) > len(ahead):
            continue
        sight = scene.see.at(ahead[0], group, ends[late[0]] + 1)
        if sight is None:
            continue
        for rank in late[:MOST]:
            text = say(
                "Rank {rank} stopped at number {mine} of {group}; {ahead} went on to {top}.",
                rank=rank, mine=ends[rank], group=group.label, ahead=named(ahead), top=top,
            )  # fmt: skip
            evidence = [
                Evidence(text, sight.place, 1.0),
                Evidence(
                    say("Dumps taken at different moments of a healthy run look the same."),
                    sight.place,
                ),
            ]
            tie = len(late) == len(ahead)
            if tie:
                evidence.append(tie_evidence(sight.place))
            own = scene.see.last(rank)
            claims.append(
                Claim(rank, "stopped-earlier", evidence, operation=sight, own=own, tie=tie)
            )
    return claims
