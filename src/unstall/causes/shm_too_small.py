"""``shm-too-small``: a container's /dev/shm cannot hold what NCCL or the data loaders put there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
    ranks_text,
)
from unstall.causes.reasons import from_settings, judged, rank_behind, went_on
from unstall.job import Job
from unstall.model.facts import (
    Fact,
    FatalSignal,
    NcclError,
    NcclWarning,
    PeerLost,
    ProcessEnd,
    PythonException,
    ResourceLimit,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix, Origin
from unstall.model.text import Text, say

#: Up to 2.9 NCCL printed the segment's name without its folder.
_SEGMENT = re.compile(r"(/dev/shm/[^\s,:()'\"]{1,200}|(?<=segment )nccl-shm-[\w-]{1,200})")
_SIZE = re.compile(r"\(size (\d{1,20})\)|to (\d{1,20}) bytes")
_LOADER = re.compile(r"out of shared memory|insufficient shared memory|killed by signal: Bus error")
#: NCCL, PyTorch's shared tensors (torch_*), Python's multiprocessing (psm_*).
_FULL = re.compile(
    r"No space left|Cannot allocate|full|unable to (?:write|open|mmap|resize|allocate shared)"
)


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first segment that could not be made or used."""
    found = [item for item in _signs(job) if went_on(job, item[0]) is None]
    if not found:
        return
    first, words, weight = max(found, key=lambda item: item[2])
    conflicts = judged(job, "shm-too-small", "conflict", "suspicious")
    fine = judged(job, "shm-too-small", "ok")
    support: list[Evidence] = [evidence(words, weight, first)]
    for other, text, _ in found:
        if type(other) is not type(first):
            support.append(evidence(text, WEAK, other))
            break
    support.extend(from_settings(conflicts, FAIR))
    against: list[Evidence] = []
    if fine:
        against.extend(from_settings(fine, FAIR))
    ranks = sorted({r for f, *_ in found if (r := _rank(job, f)) is not None})
    for lost in [*job.all(PeerLost)]:
        rank = lost.speaker.rank
        if rank is not None and rank not in ranks:
            support.append(
                evidence(
                    say(
                        "{rank} only lost its connection to a peer that had failed: a consequence",
                        rank=ranks_text([rank]),
                    ),
                    0.0,
                    lost,
                )
            )
            break
    program = job.owner(first) or job.trainer
    base = origin_of(program, ranks, role="node")
    yield Finding(
        cause="shm-too-small",
        summary=say(
            "A process ended by SIGBUS: most likely the shared memory of the container (/dev/shm) "
            "was full."
        )
        if isinstance(first, (ProcessEnd, FatalSignal))
        else say(
            "The shared memory of the container (/dev/shm) was too small: a segment could not be "
            "made or written."
        ),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(first),
        next_step=say(
            "df -h /dev/shm inside the container, before and while it runs: 64 MB is Docker's "
            "default, and a full one proves it"
        ),
        origin=Origin(base.program, base.role, base.software, base.ranks),
        started_at=job.chronology.with_year(first.moment),
        exonerated=tuple(_exonerated(job, first)),
        excerpts=tuple(
            [excerpt(fact, "origin") for fact, *_ in found[:3]]
            + [excerpt(lost, "consequence") for lost in job.all(PeerLost)[:1]]
        ),
    )


def _rank(job: Job, fact: Fact) -> int | None:
    if isinstance(fact, ProcessEnd) and fact.rank is not None:
        return fact.rank
    return rank_behind(job, fact)


