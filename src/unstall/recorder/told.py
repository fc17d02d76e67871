"""What logs say of dumps: whose each is, on which host, of which program, of which attempt.

``ProcessGroupNCCL`` says "Finished writing Flight Recorder debug info to <path>" under the prefix
of the rank that wrote it. Files are renamed and renumbered when they are collected; that line is
not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unstall.model.facts import RecorderFile
from unstall.recorder.collection import STALE_SECONDS
from unstall.recorder.records import Dump

if TYPE_CHECKING:
    from unstall.job import Job

_PACKED = (".gz", ".zst", ".xz", ".bz2")
_MOST = 100_000


class _Saying:
    """One such line: the path's parts from the last one on, and what the line tells."""

    __slots__ = ("attempt", "fact", "parts", "program")

    def __init__(self, fact: RecorderFile, program: str, attempt: int) -> None:
        self.fact, self.program, self.attempt = fact, program, attempt
        self.parts = _parts(fact.path or "")


def inform(dumps: Iterable[Dump], jobs: Sequence[Job]) -> None:
    """Write into dumps what the logs say of them; it wins over their files' names.

    Args:
        dumps: changed in place; those of which nothing is said, or not which of several is meant,
            stay as they are.
        jobs: the attempts that the logs tell apart, in order.
    """
    readable = list(dumps)
    by_name: dict[str, list[Dump]] = defaultdict(list)
    for dump in readable:
        by_name[_parts(dump.source)[0]].append(dump)
    pairs: dict[int, list[_Saying]] = defaultdict(list)
    for saying in _sayings(jobs):
        candidates = by_name.get(saying.parts[0], [])
        fits = sorted(
            ((_fit(dump, saying), at) for at, dump in enumerate(candidates)), reverse=True
        )
        if fits and (len(fits) == 1 or fits[0][0] > fits[1][0]):
            pairs[id(candidates[fits[0][1]])].append(saying)
    for dump in readable:
        if sayings := pairs.get(id(dump)):
            _write(dump, sayings)
    _by_time(readable)


def _sayings(jobs: Sequence[Job]) -> list[_Saying]:
    """What was said, once for each line; a line of no attempt in particular has attempt -1."""
    found: dict[object, _Saying] = {}
    for at, job in enumerate(jobs):
        for fact in job.all(RecorderFile)[:_MOST]:
            if fact.state != "written" or not fact.path:
                continue
            known = found.get(fact.place)
            if known is not None:
                known.attempt = -1
                continue
            owner = job.owner(fact)
            label = owner.label if owner is not None else ""
            found[fact.place] = _Saying(fact, label, at if len(jobs) > 1 else -1)
    return list(found.values())


def _parts(path: str) -> list[str]:
    """A path's parts, the last one first, without an ending that packing added."""
    parts = [part for part in path.replace("\\", "/").replace("!", "/").split("/") if part][::-1]
    parts = parts or [""]
    for ending in _PACKED:
        parts[0] = parts[0].removesuffix(ending)
    return parts


def _fit(dump: Dump, saying: _Saying) -> int:
    """How many parts of both paths agree, from the last one on; the host in the dump's counts."""
    mine = _parts(dump.source)
    agreeing = 0
    for one, other in zip(mine, saying.parts, strict=False):
        if one != other:
            break
        agreeing += 1
    host = saying.fact.speaker.host
    named = host is not None and (host == dump.host or host in mine)
    return 2 * agreeing + named


def _write(dump: Dump, sayings: list[_Saying]) -> None:
    best = max(_fit(dump, saying) for saying in sayings)
    last = max(saying.attempt for saying in sayings)
    # A later attempt writes over the file of an earlier one.
    fitting = [s for s in sayings if _fit(dump, s) == best and s.attempt in (-1, last)]
    ranks = {s.fact.speaker.rank for s in fitting if s.fact.speaker.rank is not None}
    hosts = {s.fact.speaker.host for s in fitting if s.fact.speaker.host is not None}
    programs = {s.program for s in fitting if s.program}
    if len(ranks) > 1 or len(programs) > 1:
        return  # several wrote a file of that name, and nothing tells which one this is
    dump.attempt = last
    if programs:
        (dump.program,) = programs
    if len(hosts) == 1:
        (dump.host,) = hosts
    if ranks:
        (rank,) = ranks
        dump.renamed = dump.rank is not None and dump.rank != rank
        dump.rank, dump.sure = rank, True
        place = next(s.fact.place for s in fitting if s.fact.speaker.rank == rank)
        dump.told = (place.source, place.line)


def _by_time(dumps: list[Dump]) -> None:
    """Dumps that no line names belong to the attempt of those that ended when they did."""
    anchors = [d for d in dumps if d.attempt >= 0 and d.last_created]
    if not anchors:
        return
    for dump in dumps:
        if dump.attempt >= 0 or not dump.last_created:
            continue
        near = min(anchors, key=lambda other: abs(other.last_created - dump.last_created))
        if abs(near.last_created - dump.last_created) < STALE_SECONDS * 1_000_000_000:
            dump.attempt = near.attempt
