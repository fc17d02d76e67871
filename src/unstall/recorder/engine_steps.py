"""What Flight Recorder dumps of engines add to the claim that they fell out of step.

Stacks show who is in a step and who is not; the dumps count the steps. The number of the one that
could not finish tells whether a wave had just begun (:mod:`unstall.programs.waves`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from unstall.causes.base import STRONG, WEAK
from unstall.model.facts import Place
from unstall.model.findings import Collective, Evidence, Finding, ProcessGroup
from unstall.model.text import say
from unstall.programs.identify import Match
from unstall.programs.vllm.stepping import dp_sync
from unstall.programs.waves import wave_reading

if TYPE_CHECKING:
    from unstall.job import Job
    from unstall.recorder.loading import Dumps
    from unstall.recorder.records import Dump, GroupLog, Unit


def counted(claims: Iterable[Finding], dumps: Dumps, job: Job) -> list[Finding]:
    """Claims of ``engine-desync`` from stacks, with the operation and the count of the dumps."""
    return [
        _with_count(claim, dumps.dumps, job)
        if claim.cause == "engine-desync" and claim.collective is None
        else claim
        for claim in claims
    ]


def _with_count(claim: Finding, dumps: list[Dump], job: Job) -> Finding:
    if claim.origin is None or claim.origin.software == "sglang":
        return claim
    by_rank = {dump.rank: dump for dump in dumps if dump.rank is not None}
    waiting = [by_rank[rank] for rank in claim.waiting_ranks if rank in by_rank]
    missing = [by_rank[rank] for rank in claim.origin.ranks if rank in by_rank]
    version = job.versions.get("vllm")
    numel = dp_sync(version).factor * (len(claim.waiting_ranks) + len(claim.origin.ranks))
    for dump in waiting[:1]:
        for group in dump.groups:
            unit = group.pending[0] if group.pending else None
            meaning = dump.meanings.get(unit.signature) if unit is not None else None
            if unit is None or meaning is None or unit.p2p or meaning.numel_in != numel:
                continue
            behind = [_last(other, group.name) for other in missing]
            if not behind or set(behind) != {unit.seq - 1}:
                continue
            return _joined(claim, dump, group, unit, numel, version, job)
    return claim


def _last(dump: Dump, name: str) -> int:
    """The last operation of a group that a dump knows of, 0 for none."""
    for group in dump.groups:
        if group.name == name:
            return max(group.last, group.enqueued or 0, 0)
    return 0


def _joined(
    claim: Finding,
    dump: Dump,
    group: GroupLog,
    unit: Unit,
    numel: int,
    version: str | None,
    job: Job,
) -> Finding:
    place = Place(dump.source, unit.number)
    support = [
        Evidence(
            say(
                "the dumps agree: rank {rank} is in {op} number {seq} of group {group}, the last "
                "of the idle engine is number {last}",
                rank=dump.rank or 0,
                op=unit.op,
                seq=unit.seq,
                group=group.name,
                last=unit.seq - 1,
            ),
            place,
            WEAK,
        )
    ]
    match = Match(
        program=claim.origin.program if claim.origin is not None else None,
        software="vLLM",
        framework="vllm",
        version=version,
        group=ProcessGroup(name="dp"),
    )
    owner = next((one for one in job.programs if one.label == match.program), None)
    wave = wave_reading(unit.seq, match, owner, job.versions, on_cpu=set(dump.backends) == {"gloo"})
    if wave is not None:
        weight = min(-math.log(max(wave.chance, 1e-3)), STRONG) if wave.first_of_wave else 0.0
        support.append(Evidence(wave.text, place, round(weight, 2), wave.source))
    origin = claim.origin
    if origin is not None and origin.process_group is not None:
        named = msgspec.structs.replace(origin.process_group, guid=group.name)
        origin = msgspec.structs.replace(origin, process_group=named)
    return msgspec.structs.replace(
        claim,
        support=(*claim.support, *support),
        collective=Collective(unit.op, unit.seq, numel, numel, None),
        origin=origin,
    )