def _signs(job: Job) -> list[tuple[Fact, Text, float]]:
    found: list[tuple[Fact, Text, float]] = []
    for warning in job.all(NcclWarning):
        if warning.topic == "shm" and _SEGMENT.search(warning.message):
            found.append((warning, _segment(warning.message), STRONG + FAIR))
    for error in job.all(NcclError):
        if error.last_error is not None and _SEGMENT.search(error.last_error):
            found.append((error, _segment(error.last_error), STRONG + STRONG))
    for limit in job.all(ResourceLimit):
        if limit.kind == "shm" and (limit.path is None or _FULL.search(limit.quote)):
            found.append(
                (
                    limit,
                    say(
                        "a shared-memory segment could not be written: {quote}",
                        quote=limit.quote[:160],
                    ),
                    STRONG + FAIR,
                )
            )
    for exception in job.all(PythonException):
        if _LOADER.search(exception.message) is not None:
            found.append(
                (
                    exception,
                    say(
                        "a worker of the data loader got a bus error: it wrote into shared memory "
                        "that has no page behind it any more"
                    ),
                    STRONG + FAIR,
                )
            )
    if found:
        return found
    shared = judged(job, "shm-too-small", "conflict")
    for end in job.all(ProcessEnd):
        if end.exit_code == -7 or end.signal == "SIGBUS":
            found.append(
                (
                    end,
                    say("a process ended by SIGBUS, as shared memory that is full makes it end"),
                    STRONG + FAIR if shared or end.reporter == "dataloader" else STRONG,
                )
            )
    for fatal in job.all(FatalSignal):
        if fatal.what.startswith("Bus"):
            found.append(
                (
                    fatal,
                    say("a process ended by SIGBUS, as shared memory that is full makes it end"),
                    STRONG + FAIR if shared else STRONG,
                )
            )
    return found


def _segment(words: str) -> Text:
    path = _SEGMENT.search(words)
    size = _SIZE.search(words)
    where = path[1] if path is not None else "/dev/shm"  # noqa: S108 - named only
    if size is None:
        return say("NCCL could not make its shared-memory segment {path}", path=where)
    number = int(size[1] or size[2])
    return say(
        "NCCL could not make its shared-memory segment {path} of {size} bytes ({mib} MiB)",
        path=where,
        size=number,
        mib=round(number / (1 << 20), 1),
    )


def _exonerated(job: Job, first: Fact) -> Iterable[Exonerated]:
    yield Exonerated(
        "disk-full",
        say("“no space left” in /dev/shm is about memory, not about the disk"),
        (first.place,),
    )
    lost = job.all(PeerLost)
    if lost:
        yield Exonerated(
            "network-transport",
            say("the closed connection is what a peer sees of the rank that failed here"),
            (lost[0].place,),
        )


def _fixes(first: Fact) -> tuple[Fix, ...]:
    fixes = [
        Fix(
            say(
                "give the container more shared memory: docker run --shm-size=16g, or --ipc=host; "
                "in Kubernetes an emptyDir with medium: Memory mounted at /dev/shm"
            )
        ),
    ]
    if isinstance(first, (NcclWarning, NcclError)):
        fixes.append(
            Fix(
                say(
                    "only where that cannot be changed: NCCL_SHM_DISABLE=1 (slower: NCCL then goes "
                    "over peer-to-peer or the network)"
                )
            )
        )
    else:
        fixes.append(
            Fix(
                say(
                    "only where that cannot be changed: fewer data loader workers or "
                    "num_workers=0, a smaller prefetch_factor, "
                    'torch.multiprocessing.set_sharing_strategy("file_system")'
                )
            )
        )
    return tuple(fixes)


CAUSE = Cause(
    id="shm-too-small",
    family="node and network",
    title=say("the container's /dev/shm is too small"),
    about=say(
        "NCCL exchanges data between ranks of a node through files in /dev/shm, and so do data "
        "loader workers. Containers get 64 MB of it by default. A segment that does not fit fails "
        "at once, or with a bus error when it is written."
    ),
    shows=(
        say("“Error while creating shared memory segment /dev/shm/nccl-… (size …)”"),
        say("“DataLoader worker is killed by signal: Bus error”, exit code -7"),
    ),
    decide=say("df -h /dev/shm inside the container"),
    remedies=(
        say("--shm-size or --ipc=host; in Kubernetes a memory volume at /dev/shm"),
        say("fewer loader workers, as a makeshift"),
    ),
    look_alikes=(
        LookAlike("network-transport", say("the peers' closed connections are a consequence")),
        LookAlike("host-oom", say("exit -9 and the kernel's line, not -7")),
        LookAlike("python-exception", say("“no space left” on a path of the disk: a full disk")),
    ),
    examine=examine,
    sources=(
        "NCCL 2.27 src/misc/shmutils.cc; PyTorch torch/utils/data/_utils/signal_handling.py",
        "Docker documentation, docker run --shm-size",
    ),
)
