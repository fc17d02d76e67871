"""Facts and a launch plan to a diagnosis: causes are asked, their claims weighed and ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from unstall.benign import harmless
from unstall.causes import Cause, all_causes
from unstall.causes.hccl import claims as told_by_hccl
from unstall.causes.known_bugs import consulted
from unstall.causes.libfabric import claims as told_by_libfabric
from unstall.causes.told import claims as told_by_people
from unstall.job import Job, build
from unstall.job.attempts import attempts
from unstall.model.facts import (
    CutTraceback,
    EngineLoad,
    Fact,
    GroupCreated,
    HttpExchange,
    NcclInit,
    Phase,
    Place,
    ProcessStack,
    Remark,
    TrainingStep,
    WarningLine,
)
from unstall.model.facts import Progress as ProgressBar
from unstall.model.findings import (
    Diagnosis,
    Excerpt,
    Exonerated,
    Finding,
    Ranked,
)
from unstall.model.plan import Judgement, Plan
from unstall.model.text import say
from unstall.sparing import Spared

if TYPE_CHECKING:
    from unstall.reading.parts import DumpSource
    from unstall.recorder.loading import Dumps

#: The odds, as a logarithm, that what happened is none of the causes that found something to say.
#: A claim needs about this much evidence to be as likely as not.
UNKNOWN = 3.0

#: Claims weaker than this are not shown beside a stronger one.
SHOWN = 0.02

#: What shows that a program was at work: with it and without any claim, nothing failed.
WORK: tuple[type[Fact], ...] = (
    TrainingStep,
    ProgressBar,
    Phase,
    EngineLoad,
    HttpExchange,
    GroupCreated,
    WarningLine,
)

Progress = Callable[[int, int | None, str], None]


def diagnose(
    paths: Sequence[str | Path],
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """The diagnosis of any mix of logs, scripts, pasted reports, stacks and recorder dumps.

    Args:
        paths: files, folders, archives; ``-`` for ``stdin``.
        stdin: what ``-`` reads.
        progress: called with bytes read, bytes in all (where known) and the source's name.

    Nothing in the input is executed. What cannot be read is told in ``Diagnosis.unread``.
    """
    from unstall.launch import read_plan
    from unstall.reading import read

    reading = read(paths, stdin=stdin, progress=progress)
    versions = _versions(reading.facts)
    spared = Spared(next((f.place for f in reading.facts), Place(str([*paths, "-"][0]), 1)))
    plan = spared(lambda: read_plan(reading.scripts, reading.configs, versions), Plan())
    dumps = spared(lambda: _loaded(reading.dumps), None) if reading.dumps else None
    found = weigh(reading.facts, plan, dumps, spared)
    return msgspec.structs.replace(
        found,
        language=reading.language,
        unread=(*reading.unread, *spared.defects),
        counts=reading.counts,
    )


def _loaded(sources: Sequence[DumpSource]) -> Dumps:
    from unstall import recorder

    return recorder.load(sources)


def weigh(
    facts: Sequence[Fact], plan: Plan, dumps: Dumps | None = None, spared: Spared | None = None
) -> Diagnosis:
    """The diagnosis of facts, a plan and dumps; of several attempts, the last which failed.

    With ``spared`` a part that fails is left out and told there; without, its error is raised.
    """
    divided = attempts(facts)
    jobs = [build(attempt, plan) for attempt in divided]
    chosen = jobs[-1]
    findings: list[Finding] = []
    for job in reversed(jobs):
        claimed = examine(job, spared)
        if not claimed or (findings and not _explains(claimed)):
            continue
        findings, chosen = claimed, job
        if not _left_over(findings):
            break
    if dumps is not None:
        from unstall import recorder
        from unstall.recorder.engine_steps import counted

        told, whole = findings, dumps

        def combined() -> list[Finding]:
            return counted(recorder.combine(told, whole, jobs, chosen), whole, chosen)

        findings = combined() if spared is None else spared(combined, findings)
    ranked = rank(findings)
    benign = harmless(chosen)
    if ranked:
        verdict = "failure"
    elif chosen.all(CutTraceback) or any(r.topic == "complaint" for r in chosen.all(Remark)):
        verdict = "inconclusive"  # a person says that it failed, though no line of a log does
    elif chosen.all(ProcessStack):
        verdict = "inconclusive"  # whoever takes stacks has a reason
    elif benign or _at_work(chosen):
        verdict = "benign"  # there is work, or a harmless complaint, and nothing that failed
    else:
        verdict = "inconclusive"
    if ranked and ranked[0].finding.cause == "unknown":
        verdict = "inconclusive"
    lead = ranked[0].finding if ranked else None
    settings = _judged(plan, lead)
    return Diagnosis(
        verdict=verdict,
        causes=tuple(ranked),
        programs=chosen.programs,
        plan=plan,
        settings=settings,
        exonerated=_exonerated(lead, ranked, settings),
        excerpts=_excerpts(lead),
        benign=benign,
        attempts=len(divided),
    )


def _left_over(findings: Sequence[Finding]) -> bool:
    """Whether an attempt met what the attempt before it may have left: a port still taken."""
    ranked = rank(findings)
    return bool(ranked) and ranked[0].finding.cause == "port-collision"


def _explains(findings: Sequence[Finding]) -> bool:
    """Whether an earlier attempt failed by something that was found, and of its own."""
    ranked = rank(findings)
    return bool(ranked) and ranked[0].finding.cause not in ("unknown", "port-collision")


def _at_work(job: Job) -> bool:
    """Whether anything shows that the programs got as far as to work.

    A start of NCCL that never came to its end shows nothing: there a job may hang without a word.
    """
    # an exchange of weights that was begun may be what hangs, or be spoken of
    return any(
        not isinstance(fact, Phase) or fact.kind != "weight-sync" or fact.finished
        for kind in WORK
        for fact in job.all(kind)
    ) or any(init.stage == "complete" for init in job.all(NcclInit))


def examine(job: Job, spared: Spared | None = None) -> list[Finding]:
    """Every cause's claims about a job, with the known defects that fit each; see `weigh`."""
    found: list[Finding] = []
    for cause in all_causes():
        asked = partial(_claims, cause, job)
        found.extend(asked() if spared is None else spared(asked, []))
    return found


