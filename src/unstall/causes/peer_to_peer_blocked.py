"""``peer-to-peer-blocked``: GPUs are told that they can write to each other, and cannot."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from unstall.causes.aftermath import aftermath
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    collective_of,
    evidence,
    excerpt,
    group_of,
    ranks_text,
)
from unstall.causes.deaths import echo_evidence, ranks_told
from unstall.causes.reasons import (
    began,
    began_evidence,
    died_before,
    hosts_of,
    network_trouble,
    operation,
    remark_on,
    several_nodes,
    went_on,
)
from unstall.job import Blocked, Job
from unstall.model.facts import (
    CudaError,
    Fact,
    NcclError,
    NcclInit,
    NcclTransport,
    NcclWarning,
    PythonException,
    Remark,
    TrainingStep,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix, Origin, ProcessGroup
from unstall.model.plan import Program
from unstall.model.text import Text, say

_HINT = re.compile(
    r"IOMMU|\bACS\b|Access Control Services|P2P is disabled|peer.{0,20}not supported|DMAR"
    r"|IO_PAGE_FAULT"
)


def examine(job: Job) -> Iterable[Finding]:
    """A claim where every rank hangs in the first operation of a complete communicator.

    Also where CUDA itself refused to let one GPU reach another.
    """
    refused = next((e for e in job.all(CudaError) if e.name == "PeerAccessUnsupported"), None)
    if refused is not None:
        yield _refused(job, refused)
        return
    for blocked in job.blocked:
        if blocked.stall.is_first_collective and _all_there(job, blocked):
            finding = _stalled(job, blocked)
            if finding is not None:
                yield finding
            return
    if not job.blocked:
        finding = _silent(job) or _told(job)
        if finding is not None:
            yield finding


def _refused(job: Job, error: CudaError) -> Finding:
    """CUDA says that two devices cannot reach each other, to a library that counted on it."""
    after = aftermath(job, error, ranks_told(job, [error]))
    own = error.through != "nccl"  # vLLM's and SGLang's own all-reduce asks CUDA itself
    program = after.program
    change = Change(program.label, {"NCCL_P2P_DISABLE": "1"}) if program is not None else None
    fixes = [
        Fix(
            say(
                "NCCL_P2P_DISABLE=1 in the environment of every process that makes a communicator: "
                "Ray workers get it by runtime_env (env_vars), containers and other nodes not by "
                "an export in the launching shell"
            ),
            change,
        ),
        Fix(
            say(
                "a driver that reports P2P as it is: a patched driver or an older one can offer it "
                "on cards that lack it (nvidia-smi topo -p2p r)"
            )
        ),
    ]
    if own:
        fixes.insert(
            0,
            Fix(
                say(
                    "switch off the engine's own all-reduce, which needs P2P "
                    "(--disable-custom-all-reduce)"
                )
            ),
        )
    return after.finding(
        "peer-to-peer-blocked",
        say("CUDA refused direct access (P2P) between two of the GPUs."),
        [
            evidence(
                say(
                    "“{text}”: the library tried to use P2P between GPUs that do not have it",
                    text=error.text[:160],
                ),
                STRONG + FAIR,
                error,
            )
        ],
        echo_evidence(job, error, besides=(CudaError, NcclError, PythonException)),
        fixes=fixes,
        next_step=say(
            "nvidia-smi topo -p2p r shows which pairs have P2P; print NCCL_P2P_DISABLE in the "
            "process that failed, to see whether the setting reached it"
        ),
        origin=after.origin(role="trainer"),
        ceiling=0.88,
    )


def _all_there(job: Job, blocked: Blocked) -> bool:
    """Whether all ranks wait, in one and the same operation."""
    waiters = {rank for rank in blocked.stall.waiters if rank >= 0}
    if len(waiters) < 2 or len(blocked.stall.operations) > 1:
        return False
    if blocked.everyone_waits:
        return True
    sizes = {init.size for init in _complete(job)}
    return len(sizes) == 1 and len(waiters) in sizes


def _complete(job: Job) -> list[NcclInit]:
    return [init for init in job.all(NcclInit) if init.stage == "complete"]


def _direct(job: Job) -> list[NcclTransport]:
    return [line for line in job.all(NcclTransport) if line.kind == "p2p"]


def _stalled(job: Job, blocked: Blocked) -> Finding | None:
    stall = blocked.stall
    complete, direct = _complete(job), _direct(job)
    hinted = _hints(job)
    alone = bool(complete) and not several_nodes(job)
    if not direct and not hinted and not alone:
        return None
    if any(line.kind in ("net-ib", "net-socket") for line in job.all(NcclTransport)):
        weight_of_paths = WEAK  # ranks of other nodes too: the network is as likely
    else:
        weight_of_paths = FAIR
    waiters = tuple(sorted(rank for rank in stall.waiters if rank >= 0))
    support: list[Evidence] = [
        evidence(
            say(
                "all ranks, 0 included ({ranks}), hang in the same first collective, {operation}: "
                "nobody is late, nothing was ever transferred",
                ranks=ranks_text(waiters),
                operation=operation(stall.first),
            ),
            STRONG,
            stall.first,
        )
    ]
    if complete:
        support.append(
            evidence(
                say(
                    "the communicator was complete before (Init COMPLETE on {count} ranks): they "
                    "had found each other over the network",
                    count=len({init.rank for init in complete}),
                ),
                FAIR,
                complete[0],
            )
        )
    if direct:
        support.append(_paths(direct, weight_of_paths))
    support.extend(hinted)
    support.extend(began_evidence(job, blocked))
    against = [*died_before(job, blocked), *_trouble(job)]
    found = _finding(
        job,
        blocked.program,
        waiters,
        support,
        against,
        first=stall.first,
        blocked=blocked,
    )
    if direct or hinted:
        return found
    # by which way the ranks exchange data is not told: shared memory or a device can be at fault
    return msgspec.structs.replace(found, ceiling=0.6)


def _silent(job: Job) -> Finding | None:
    """No time-out: a person says that it stands still right after the communicator was made."""
    complete, direct = _complete(job), _direct(job)
    if not complete or not direct or job.all(TrainingStep) or job.deaths:
        return None
    last = max(complete, key=lambda init: init.place)
    if went_on(job, last) is not None:
        return None
    sizes = {init.size for init in complete}
    ranks = tuple(sorted({init.rank for init in complete if init.rank is not None}))
    still = [r for r in job.all(Remark) if r.topic in ("no-output", "gpu-busy")]
    if len(sizes) != 1 or len(ranks) not in sizes or not still:
        return None
    support = [
        evidence(
            say(
                "the last thing heard is that the communicator was complete on all {count} ranks; "
                "then nothing",
                count=len(ranks),
            ),
            FAIR,
            last,
        ),
        _paths(direct, FAIR),
        evidence(say("reported: {quote}", quote=still[0].quote[:160]), WEAK, still[0]),
    ]
    busy = next((r for r in still if r.topic == "gpu-busy"), None)
    if busy is not None:
        support.append(
            evidence(
                say(
                    "the GPUs are busy while nothing moves: NCCL's kernels spin and wait for data "
                    "of their peers"
                ),
                FAIR,
                busy,
            )
        )
    support.extend(_hints(job))
    return _finding(job, job.trainer, ranks, support, _trouble(job), first=last, blocked=None)


def _told(job: Job) -> Finding | None:
    """A person says that it hangs, and that it runs without P2P: the test that decides."""
    told = remark_on(job, "p2p-off-works")
    still = remark_on(job, "stuck", "no-output", "gpu-busy")
    if told is None or still is None or job.deaths:
        return None
    return msgspec.structs.replace(
        _finding(
            job,
            job.trainer,
            (),
            [
                evidence(
                    say("reported, the test that decides: {quote}", quote=told.quote[:160]),
                    STRONG + WEAK,
                    told,
                ),
                evidence(say("reported: {quote}", quote=still.quote[:160]), WEAK, still),
            ],
            _trouble(job),
            first=told,
            blocked=None,
        ),
        summary=say(
            "It hangs with P2P between the GPUs and runs without: direct traffic between them does "
            "not arrive."
        ),
        exonerated=(),
        ceiling=0.85,
    )


def _paths(direct: list[NcclTransport], weight: float) -> Evidence:
    return evidence(
        say(
            "the ranks exchange data directly between GPUs ({path}): P2P traffic that an IOMMU or "
            "PCIe access control (ACS) redirects is lost without an error",
            path=direct[0].detail,
        ),
        weight,
        direct[0],
    )


def _hints(job: Job) -> list[Evidence]:
    """Lines that name the IOMMU or ACS themselves."""
    for warning in job.all(NcclWarning):
        if _HINT.search(warning.message) is not None:
            return [
                evidence(
                    say("NCCL itself says: {quote}", quote=warning.message[:160]), FAIR, warning
                )
            ]
    for remark in job.all(Remark):
        if _HINT.search(remark.quote) is not None:
            return [evidence(say("reported: {quote}", quote=remark.quote[:160]), FAIR, remark)]
    return []


def _trouble(job: Job) -> list[Evidence]:
    return [
        evidence(say("the network complained: {quote}", quote=fact.quote[:120]), STRONG, fact)
        for fact in network_trouble(job)[:1]
    ]


def _finding(
    job: Job,
    program: Program | None,
    ranks: tuple[int, ...],
    support: list[Evidence],
    against: list[Evidence],
    *,
    first: Fact,
    blocked: Blocked | None,
) -> Finding:
    group = group_of(blocked) if blocked is not None else ProcessGroup(ranks=ranks)
    origin = Origin(
        program.label if program is not None else "unknown",
        "node",
        (program.engine or program.software) if program is not None else None,
        ranks,
        group,
    )
    return Finding(
        cause="peer-to-peer-blocked",
        summary=say(
            "Every rank hangs in the first collective although the communicator was complete: "
            "direct traffic between the GPUs (P2P) does not arrive."
        ),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(program),
        next_step=say(
            "run once with NCCL_P2P_DISABLE=1: if that works, P2P is what is blocked. nvidia-smi "
            "topo -m and the cuda-samples p2pBandwidthLatencyTest then show which pairs, and lspci "
            "-vvv | grep ACSCtl whether ACS is on"
        ),
        origin=origin,
        collective=collective_of(blocked) if blocked is not None else None,
        waiting_ranks=(),
        started_at=began(job, blocked) if blocked is not None else None,
        exonerated=tuple(_exonerated(job, first)),
        excerpts=tuple(
            [excerpt(first, "origin")]
            + [excerpt(init, "origin") for init in _complete(job)[:2]]
            + [excerpt(path, "origin") for path in _direct(job)[:1]]
        ),
    )


def _exonerated(job: Job, first: Fact) -> Iterable[Exonerated]:
    yield Exonerated(
        "slow-preprocessing",
        say("no rank is missing: all of them are in the collective"),
        (first.place,),
    )
    if len(hosts_of(job)) <= 1 and not network_trouble(job):
        yield Exonerated(
            "network-transport", say("all ranks are on one node and no network error stands here")
        )


def _fixes(program: Program | None) -> tuple[Fix, ...]:
    change: Change | None = None
    if program is not None:
        change = Change(program.label, {"NCCL_P2P_DISABLE": "1"})
    return (
        Fix(
            say(
                "NCCL_P2P_DISABLE=1 confirms it and lets the job run, more slowly (data then goes "
                "through shared memory)"
            ),
            change,
        ),
        Fix(
            say(
                "the cure is at the node: switch PCIe ACS off for the bridges above the GPUs (BIOS "
                "or setpci), the IOMMU off or to pass-through (iommu=pt); in a virtual machine ask "
                "the provider for P2P support"
            )
        ),
        Fix(
            say(
                "consumer cards: a driver that offers P2P only where the hardware has it "
                "(nvidia-smi topo -p2p r)"
            )
        ),
    )


def _about() -> Text:
    return say(
        "Within a node NCCL lets GPUs read and write each other's memory over PCIe or NVLink. If "
        "access control on a PCIe bridge or an IOMMU redirects that traffic, the driver still says "
        "that P2P works, the communicator comes up, and the first data never arrive: all ranks "
        "spin in the first collective."
    )


CAUSE = Cause(
    id="peer-to-peer-blocked",
    family="node and network",
    title=say("P2P between GPUs is blocked"),
    about=_about(),
    shows=(
        say("“Init COMPLETE” on every rank, then all of them time out in SeqNum 1, rank 0 too"),
        say("channels “via P2P/…”, GPUs at 100 %, no error of the network"),
    ),
    decide=say("one run with NCCL_P2P_DISABLE=1"),
    remedies=(
        say("NCCL_P2P_DISABLE=1 to confirm"),
        say("ACS off, IOMMU off or in pass-through, on that node"),
    ),
    look_alikes=(
        LookAlike("slow-preprocessing", say("one rank is missing in the first collective")),
        LookAlike("network-transport", say("the ranks that hang are on different nodes")),
        LookAlike("fabric-manager", say("NVSwitch machines: CUDA 802 or NVLS errors are printed")),
    ),
    examine=examine,
    sources=(
        "NCCL user guide, Troubleshooting, “PCI Access Control Services (ACS)”",
        "NVIDIA/nccl issue 2079",
    ),
)
