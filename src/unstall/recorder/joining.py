"""Claims of logs and claims of dumps about the same failure: one claim, not two that compete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from unstall.model.facts import Phase, Place
from unstall.model.findings import Evidence, Finding
from unstall.model.text import say
from unstall.recorder.claims import LATE, findings, owner_of
from unstall.recorder.result import RecorderVerdict, Suspect, ranks_text
from unstall.recorder.told import inform
from unstall.recorder.verdict import judge_all

if TYPE_CHECKING:
    from unstall.job import Job
    from unstall.recorder.loading import Dumps

#: Both saw the same ranks missing: worth less than where each saw something of its own.
_SAME = 1.5
_OTHERWISE = 3.0
_MISSING = ("absent", "stuck", "stopped-earlier", "alone", "dump-missing", "dump-empty",
            "dump-truncated", "dump-unreadable")  # fmt: skip


def combine(
    claims: Iterable[Finding], dumps: Dumps, jobs: Sequence[Job], chosen: Job
) -> list[Finding]:
    """The claims of a log's causes, joined with what dumps say.

    Args:
        claims: what the causes claim of the chosen job.
        dumps: loaded dumps; what the logs say of them is written into them.
        jobs: the attempts that the logs tell apart, in order.
        chosen: the attempt that is diagnosed. Dumps of another attempt speak only where no log
            tells of a failure.
    """
    claims = list(claims)
    inform(dumps.dumps, jobs)
    whole = judge_all(dumps.dumps)
    verdicts = [whole, *whole.others]
    if claims and len(jobs) > 1:
        at = next(at for at, job in enumerate(jobs) if job is chosen)
        verdicts = [verdict for verdict in verdicts if verdict.attempt in (-1, at)]
    if not verdicts:
        return claims
    recorded = findings(verdicts[0], chosen.programs)
    recorded += _said_itself(recorded, verdicts[0], chosen)
    recorded = [_with_names(one, verdicts[0], dumps) for one in recorded]
    for verdict in verdicts:
        claims = [_weighed(claim, verdict, chosen) for claim in claims]
    return _merged(claims, recorded)


#: What a rank says of itself, and the cause of which it is a sign when that rank is then missing.
_PHASES = {
    "save": "slow-checkpoint-or-eval", "evaluate": "slow-checkpoint-or-eval",
    "tokenize": "slow-preprocessing", "load-data": "slow-preprocessing",
}  # fmt: skip


def _said_itself(recorded: list[Finding], verdict: RecorderVerdict, job: Job) -> list[Finding]:
    """A claim where the missing rank's own last words tell what it is busy with.

    The log alone may not know that the rank is missing: one that never speaks of the group is not
    missed there.
    """
    lead = verdict.suspects[0] if verdict.suspects else None
    if lead is None or lead.kind != "absent" or lead.tie or not recorded:
        return []
    owner = owner_of(verdict, job.programs)
    words = [
        fact
        for fact in job.all(Phase)
        if fact.speaker.rank == lead.rank and job.owner(fact) in (owner, None)
    ]
    last = words[-1] if words else None
    if last is None or last.finished or last.kind not in _PHASES:
        return []
    said = say("The last thing that rank {rank} said is: {line}", rank=lead.rank, line=last.quote)
    support = (Evidence(said, last.place, _OTHERWISE), *map(_capped, lead.evidence))
    like = next((one for one in recorded if one.cause == _PHASES[last.kind]), recorded[0])
    fixes = like.fixes if like.cause == _PHASES[last.kind] else ()
    return [
        msgspec.structs.replace(
            like, cause=_PHASES[last.kind], support=support, fixes=fixes or (LATE,), ceiling=0.85
        )
    ]


def _with_names(finding: Finding, verdict: RecorderVerdict, dumps: Dumps) -> Finding:
    """With the lines that tell whose dump a file is, where its name says otherwise."""
    ranks = finding.origin.ranks if finding.origin is not None else ()
    lines = tuple(
        Evidence(
            say(
                "{name} is the dump of rank {rank} by the log, whatever its name says.",
                name=dump.source,
                rank=dump.rank,
            ),
            Place(*dump.told) if dump.told else None,
        )
        for dump in dumps.dumps
        if dump.renamed
        and dump.rank is not None
        and dump.rank in ranks
        and (dump.program, dump.attempt) == (verdict.program, verdict.attempt)
    )
    return msgspec.structs.replace(finding, support=finding.support + lines)


def _weighed(claim: Finding, verdict: RecorderVerdict, job: Job) -> Finding:
    """A log's claim with what the dumps say for or against the ranks it names."""
    named = set(claim.origin.ranks) if claim.origin is not None else set()
    if not named or not verdict.suspects or verdict.suspects[0].tie:
        return claim
    owner = owner_of(verdict, job.programs)
    if owner is not None and claim.origin is not None and owner.label != claim.origin.program:
        return claim
    lead = verdict.suspects[0]
    blamed = {s.rank for s in verdict.suspects if s.kind == lead.kind}
    if claim.cause == "unknown":
        return claim
    if named & blamed:
        if lead.kind not in _MISSING:
            return claim
        agreeing = [s for s in verdict.suspects if s.rank in named and s.kind == lead.kind][:3]
        support = tuple(_capped(evidence) for s in agreeing for evidence in s.evidence[:2])
        return _filled(msgspec.structs.replace(claim, support=claim.support + support), lead)
    waiting = set(lead.waiting)
    if named <= waiting and set(claim.waiting_ranks).isdisjoint(named):
        text = say(
            "The dumps show {ranks} waiting like the others, and blame {blamed}.",
            ranks=ranks_text(sorted(named)),
            blamed=ranks_text(sorted(blamed)),
        )
        place = lead.evidence[0].place if lead.evidence else None
        against = (*claim.against, Evidence(text, place, _OTHERWISE))
        return msgspec.structs.replace(claim, against=against)
    return claim


