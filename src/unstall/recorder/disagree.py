"""Ranks that are all there and do not agree: other operations, sizes, types, orders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable

from unstall.model.findings import Evidence
from unstall.model.text import Text, say
from unstall.recorder.groups import Divergence, Group
from unstall.recorder.records import Unit
from unstall.recorder.result import Cycle, Sighting, Wait
from unstall.recorder.scene import FINISHED, MOST, TIE, Claim, Scene, named, tie_evidence

_MOST_STEPS = 16
_KINDS = {"operation": "other-operation", "size": "other-size", "type": "other-type"}


def differing(scene: Scene, difference: Divergence) -> list[Claim]:
    """Claims against everybody outside the majority at the place of a difference."""
    group, seq = difference.group, difference.seq
    kind = _KINDS[difference.kind]
    tie = difference.right is None
    factor = (1.0 if difference.pending else FINISHED) * (TIE if tie else 1.0)
    claims = []
    for signature, ranks in sorted(difference.classes.items(), key=lambda item: item[1]):
        if signature == difference.right:
            continue
        others = sorted(r for s, rs in difference.classes.items() if s != signature for r in rs)
        right = difference.classes.get(difference.right or 0) or others
        theirs = scene.see.at(right[0], group, seq)
        for rank in ranks[:MOST]:
            own = scene.see.at(rank, group, seq)
            if own is None or theirs is None:
                continue
            evidence = [
                Evidence(
                    say(
                        "Number {seq} of {group} is {op} {shape} on rank {rank}, but {other_op} "
                        "{other_shape} on {others}.",
                        seq=seq, group=group.label, op=own.op, rank=rank, shape=_size(own, kind),
                        other_op=theirs.op, other_shape=_size(theirs, kind), others=named(right),
                    ),
                    own.place, 3.0 if difference.pending else 1.0,
                )
            ]  # fmt: skip
            if tie:
                evidence.append(tie_evidence(own.place))
            if not difference.pending:
                text = say("That operation ended on all ranks, so it may be intended.")
                evidence.append(Evidence(text, own.place))
            claims.append(
                Claim(rank, kind, evidence, operation=theirs, own=own, factor=factor, tie=tie)
            )
    return claims


def _size(sight: Sighting, kind: str) -> str:
    return f"{sight.shape} {sight.types}".strip() if kind == "other-type" else sight.shape


def ring(scene: Scene, ranks: list[int]) -> tuple[list[Claim], Cycle | None]:
    """Claims against ranks that wait for each other in a ring, and the ring.

    Where most of them are in one collective, only the others are suspects.
    """
    heads = {rank: scene.graph.heads[rank] for rank in ranks if rank in scene.graph.heads}
    where = Counter((group.index, unit.seq) for group, unit in heads.values() if not unit.parts)
    right = next((place for place, count in where.items() if 2 * count > len(ranks)), None)
    norm = next((rank for rank, (g, u) in heads.items() if _is(g, u, right)), None)
    theirs = scene.see.unit(norm, *heads[norm]) if norm is not None else None
    normal = {rank for rank, (g, u) in heads.items() if _is(g, u, right)}
    odd = [rank for rank in heads if rank not in normal]
    # Who closes the ring waits for the majority; the others wait for him, as the majority does.
    closing = [rank for rank in odd if normal.intersection(scene.awaited(rank))]
    claims = []
    for rank in (closing or odd)[:MOST]:
        group, unit = heads[rank]
        own = scene.see.unit(rank, group, unit)
        inside = [other for other in scene.awaited(rank) if other in heads]
        evidence = [
            Evidence(
                say(
                    "Rank {rank} waits in {op} number {seq} of {group} for {awaited}, which waits "
                    "for rank {rank} in turn.",
                    rank=rank, op=own.op, seq=own.seq, group=own.label,
                    awaited=named(inside or [other for other in ranks if other != rank]),
                ),
                own.place, 2.5,
            )
        ]  # fmt: skip
        if theirs is None:
            evidence.append(tie_evidence(own.place))
        else:
            text = say(
                "Most ranks are in {op} number {seq} of {group} at that time.",
                op=theirs.op, seq=theirs.seq, group=theirs.label,
            )  # fmt: skip
            evidence.append(Evidence(text, theirs.place, 1.0))
        claims.append(
            Claim(
                rank, "order-deadlock", evidence, operation=theirs, own=own,
                factor=1.0 if theirs else TIE, tie=theirs is None,
            )
        )  # fmt: skip
    return claims, _cycle(scene, ranks)


def _is(group: Group, unit: Unit, place: tuple[int, int] | None) -> bool:
    return place is not None and not unit.parts and (group.index, unit.seq) == place


def _cycle(scene: Scene, ranks: list[int]) -> Cycle | None:
    """One ring, a step for each operation: follow the waiting until a rank comes again."""
    heads = scene.graph.heads
    inside = {rank for rank in ranks if rank in heads}
    path: list[int] = []
    at = min(inside, default=-1)
    while at not in path:
        if at < 0 or len(path) >= _MOST_STEPS:
            return None
        path.append(at)
        group, unit = heads[at]
        nexts = [rank for rank in scene.awaited(at) if rank in inside]
        elsewhere = [
            rank for rank in nexts
            if unit.parts or (heads[rank][0].index, heads[rank][1].seq) != (group.index, unit.seq)
        ]  # fmt: skip
        known = [rank for rank in elsewhere if rank in path]
        at = (known or elsewhere or nexts or [-1])[0]
    turn = path[path.index(at) :]
    steps = [
        Wait(scene.see.unit(rank, *heads[rank]), (rank,), (following,))
        for rank, following in zip(turn, [*turn[1:], turn[0]], strict=True)
    ]
    return Cycle(tuple(steps))


def together(scene: Scene, component: list[Hashable]) -> tuple[list[Sighting], list[Text]]:
    """Operations in which every member is and that do not end, and what is odd about them."""
    sights, odd = [], []
    for node in component:
        if not isinstance(node, tuple) or not node[2]:
            continue
        group, seq = scene.table.groups[node[0]], node[1]
        inside = scene.graph.inside.get((node[0], seq), [])
        if any(rank in scene.ended or rank in scene.graph.stuck for rank in inside):
            continue
        if inside and len(inside) == len(group.members):
            sights.append(scene.pending(inside[0], group, seq))
            odd += _sums(scene, group, seq, inside)
    return sights, odd


def _sums(scene: Scene, group: Group, seq: int, inside: list[int]) -> list[Text]:
    """An all-to-all must receive in all what is sent in all."""
    sent = received = 0
    op = ""
    for rank in inside:
        sight = scene.pending(rank, group, seq)
        entry = scene.incident.dumps[rank].details.get(sight.place.line)
        if not sight.op.startswith(("all_to_all", "alltoall")) or entry is None:
            return []
        op = sight.op
        sent += sum(math.prod(size) for size in entry.inputs)
        received += sum(math.prod(size) for size in entry.outputs)
    if sent == received:
        return []
    return [
        say(
            "In {op} number {seq} of {group} the members send {sent} elements in all and expect "
            "{received}: sizes do not fit, but the dumps cannot tell whose.",
            op=op, seq=seq, group=group.label, sent=sent, received=received,
        )
    ]  # fmt: skip


def own_sides(scene: Scene) -> list[Claim]:
    """Claims against ranks whose unfinished operation contradicts itself."""
    claims = []
    for rank, (group, unit) in scene.graph.heads.items():
        meaning = scene.table.meanings.get(unit.signature)
        if meaning is None or not meaning.numel_in or not meaning.numel_out:
            continue
        size = len(group.members) if group.complete else 0
        op = meaning.op
        wrong = False
        if op in ("all_reduce", "allreduce", "allreduce_coalesced", "broadcast"):
            wrong = meaning.numel_in != meaning.numel_out
        elif size and op in ("_all_gather_base", "_allgather_base", "all_gather"):
            wrong = meaning.numel_in * size != meaning.numel_out
        elif size and op in ("_reduce_scatter_base", "reduce_scatter"):
            wrong = meaning.numel_in != meaning.numel_out * size
        if wrong:
            own = scene.see.unit(rank, group, unit)
            text = say(
                "{op} number {seq} of {group} on rank {rank} contradicts itself: {shape} among "
                "{size} members.",
                op=own.op, seq=own.seq, group=own.label, rank=rank, shape=own.shape,
                size=len(group.members),
            )  # fmt: skip
            claims.append(Claim(rank, "other-size", [Evidence(text, own.place, 2.0)], own=own))
    return claims[:MOST]


def unequal_exchanges(scene: Scene) -> list[Claim]:
    """Claims against both sides of a send whose receive has another size."""
    claims = []
    for rank, group, unit, half, peer, other in scene.graph.unequal[:MOST]:
        if not half.sends:
            continue
        own = scene.see.unit(rank, group, unit)
        text = say(
            "Rank {rank} sends {count} elements to rank {peer} in {group}, which expects {other}.",
            rank=rank, count=half.numel, peer=peer, group=group.label, other=other,
        )  # fmt: skip
        evidence = [Evidence(text, own.place, 2.5), tie_evidence(own.place)]
        claims += [
            Claim(suspect, "other-size", evidence, own=own, factor=TIE, tie=True)
            for suspect in (rank, peer)
        ]
    return claims
