"""Known defects beside a claim: a release that has one speaks for it, one outside is told."""

from __future__ import annotations

import msgspec

from unstall.causes.base import WEAK, evidence
from unstall.job import Job
from unstall.model.facts import Fact, Place
from unstall.model.findings import Evidence, Finding, Fix
from unstall.model.text import say
from unstall.programs.known_bugs import KnownBug, Scene, known_bugs, seen, version_of

#: How many known defects a claim names at most.
MOST = 3


def consulted(job: Job, finding: Finding) -> Finding:
    """The claim with the known defects that its signs fit, as evidence and as fixes."""
    candidates = [bug for bug in known_bugs() if bug.cause == finding.cause]
    if not candidates:
        return finding
    scene = Scene(
        facts=job.by_type,
        programs=job.programs,
        groups=tuple(match for blocked in job.blocked for match in blocked.matches[:1]),
    )
    support: list[Evidence] = list(finding.support)
    fixes: list[Fix] = list(finding.fixes)
    named = 0
    for bug in candidates:
        found = seen(bug, scene)
        if found is False:
            continue
        version = version_of(bug.framework, job.versions, job.programs)
        standing = bug.standing(version)
        if standing == "untold" and bug.since is not None and bug.cause == "unknown":
            continue  # a release's regression, and nothing tells that this release is used
        if standing == "outside" and bug.cause == "unknown":
            continue  # where nothing else is known, what it is not would only mislead
        place = found.place if isinstance(found, Fact) else _anchor(finding)
        support.append(_evidence(bug, version, standing, place))
        if standing != "outside" and not _offered(bug, fixes):
            fixes.append(
                Fix(
                    say(
                        "known defect: {advice} ({link})",
                        advice=bug.advised(),
                        link=bug.links[0],
                    )
                )
            )
        named += 1
        if named == MOST:
            break
    return msgspec.structs.replace(finding, support=tuple(support), fixes=tuple(fixes))


def _offered(bug: KnownBug, fixes: list[Fix]) -> bool:
    """Whether a fix names the release already, or is the very advice."""
    return any(
        bug.advice == fix.text.template or (bug.fixed is not None and bug.fixed in str(fix.text))
        for fix in fixes
    )


def _anchor(finding: Finding) -> Place | None:
    """A line that the claim itself rests on."""
    return next((item.place for item in finding.support if item.place is not None), None)


def _evidence(bug: KnownBug, version: str | None, standing: str, place: Place | None) -> Evidence:
    link = ", ".join(bug.links)
    if standing == "inside":
        return evidence(
            say(
                "known defect of {framework}, and {version} has it: {what}",
                framework=bug.framework,
                version=version or "?",
                what=bug.said(),
            ),
            0.0 if bug.cause == "unknown" else WEAK,
            place,
            source=link,
        )
    if standing == "outside":
        return evidence(
            say(
                "a known defect of {framework} looks like this, but {version} is outside the "
                "releases that have it ({range}): {what}",
                framework=bug.framework,
                version=version or "?",
                range=_range(bug),
                what=bug.said(),
            ),
            0.0,
            place,
            source=link,
        )
    return evidence(
        say(
            "known defect of {framework} ({range}; the release here is not told): {what}",
            framework=bug.framework,
            range=_range(bug),
            what=bug.said(),
        ),
        0.0 if bug.cause == "unknown" else WEAK,
        place,
        source=link,
    )


def _range(bug: KnownBug) -> str:
    """``>= 2.7.0, < 2.7.1``, as package managers write it."""
    parts = []
    if bug.since is not None:
        parts.append(f">= {bug.since}")
    if bug.fixed is not None:
        parts.append(f"< {bug.fixed}")
    return ", ".join(parts) or "all"