def _capped(evidence: Evidence) -> Evidence:
    return msgspec.structs.replace(evidence, weight=min(evidence.weight, _SAME))


def _filled(claim: Finding, lead: Suspect) -> Finding:
    """With the group and the waiting ranks of the dumps, where the log does not tell them."""
    origin = claim.origin
    if origin is not None and origin.process_group is None and lead.operation is not None:
        origin = msgspec.structs.replace(origin, process_group=lead.operation.group)
    waiting = claim.waiting_ranks or lead.waiting
    return msgspec.structs.replace(claim, origin=origin, waiting_ranks=waiting)


def _merged(claims: list[Finding], recorded: list[Finding]) -> list[Finding]:
    """Claims of one cause that name the same ranks, or of which one names none, become one."""
    result = list(claims)
    for finding in recorded:
        for at, claim in enumerate(result):
            if claim.cause == finding.cause and _compatible(claim, finding):
                result[at] = _sum(claim, finding)
                break
        else:
            result.append(finding)
    return result


def _compatible(claim: Finding, finding: Finding) -> bool:
    mine = set(claim.origin.ranks) if claim.origin is not None else set()
    theirs = set(finding.origin.ranks) if finding.origin is not None else set()
    if claim.origin is not None and finding.origin is not None:
        programs = {claim.origin.program, finding.origin.program} - {"unknown"}
        if len(programs) > 1:
            return False
    return not mine or not theirs or bool(mine & theirs)


def _sum(claim: Finding, finding: Finding) -> Finding:
    """A log's claim with the dumps' evidence; what the log tells is kept, its times above all."""
    known = {str(evidence.text) for evidence in claim.support}
    more = tuple(e for e in finding.support if str(e.text) not in known)
    against = {str(evidence.text) for evidence in claim.against}
    fixes = [fix for fix in finding.fixes if fix.text not in [own.text for own in claim.fixes]]
    origin = claim.origin or finding.origin
    told = claim.origin is not None and bool(claim.origin.ranks)
    if origin is not None and finding.origin is not None:
        origin = msgspec.structs.replace(
            origin,
            ranks=origin.ranks or finding.origin.ranks,
            process_group=origin.process_group or finding.origin.process_group,
        )
    unknown = claim.cause == "unknown" and not told
    return msgspec.structs.replace(
        claim,
        summary=finding.summary if unknown and finding.origin else claim.summary,
        support=claim.support + more,
        against=claim.against + tuple(e for e in finding.against if str(e.text) not in against),
        fixes=(*claim.fixes, *fixes),
        next_step=(finding.next_step or claim.next_step) if unknown else claim.next_step,
        origin=origin,
        collective=claim.collective or finding.collective,
        waiting_ranks=claim.waiting_ranks or finding.waiting_ranks,
        started_at=claim.started_at or finding.started_at,
        ceiling=max(claim.ceiling, finding.ceiling),
    )
