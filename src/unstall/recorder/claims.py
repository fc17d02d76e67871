"""What a verdict on dumps says about the causes: findings for the diagnosis.

A dump shows who is missing from what, seldom why. A cause is named only where operations or stack
frames speak for it; otherwise the finding is ``unknown`` with the step that would decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from unstall.model.facts import Moment
from unstall.model.findings import Collective, Evidence, Exonerated, Finding, Fix, Origin
from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.recorder.result import RecorderVerdict, Sighting, Suspect, reason
from unstall.recorder.scene import named
from unstall.stacks.order import further_on

_SAVE = re.compile(r"save|checkpoint|ckpt|eval|validat|predict", re.IGNORECASE)
_PREPARE = re.compile(r"tokeni[sz]|preprocess|dataset|load_data|prepare|build_index", re.IGNORECASE)
_EVEN = re.compile(r"all_gather|allgather|reduce_scatter", re.IGNORECASE)
#: Elements from which on an operation is about the model, not about a loss or a flag.
SMALL = 65
_DISAGREE = ("other-operation", "other-size", "other-type", "order-deadlock", "alone")


def findings(verdict: RecorderVerdict, programs: Sequence[Program] = ()) -> list[Finding]:
    """Claims about causes that the dumps support, strongest first; empty for a healthy run.

    Every piece of evidence stands at a dump and an entry, counted from 1.

    Args:
        verdict: what :func:`unstall.recorder.analyse` returned.
        programs: programs known from logs and scripts. A dump names no program: the one that the
            logs tell, else the one that has as many processes as the dumps have ranks, or the only
            one there is.
    """
    if not verdict.suspects:
        return []
    lead = verdict.suspects[0]
    suspects = [s for s in verdict.suspects if s.kind == lead.kind] or [lead]
    claims = [
        (cause, weight, support, fixes)
        for cause, weight, support, fixes in _causes(lead)
        if support
    ]
    claims.sort(key=lambda claim: -claim[1])
    owner = owner_of(verdict, programs)
    return [_finding(verdict, owner, suspects, *claim) for claim in claims]


def owner_of(verdict: RecorderVerdict, programs: Sequence[Program]) -> Program | None:
    """The program that left the dumps, where that can be told: by the logs, else by its size."""
    for program in programs:
        if program.label == verdict.program:
            return program
    world = len(set(verdict.ranks) | set(verdict.missing))
    taken = {other.program for other in verdict.others}
    left = [program for program in programs if program.label not in taken]
    same = [program for program in left if program.processes == world]
    if len(same) == 1:
        return same[0]
    possible = [program for program in left if program.processes is None]
    return possible[0] if len(left) == len(possible) == 1 else None


_Claim = tuple[str, float, tuple[Evidence, ...], tuple[Fix, ...]]


def _causes(lead: Suspect) -> list[_Claim]:
    base = lead.evidence
    own, theirs = lead.own, lead.operation
    claims: list[_Claim] = []
    if lead.kind in ("other-size", "other-type"):
        fix = Fix(say("Pad to a common size, or gather the sizes first."))
        claims.append(("size-mismatch", 3.0, base, (fix,)))
        if (
            own is not None
            and theirs is not None
            and own.op.startswith(("all_reduce", "allreduce"))
        ):
            note = _note(
                say(
                    "Sizes of a gradient reduction also differ when one rank skips a module "
                    "(no image in the batch, no token for an expert)."
                ),
                own,
                0.8,
            )
            fix = Fix(say("Let every rank run every module, with a dummy input where it has none."))
            claims.append(("data-dependent-graph", 0.8, (note,), (fix,)))
    elif lead.kind == "other-operation":
        behind = _behind_the_loop(lead)
        weight = 2.5 if behind is None else 1.0
        claims.append(("rank-dependent-branch", weight, (*base, *_branches(lead)), (_BRANCH,)))
        if behind is not None:
            claims.append(("uneven-batches", 2.6, (*base[:1], *behind), (_EVEN_FIX,)))
        elif own is not None and theirs is not None and _EVEN.search(own.op + theirs.op):
            claims.append(("uneven-batches", 1.0, (_uneven(own),), (_EVEN_FIX,)))
    elif lead.kind == "order-deadlock":
        if own is not None and own.op.startswith(("send", "recv", "coalesced")):
            fix = Fix(
                say("Exchange with batched point-to-point operations (batch_isend_irecv), or let "
                    "neighbours alternate the order of send and receive.")
            )  # fmt: skip
            claims.append(("pipeline-order", 3.0, base, (fix,)))
        else:
            claims.append(("rank-dependent-branch", 2.0, (*base, *_branches(lead)), (_BRANCH,)))
            if own is not None:
                claims.append(("uneven-batches", 1.2, (_uneven(own),), (_EVEN_FIX,)))
    elif lead.kind == "alone":
        claims.append(("rank-dependent-branch", 2.0, (*base, *_branches(lead)), (_BRANCH,)))
    elif lead.kind == "absent" and theirs is not None:
        claims += _late(theirs, own)
    claims.append(("unknown", 1.0 if not claims else 0.2, base, ()))
    return claims


_BRANCH = Fix(
    say(
        "Let one rank decide and broadcast the decision, so that all ranks call the same "
        "operations."
    )
)
_EVEN_FIX = Fix(
    say("Give every rank the same number of batches: drop the last one, pad, or agree on the end.")
)


#: For a rank that is busy with something that takes longer than the others wait.
LATE = Fix(
    say("Raise the group's time-out above the longest pause, or let all ranks share the work.")
)


def _late(theirs: Sighting, own: Sighting | None) -> list[_Claim]:
    """What the frames of both sides say about a rank that did not come."""
    words = " ".join(f"{name} {file}" for name, file, _ in theirs.frames[:8])
    claims: list[_Claim] = []
    small = theirs.op in ("barrier", "all_reduce_barrier") or (theirs.numel_in or 99) <= 1
    fix = LATE
    mine = " ".join(f"{name} {file}" for name, file, _ in (own.frames[:8] if own else ()))
    if own is not None and _SAVE.search(mine) and not _SAVE.search(words):
        note = _note(
            say("The last operation of rank {rank} comes from code that saves or evaluates.",
                rank=own.rank), own, 1.5,
        )  # fmt: skip
        claims.append(("slow-checkpoint-or-eval", 1.5, (note,), (fix,)))
    if _SAVE.search(words):
        note = _note(say("The others wait in code that saves or evaluates."), theirs, 1.5)
        claims.append(("slow-checkpoint-or-eval", 1.5, (note,), (fix,)))
        if own is not None and own.frames and theirs.frames and own.frames[0] != theirs.frames[0]:
            note = _note(say("Only the others are in that code."), theirs, 1.0)
            claims.append(("rank-dependent-branch", 1.0, (note,), (_BRANCH,)))
    elif small and (theirs.seq <= 2 or _PREPARE.search(words)):
        note = _note(say("The others wait in the first barrier of their group."), theirs, 1.2)
        if _PREPARE.search(words):
            note = _note(say("The others wait in code that prepares data."), theirs, 1.8)
        claims.append(("slow-preprocessing", 1.2, (note,), (fix,)))
    return claims


def _branches(lead: Suspect) -> tuple[Evidence, ...]:
    """The two places in the user's code, where the dumps have stacks."""
    own, theirs = lead.own, lead.operation
    if own is None or theirs is None or not own.frames or not theirs.frames:
        return ()
    mine, other = own.frames[0], theirs.frames[0]
    if mine[1:] == other[1:]:
        text = say("Both sides call it from {file}:{line}.", file=mine[1], line=mine[2])
        return (Evidence(text, own.place, 0.3),)
    text = say(
        "Rank {rank} calls it from {function} ({file}:{line}), rank {other} from {other_function} "
        "({other_file}:{other_line}).",
        rank=own.rank, function=mine[0], file=mine[1], line=mine[2], other=theirs.rank,
        other_function=other[0], other_file=other[1], other_line=other[2],
    )  # fmt: skip
    return (Evidence(text, own.place, 1.5),)


