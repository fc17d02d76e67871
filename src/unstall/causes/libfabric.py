"""What NCCL's libfabric plugin (aws-ofi-nccl: EFA, Slingshot) tells of transfers that failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.causes.base import FAIR, STRONG, WEAK, evidence, excerpt, origin_of
from unstall.causes.deaths import rank_told
from unstall.causes.reasons import first_death_before, went_on, worked_before
from unstall.job import Job
from unstall.model.facts import Fact, NcclError, NcclWarning
from unstall.model.findings import Finding, Fix
from unstall.model.text import say

_FAILED = "completed with error"
_CLUTTER = re.compile(r"^.*?NET/OFI |\. Completed length.*$")


def claims(job: Job, cause: str) -> Iterable[Finding]:
    """The claim of ``network-transport`` that rests on a transfer's completion with an error."""
    if cause != "network-transport":
        return
    told: list[tuple[Fact, str]] = [
        (one, one.message)
        for one in job.all(NcclWarning)
        if one.topic == "ofi" and _FAILED in one.message
    ]
    told += [
        (one, one.last_error)
        for one in job.all(NcclError)
        if one.last_error and "NET/OFI" in one.last_error and _FAILED in one.last_error
    ]
    if not told or went_on(job, told[0][0]) is not None:
        return
    first, words = told[0]
    before = worked_before(job, first)
    death = first_death_before(job, first, "exception", "memory", "device", "signal")
    hosts = {fact.speaker.host for fact, _ in told if fact.speaker.host}
    support = [
        evidence(
            say(
                "a transfer over libfabric (EFA, Slingshot) ended with an error: {words}",
                words=_CLUTTER.sub("", words)[:160],
            ),
            STRONG,
            first,
        )
    ]
    if before is None:
        support.append(
            evidence(
                say("it failed at once: configuration is more likely than a broken link"),
                WEAK,
                first,
            )
        )
    if len(hosts) > 1:
        support.append(evidence(say("several nodes report it"), FAIR, told[1][0]))
    ranks = sorted({rank for fact, _ in told if (rank := rank_told(job, fact)) is not None})
    yield Finding(
        cause=cause,
        summary=say("A transfer between nodes failed in libfabric, below NCCL."),
        support=tuple(support),
        against=()
        if death is None
        else (
            evidence(
                say("a process had failed before: {quote}", quote=death.quote[:120]), STRONG, death
            ),
        ),
        fixes=(
            Fix(
                say(
                    "EFA: the security group must allow all traffic from and to itself, inbound "
                    "and outbound, and the nodes must be in one subnet"
                )
            ),
            Fix(say("install the same EFA installer, libfabric and aws-ofi-nccl on every node")),
        ),
        next_step=say(
            "read the peer's log at that time: a process that died looks the same from here; if "
            "none did, run fi_pingpong or nccl-tests between the two nodes, with FI_LOG_LEVEL=warn"
        ),
        origin=origin_of(None, ranks[:1] if len(ranks) == 1 else (), role="node"),
        started_at=job.chronology.with_year(first.moment),
        excerpts=(excerpt(first, "origin"),),
        ceiling=0.8 if len(hosts) > 1 else 0.65,  # a peer that died looks the same
    )