def _claims(cause: Cause, job: Job) -> list[Finding]:
    claimed = (
        *cause.examine(job),
        *told_by_hccl(job, cause.id),
        *told_by_libfabric(job, cause.id),
        *told_by_people(job, cause.id),
    )
    return [consulted(job, found) for found in claimed]


def score(finding: Finding) -> float:
    """Evidence for less evidence against, as a logarithm of odds."""
    support = sum(abs(item.weight) for item in finding.support)
    return support - sum(abs(item.weight) for item in finding.against)


def rank(findings: Iterable[Finding]) -> list[Ranked]:
    """Findings by confidence: what remains after the look-alikes were weighed.

    Claims compete: each one's share of the odds, with :data:`UNKNOWN` as the share of all that is
    not in the vocabulary or not in the input, is its confidence, up to the claim's own ceiling.
    Of several claims of one cause the strongest stands. Without any sign of a failure (no claim of
    ``unknown``) a claim that is weaker than doubt is dropped.
    """
    strongest: dict[str, Finding] = {}
    for finding in findings:
        known = strongest.get(finding.cause)
        if known is None or score(finding) > score(known):
            strongest[finding.cause] = finding
    unknown = strongest.pop("unknown", None)
    scores = {cause: min(score(finding), 40.0) for cause, finding in strongest.items()}
    whole = math.exp(UNKNOWN) + sum(math.exp(value) for value in scores.values())
    ranked = [
        Ranked(finding, round(min(math.exp(scores[cause]) / whole, finding.ceiling), 3))
        for cause, finding in strongest.items()
    ]
    ranked = [one for one in ranked if one.confidence >= SHOWN]
    ranked.sort(key=lambda one: (-one.confidence, -score(one.finding), one.finding.cause))
    left = round(math.exp(UNKNOWN) / whole, 3)
    if not ranked or left > ranked[0].confidence:
        if unknown is None:
            return []  # nothing failed, and what was suspected all the same is less than likely
        ranked.insert(0, Ranked(unknown, left))
    return ranked


def _versions(facts: Iterable[Fact]) -> dict[str, str]:
    from unstall.model.facts import Identity, PackageVersion

    found: dict[str, str] = {}
    for fact in facts:
        if isinstance(fact, PackageVersion):
            found.setdefault(fact.name.lower().replace("_", "-"), fact.version)
        elif isinstance(fact, Identity) and fact.version:
            found.setdefault(fact.software, fact.version)
    return found


def _judged(plan: Plan, lead: Finding | None) -> tuple[Judgement, ...]:
    """Settings in order of their weight for the reader: conflicts first, the rest as they stand."""
    order = {"conflict": 0, "suspicious": 1, "ok": 2, "no effect": 2}
    concerned = lead.cause if lead is not None else ""
    return tuple(
        sorted(
            plan.judgements,
            key=lambda one: (order.get(one.judgement, 3), concerned not in one.concerns),
        )
    )


def _exonerated(
    lead: Finding | None, ranked: Sequence[Ranked], settings: Sequence[Judgement]
) -> tuple[Exonerated, ...]:
    """What the leading claim rules out, and what settings that were found in order rule out."""
    if lead is None or lead.cause == "unknown":
        return ()
    found = {item.id: item for item in lead.exonerated}
    claimed = {one.finding.cause for one in ranked if one.confidence >= 0.1}
    accused = {cause for one in settings if one.judgement == "conflict" for cause in one.concerns}
    for judgement in settings:
        if judgement.judgement not in ("ok", "no effect"):
            continue
        for cause in judgement.concerns:
            if cause in claimed or cause in found or cause in accused or cause == lead.cause:
                continue
            why = say("{setting}: {why}", setting=judgement.name, why=judgement.why)
            found[cause] = Exonerated(cause, why, judgement.places)
    return tuple(found.values())


def _excerpts(lead: Finding | None) -> tuple[Excerpt, ...]:
    if lead is None:
        return ()
    seen: dict[tuple[str, int], Excerpt] = {}
    for item in lead.excerpts:
        seen.setdefault((item.place.source, item.place.line), item)
    return tuple(sorted(seen.values(), key=lambda item: item.place))