def _left_and_inside(lead: Suspect) -> tuple[Sighting, Sighting] | None:
    """The side that may have left a loop, by its small operation, and the one still inside."""
    own, theirs = lead.own, lead.operation
    if own is None or theirs is None:
        return None
    for left, inside in ((own, theirs), (theirs, own)):
        small = left.op in ("barrier", "all_reduce_barrier") or (left.numel_in or SMALL) < SMALL
        if small and _EVEN.search(inside.op) and (inside.numel_in or 0) >= SMALL:
            return left, inside
    return None


def _behind_the_loop(lead: Suspect) -> tuple[Evidence, ...] | None:
    """That the side with the small operation is further down in a function that both are in.

    Rank 0 alone in such an operation is the sign of a branch on the rank (``if rank == 0``), and
    so is code that saves or evaluates on one side only.
    """
    sides = _left_and_inside(lead)
    if sides is None:
        return None
    left, inside = sides
    ahead = further_on(left.frames, inside.frames)
    if ahead is None or (left.rank == 0 and left is lead.own and not lead.tie):
        return None
    words = {name for name, _, _ in left.frames} - {name for name, _, _ in inside.frames}
    if any(_SAVE.search(name) for name in words):
        return None
    text = say(
        "Both are in {function} ({file}), rank {rank} further down (line {line}) than rank {other} "
        "(line {other_line}), which gathers or reduces parts of the model.",
        function=ahead.function, file=ahead.name, rank=left.rank, line=ahead.line,
        other=inside.rank, other_line=ahead.other,
    )  # fmt: skip
    return (_note(text, left, 3.0), _uneven(left))


