"""From the joined table and the graph of waiting to one ranked verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from unstall.model.facts import Place
from unstall.model.findings import Evidence
from unstall.model.text import Text, say
from unstall.recorder.collection import Incident
from unstall.recorder.groups import Divergence, Group, Table
from unstall.recorder.result import (
    Cycle,
    RecorderVerdict,
    Sighting,
    Suspect,
    Wait,
    ranks_text,
)
from unstall.recorder.sightings import Sightings
from unstall.recorder.waits import Node, WaitGraph

_SCORES = {
    "other-operation": 0.92, "stuck": 0.90, "other-size": 0.87, "other-type": 0.87, "absent": 0.85,
    "order-deadlock": 0.80, "alone": 0.70, "dump-truncated": 0.66, "dump-empty": 0.64,
    "dump-unreadable": 0.60, "dump-missing": 0.60, "stopped-earlier": 0.50,
}  # fmt: skip
_TIE = 0.7
_FINISHED = 0.5
_MAX_SUSPECTS = 64
_BROKEN_KINDS = {"empty": "dump-empty", "truncated": "dump-truncated"}


class _Claim:
    """A reason to suspect a rank, before the reasons of one rank are joined."""

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
        self.score = _SCORES[kind] * factor


class Judge:
    """Judges one incident."""

    def __init__(self, incident: Incident) -> None:
        self.incident = incident
        self.table = Table(incident)
        self.see = Sightings(self.table)
        self.claims: list[_Claim] = []
        self.cycles: list[Cycle] = []
        self.undecided: list[Text] = []
        self.together: list[Sighting] = []
        self.differences = self.table.divergences()
        ended: set[int] = set()
        for difference in self.differences:
            if difference.pending:
                ended.update(difference.odd_ranks())
        self.graph = WaitGraph(self.table, ended)
        self.ended = ended
        # How many ranks have an operation as the first that they wait in.
        self.fronts = Counter(
            (group.index, unit.seq) for group, unit in self.graph.heads.values() if not unit.p2p
        )
        self._sets: dict[int, frozenset[int]] = {}

    def verdict(self) -> RecorderVerdict:
        """The verdict."""
        for difference in self.differences:
            self._diverged(difference)
        missing: list[int] = []
        for component in self.graph.ends():
            ranks = sorted(node for node in component if isinstance(node, int))
            if len(ranks) > 1:
                self._ring(component, ranks)
            elif len(ranks) == 1:
                self._end(ranks[0], missing)
            else:
                self._together(component)
        self._unequal_p2p()
        self._missing(missing)
        if not self.claims and not self.table.pending_ranks():
            self._behind()
        suspects = self._suspects()
        return self._compose(suspects)

    # --- reasons ---------------------------------------------------------------------------------

    def _diverged(self, difference: Divergence) -> None:
        group, seq = difference.group, difference.seq
        kind = {"operation": "other-operation", "size": "other-size", "type": "other-type"}[
            difference.kind
        ]
        tie = difference.right is None
        factor = (1.0 if difference.pending else _FINISHED) * (_TIE if tie else 1.0)
        for signature, ranks in sorted(difference.classes.items(), key=lambda item: item[1]):
            if signature == difference.right:
                continue
            others = sorted(r for s, rs in difference.classes.items() if s != signature for r in rs)
            right = difference.classes.get(difference.right or 0) or others
            theirs = self.see.at(right[0], group, seq)
            for rank in ranks[:_MAX_SUSPECTS]:
                own = self.see.at(rank, group, seq)
                if own is None or theirs is None:
                    continue
                evidence = [
                    Evidence(
                        say(
                            "Number {seq} of {group} is {op} {shape} on rank {rank}, but "
                            "{other_op} {other_shape} on {others}.",
                            seq=seq, group=group.label, op=own.op, rank=rank,
                            shape=_size(own, kind), other_op=theirs.op,
                            other_shape=_size(theirs, kind), others=_ranks(right),
                        ),
                        own.place, 1.0 if not difference.pending else 3.0,
                    )
                ]  # fmt: skip
                if tie:
                    evidence.append(self._tie(own.place))
                if not difference.pending:
                    evidence.append(
                        Evidence(
                            say("That operation ended on all ranks, so it may be intended."),
                            own.place,
                        )
                    )
                self.claims.append(
                    _Claim(rank, kind, evidence, operation=theirs, own=own, factor=factor, tie=tie)
                )

    def _tie(self, place: Place | None) -> Evidence:
        return Evidence(
            say(
                "As many ranks did the one as the other: the dumps alone cannot tell which of them "
                "is right."
            ),
            place,
        )

    def _end(self, rank: int, missing: list[int]) -> None:
        if rank in self.graph.stuck:
            self._stuck(rank)
            self._absent(rank, extra=True)
        elif rank in self.incident.absent:
            if self.graph.waiting_for([rank]):
                missing.append(rank)
        elif rank not in self.ended and self.graph.waiting_for([rank]):
            self._absent(rank)

    def _members(self, ranks: tuple[int, ...]) -> frozenset[int]:
        """A tuple of ranks as a set, made once."""
        return self._sets.setdefault(id(ranks), frozenset(ranks))

    def _stuck(self, rank: int) -> None:
        stuck = self.graph.stuck[rank]
        own = self.see.unit(rank, stuck.group, stuck.unit)
        ahead = max(stuck.group.completed(peer) for peer in stuck.peers) - stuck.unit.seq + 1
        evidence = Evidence(
            say(
                "{op} number {seq} of {group} never ended on rank {rank}, although it ended on "
                "{peers}, which went on to end {ahead} of that group: rank {rank} took part in it "
                "and then stood still.",
                op=own.op, seq=own.seq, group=own.label, rank=rank, peers=_ranks(stuck.peers),
                ahead=ahead,
            ),
            own.place,
            3.0,
        )  # fmt: skip
        self.claims.append(_Claim(rank, "stuck", [evidence], own=own))

    def _absent(self, rank: int, extra: bool = False) -> None:
        """A rank that others wait for and that waits for nobody."""
        places = [
            (self.fronts[place], len(self.graph.inside[place]), place)
            for place, absent in self.graph.absent.items()
            if self.graph.inside.get(place) and rank in self._members(absent)
        ]
        if places:
            _, count, (index, seq) = max(places, key=lambda item: (item[0], item[1], -item[2][1]))
            group = self.table.groups[index]
            inside = self.graph.inside[(index, seq)]
            absent = self.graph.absent[(index, seq)]
            waiter = self._pending(inside[0], group, seq)
            if not extra and self._crowd(group, seq, inside, absent, waiter):
                return
            last = group.enqueued(rank)
            known = (
                say("the last one it enqueued there is number {last}", last=last)
                if last >= 0
                else say("it never enqueued anything there")
            )
            evidence = [
                Evidence(
                    say(
                        "Rank {rank} never entered {op} number {seq} of {group}, in which {inside} "
                        "wait; {known}.",
                        rank=rank, op=waiter.op, seq=seq, group=group.label,
                        inside=_ranks(inside), known=known,
                    ),
                    waiter.place, 3.0,
                )
            ]  # fmt: skip
            tie = not extra and count == len(absent) and len(absent) + count == len(group.members)
            if tie:
                evidence.append(self._tie(waiter.place))
                self._alone(group, seq, inside, waiter, factor=0.6, tie=True)
        else:
            unmatched = next((u for u in self.graph.unmatched if u[4] == rank), None)
            if unmatched is None:
                return
            who, group, unit, half, _ = unmatched
            waiter = self.see.unit(who, group, unit)
            sentence = (
                say(
                    "Rank {who} waits to send to rank {rank} in {group}, which has no receive for it.",
                    who=who, rank=rank, group=group.label,
                )
                if half.sends
                else say(
                    "Rank {who} waits to receive from rank {rank} in {group}, which has no send "
                    "for it.",
                    who=who, rank=rank, group=group.label,
                )
            )  # fmt: skip
            evidence, tie = [Evidence(sentence, waiter.place, 2.5)], False
        if not extra:
            evidence += self._state_of(rank, waiter)
        self.claims.append(
            _Claim(rank, "absent", evidence, operation=waiter, own=self.see.last(rank), tie=tie)
        )

    def _state_of(self, rank: int, waiter: Sighting) -> list[Evidence]:
        """What the rank's own dump says of its standstill."""
        dump = self.incident.dumps[rank]
        if not dump.entries:
            return [
                Evidence(
                    say("Its dump holds no unfinished operation: it waits for nothing."),
                    Place(dump.source, 1), 1.0,
                )
            ]  # fmt: skip
        last = self.see.last(rank)
        found = []
        if last is not None:
            found.append(
                Evidence(
                    say(
                        "The last operation in its dump is {op} number {seq} of {group}{ended}.",
                        op=last.op, seq=last.seq, group=last.label,
                        ended=say(", which ended") if last.done else "",
                    ),
                    last.place, 0.7,
                )
            )  # fmt: skip
            gap = (waiter.created - last.created) / 1e9
            if last.created and waiter.created and gap > 1:
                found.append(
                    Evidence(
                        say(
                            "It enqueued that {seconds} s before the others entered the operation "
                            "they wait in.",
                            seconds=round(gap, 1),
                        ),
                        last.place,
                        0.7,
                    )
                )
        return found

    def _pending(self, rank: int, group: Group, seq: int) -> Sighting:
        unit = next(u for u in group.logs[rank].pending if u.seq == seq and not u.p2p)
        return self.see.unit(rank, group, unit)

    def _crowd(
        self, group: Group, seq: int, inside: list[int], absent: tuple[int, ...], waiter: Sighting
    ) -> bool:
        """Whether those inside are the odd ones: fewer than those who stayed away, idly."""
        idle = [rank for rank in absent if rank not in self.graph.heads]
        if len(inside) >= len(idle) or len(idle) < len(absent):
            return False
        self._alone(group, seq, inside, waiter, factor=1.0, tie=False)
        return True

    def _alone(
        self, group: Group, seq: int, inside: list[int], waiter: Sighting, factor: float, tie: bool
    ) -> None:
        known = {(claim.rank, claim.kind) for claim in self.claims}
        for rank in inside[:_MAX_SUSPECTS]:
            if (rank, "alone") in known:
                continue
            own = self._pending(rank, group, seq)
            evidence = Evidence(
                say(
                    "Only {inside} of {size} members of {group} entered {op} number {seq}; the "
                    "others wait for nothing.",
                    inside=_ranks(inside), size=len(group.members), group=group.label, op=own.op,
                    seq=seq,
                ),
                own.place, 1.5,
            )  # fmt: skip
            self.claims.append(_Claim(rank, "alone", [evidence], own=own, factor=factor, tie=tie))

    def _ring(self, component: list[Node], ranks: list[int]) -> None:
        """Ranks that wait for each other in a ring."""
        heads = {rank: self.graph.heads[rank] for rank in ranks if rank in self.graph.heads}
        where = Counter((group.index, unit.seq) for group, unit in heads.values() if not unit.parts)
        ordered = where.most_common(2)
        right = None
        if ordered and (len(ordered) == 1 or ordered[0][1] > ordered[1][1]):
            right = ordered[0][0] if 2 * ordered[0][1] > len(ranks) else None
        cycle = self._cycle(component, ranks)
        if cycle is not None:
            self.cycles.append(cycle)
        norm = next((r for r, (g, u) in heads.items() if (g.index, u.seq) == right), None)
        theirs = self.see.unit(norm, *heads[norm]) if norm is not None else None
        for rank, (group, unit) in list(heads.items())[:_MAX_SUSPECTS]:
            if right is not None and (group.index, unit.seq) == right and not unit.parts:
                continue
            own = self.see.unit(rank, group, unit)
            awaited = [n for n in self._direct(rank) if n in heads]
            evidence = [
                Evidence(
                    say(
                        "Rank {rank} waits in {op} number {seq} of {group} for {awaited}, which "
                        "waits for rank {rank} in turn.",
                        rank=rank, op=own.op, seq=own.seq, group=own.label,
                        awaited=_ranks(awaited or [r for r in ranks if r != rank]),
                    ),
                    own.place, 2.5,
                )
            ]  # fmt: skip
            if right is None:
                evidence.append(self._tie(own.place))
            elif theirs is not None:
                evidence.append(
                    Evidence(
                        say(
                            "Most ranks are in {op} number {seq} of {group} at that time.",
                            op=theirs.op, seq=theirs.seq, group=theirs.label,
                        ),
                        theirs.place, 1.0,
                    )
                )  # fmt: skip
            self.claims.append(
                _Claim(
                    rank, "order-deadlock", evidence, operation=theirs, own=own,
                    factor=_TIE if right is None else 1.0, tie=right is None,
                )
            )  # fmt: skip

    def _direct(self, rank: int) -> list[int]:
        """Ranks that a rank's first unfinished operation waits for."""
        found: set[int] = set()
        for node in self.graph.edges.get(rank, ()):
            if isinstance(node, int):
                found.add(node)
            else:
                found.update(n for n in self.graph.edges.get(node, ()) if isinstance(n, int))
        found.discard(rank)
        return sorted(found)

    def _cycle(self, component: list[Node], ranks: list[int]) -> Cycle | None:
        """One ring through the component, a step for each operation."""
        inside = set(ranks)
        path, at = [], ranks[0]
        while at not in path and len(path) < 16:
            path.append(at)
            nexts = [n for n in self._direct(at) if n in inside and n in self.graph.heads]
            if not nexts:
                return None
            mine = self.graph.heads[at]
            other = [n for n in nexts if self.graph.heads[n][1] is not mine[1]]
            unlike = [
                n for n in other
                if (self.graph.heads[n][0].index, self.graph.heads[n][1].seq)
                != (mine[0].index, mine[1].seq) or mine[1].parts
            ]  # fmt: skip
            at = next((n for n in unlike if n in path), (unlike or other or nexts)[0])
        if at not in path:
            return None
        ring = path[path.index(at) :]
        steps = []
        for place, rank in enumerate(ring):
            group, unit = self.graph.heads[rank]
            steps.append(
                Wait(self.see.unit(rank, group, unit), (rank,), (ring[(place + 1) % len(ring)],))
            )
        return Cycle(tuple(steps))

    def _together(self, component: list[Node]) -> None:
        for node in component:
            if not isinstance(node, tuple) or not node[2]:
                continue
            group, seq = self.table.groups[node[0]], node[1]
            inside = self.graph.inside.get((node[0], seq), [])
            if any(rank in self.ended or rank in self.graph.stuck for rank in inside):
                continue
            if inside and (len(inside) == len(group.members)):
                self.together.append(self._pending(inside[0], group, seq))
                self._check_sums(group, seq, inside)

    def _check_sums(self, group: Group, seq: int, inside: list[int]) -> None:
        """An all-to-all must receive in all what it sends in all."""
        sent = received = 0
        for rank in inside:
            sight = self._pending(rank, group, seq)
            if not sight.op.startswith(("all_to_all", "alltoall")):
                return
            dump = self.incident.dumps[rank]
            entry = dump.details.get(sight.place.line)
            if entry is None:
                return
            sent += sum(_product(size) for size in entry.inputs)
            received += sum(_product(size) for size in entry.outputs)
        if sent != received:
            self.undecided.append(
                say(
                    "In {op} number {seq} of {group} the members send {sent} elements in all and "
                    "expect {received}: sizes do not fit, but the dumps cannot tell whose.",
                    op=self.together[-1].op, seq=seq, group=group.label, sent=sent,
                    received=received,
                )
            )  # fmt: skip

    def _unequal_p2p(self) -> None:
        for rank, group, unit, half, peer, other in self.graph.unequal:
            if not half.sends:
                continue
            own = self.see.unit(rank, group, unit)
            sentence = say(
                "Rank {rank} sends {count} elements to rank {peer} in {group}, which expects {other}.",
                rank=rank, count=half.numel, peer=peer, group=group.label, other=other,
            )  # fmt: skip
            for suspect in (rank, peer):
                self.claims.append(
                    _Claim(
                        suspect, "other-size", [Evidence(sentence, own.place, 2.5), self._tie(own.place)],
                        own=own, factor=_TIE, tie=True,
                    )
                )  # fmt: skip

    def _missing(self, missing: list[int]) -> None:
        if not missing:
            return
        world = len(self.incident.world)
        if len(missing) > 1 and 2 * len(self.incident.absent) > world:
            self.undecided.append(
                say(
                    "Dumps of {count} of {world} ranks are missing, among them {ranks}, which others "
                    "wait for: without them it cannot be told who is to blame.",
                    count=len(self.incident.absent), world=world, ranks=ranks_text(missing),
                )
            )  # fmt: skip
            return
        for rank in missing[:_MAX_SUSPECTS]:
            waiting = self.graph.waiting_for([rank])
            head = self.graph.heads[waiting[0]]
            waiter = self.see.unit(waiting[0], *head)
            broken = self.incident.broken.get(rank)
            kind = "dump-missing"
            place = waiter.place
            if broken is not None:
                kind = _BROKEN_KINDS.get(broken.state, "dump-unreadable")
                place = Place(broken.source, 1)
            evidence = Evidence(
                say(
                    "{waiting} wait for rank {rank}, all other members are there, and rank {rank} "
                    "left no readable dump: it died, was killed or hung before it could write one.",
                    waiting=_ranks(waiting), rank=rank,
                ),
                place, 1.5,
            )  # fmt: skip
            self.claims.append(_Claim(rank, kind, [evidence], operation=waiter))

    def _behind(self) -> None:
        """Nothing is unfinished; somebody may still have stopped earlier than the others."""
        for group in self.table.groups:
            if not (group.complete or group.desc or group.name == "0") or len(group.logs) < 2:
                continue
            ends = {rank: group.enqueued(rank) for rank in group.logs}
            top = max(ends.values())
            behind = sorted(rank for rank, end in ends.items() if 0 <= end < top)
            ahead = sorted(rank for rank, end in ends.items() if end == top)
            if not behind:
                continue
            tie = len(behind) == len(ahead)
            sight = self.see.at(ahead[0], group, ends[behind[0]] + 1)
            if sight is None or len(behind) > len(ahead):
                continue
            for rank in behind[:_MAX_SUSPECTS]:
                evidence = [
                    Evidence(
                        say(
                            "Rank {rank} stopped at number {mine} of {group}; {ahead} went on to "
                            "{top}.",
                            rank=rank, mine=ends[rank], group=group.label, ahead=_ranks(ahead),
                            top=top,
                        ),
                        sight.place, 1.0,
                    ),
                    Evidence(
                        say("Dumps taken at different moments of a healthy run look the same."),
                        sight.place,
                    ),
                ]  # fmt: skip
                if tie:
                    evidence.append(self._tie(sight.place))
                own = self.see.last(rank)
                self.claims.append(
                    _Claim(rank, "stopped-earlier", evidence, operation=sight, own=own, tie=tie)
                )

    # --- putting together -------------------------------------------------------------------------

    def _suspects(self) -> tuple[Suspect, ...]:
        by_rank: dict[int, list[_Claim]] = {}
        for claim in self.claims:
            by_rank.setdefault(claim.rank, []).append(claim)
        world = max(1, len(self.incident.world))
        suspects = []
        for rank, claims in by_rank.items():
            claims.sort(key=lambda claim: -claim.score)
            best = claims[0]
            waiting = self.graph.waiting_for([rank])
            bonus = 0.03 * (len(claims) > 1) + 0.04 * len(waiting) / world
            dump = self.incident.dumps.get(rank) or self.incident.broken.get(rank)
            seen: dict[str, Evidence] = {}
            for claim in claims:
                for evidence in claim.evidence:
                    seen.setdefault(evidence.text.render(), evidence)
            suspects.append(
                Suspect(
                    rank=rank,
                    kind=best.kind,
                    score=round(min(0.99, best.score + bonus), 3),
                    evidence=tuple(seen.values()),
                    operation=next((c.operation for c in claims if c.operation), None),
                    own=best.own,
                    waiting=waiting,
                    tie=best.tie,
                    host=dump.host if dump else None,
                )
            )
        suspects.sort(key=lambda s: (-s.score, s.rank))
        strong = [s for s in suspects if s.score >= 0.6 * suspects[0].score] if suspects else []
        return tuple(strong[:_MAX_SUSPECTS])

    def _compose(self, suspects: tuple[Suspect, ...]) -> RecorderVerdict:
        from unstall.recorder.compose import compose

        return compose(self, suspects)


def _size(sight: Sighting, kind: str) -> str:
    return f"{sight.shape} {sight.types}".strip() if kind == "other-type" else sight.shape


def _product(size: tuple[int, ...]) -> int:
    total = 1
    for length in size:
        total *= length
    return total


def _ranks(ranks: Iterable[int]) -> Text:
    """``rank 3`` or ``ranks 0-2``."""
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return say("rank {rank}", rank=ordered[0])
    return say("ranks {ranks}", ranks=ranks_text(ordered))