def _parted(suspects: list[Suspect]) -> tuple[tuple[int, ...], list[int]] | None:
    """Ranks that may have left a loop, and those that were still inside."""
    if _behind_the_loop(suspects[0]) is None:
        return None
    left: set[int] = set()
    inside: set[int] = set()
    for suspect in suspects:
        sides = _left_and_inside(suspect)
        if sides is not None:
            (left if sides[0] is suspect.own else inside).add(suspect.rank)
    others = {rank for s in suspects for rank in s.waiting} - left - inside
    if not suspects[0].tie:
        (left if not left else inside).update(others)
    return (tuple(sorted(left)), sorted(inside)) if left and inside else None


def _uneven(own: Sighting) -> Evidence:
    return _note(
        say("A rank that has run out of batches leaves the loop while the others still gather."),
        own,
        1.0,
    )


def _note(text: Text, sight: Sighting, weight: float) -> Evidence:
    return Evidence(text, sight.place, weight)


def _finding(
    verdict: RecorderVerdict,
    owner: Program | None,
    suspects: list[Suspect],
    cause: str,
    weight: float,
    support: tuple[Evidence, ...],
    fixes: tuple[Fix, ...],
) -> Finding:
    lead = suspects[0]
    sight = lead.operation or lead.own
    parted = _parted(suspects) if cause == "uneven-batches" else None
    blamed = {suspect.rank for suspect in verdict.suspects}
    known = [evidence.text for evidence in support]
    more = tuple(e for s in suspects[1:4] for e in s.evidence[:1] if e.text not in known)
    waiting = sorted({rank for s in suspects for rank in s.waiting} - blamed)
    origin = tuple(s.rank for s in suspects)
    summary = verdict.summary
    if parted is not None:
        origin, waiting = parted
        summary = say(
            "{left} had left the loop while {inside} was still inside it: they had different "
            "numbers of batches.",
            left=named(origin),
            inside=named(waiting),
        )
    group = sight.group if sight else None
    against: tuple[Evidence, ...] = ()
    if lead.tie and sight is not None:
        against = (
            Evidence(
                say("As many ranks did the one as the other: which side is wrong stays open."),
                sight.place,
                0.7,
            ),
        )
    return Finding(
        cause=cause,
        summary=summary,
        support=support + more,
        against=against,
        fixes=fixes,
        next_step=verdict.next_step,
        origin=Origin(
            owner.label if owner else "unknown",
            owner.role if owner else "trainer",
            owner.software if owner else None,
            ranks=origin,
            process_group=group,
        ),
        collective=Collective(
            sight.op.split(" ")[0], sight.seq, sight.numel_in, sight.numel_out, sight.timeout_ms
        )
        if sight
        else None,
        waiting_ranks=tuple(waiting),
        started_at=started(sight),
        exonerated=_exonerated(lead),
        ceiling=0.6 if cause == "unknown" or lead.tie else 0.85 if weight >= 2 else 0.6,
    )


def started(sight: Sighting | None) -> Moment | None:
    """When the operation that could not end was enqueued (UTC)."""
    if sight is None or sight.created < 1_000_000_000_000_000_000:
        return None
    try:
        stamp = datetime.fromtimestamp(sight.created / 1e9, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
    return Moment(stamp.replace(tzinfo=None), True, 0)


def _exonerated(lead: Suspect) -> tuple[Exonerated, ...]:
    if lead.kind in _DISAGREE and not lead.tie and lead.own is not None:
        return (
            Exonerated(
                "network-transport",
                say(
                    "Rank {rank} {reason}: with that the operation cannot end on any network.",
                    rank=lead.rank,
                    reason=reason(lead.kind),
                ),
                (lead.own.place,),
            ),
        )
    return ()
