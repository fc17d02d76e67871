"""``network-transport``: the fabric between nodes failed or was set up wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
)
from unstall.causes.reasons import (
    hosts_of,
    rank_behind,
    several_nodes,
    went_on,
    worked_before,
)
from unstall.job import Job
from unstall.model.facts import (
    CollectiveTimeout,
    DriverEvent,
    Fact,
    NcclError,
    NcclInit,
    NcclTransport,
    NcclWarning,
    PeerLost,
    ProcessEnd,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix, Origin
from unstall.model.text import Text, say

#: Work completion statuses of InfiniBand verbs (libibverbs, enum ibv_wc_status).
_STATUS = {
    "4": say("local protection error"),
    "5": say("flushed: a consequence of an earlier error on that queue"),
    "9": say("remote invalid request"),
    "10": say("remote access error"),
    "11": say("remote operation error"),
    "12": say("transport retry counter exceeded: the other side did not acknowledge"),
    "13": say("receiver-not-ready retry counter exceeded"),
}
_UNREACHABLE = re.compile(
    r"timed out|imeout|No route to host|unreachable|retries|110|113", re.IGNORECASE
)
_LOCAL = re.compile(r"127\.\d+\.\d+\.\d+|localhost|172\.1[78]\.0\.\d+")
_LINK = re.compile(r"port error|link down|Link down|port_err|fatal|async event", re.IGNORECASE)


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first complaint of the fabric, of a socket, or of lost peers."""
    fabric = [w for w in job.all(NcclWarning) if w.topic == "ib" and w.values.get("status") != "5"]
    fabric = fabric or [w for w in job.all(NcclWarning) if w.topic == "ib"]
    failing = [w for w in fabric if _failing(w)]
    sockets = [w for w in job.all(NcclWarning) if w.topic == "socket" and _unreachable(w.message)]
    remote = [e for e in job.all(NcclError) if e.result == "ncclRemoteError"]
    lost = [p for p in job.all(PeerLost) if p.layer in ("nccl", "gloo")]
    system = [
        e
        for e in job.all(NcclError)
        if e.last_error
        and ("ibv_" in e.last_error or "NET/IB" in e.last_error)
        and "Cannot allocate memory" not in e.last_error
    ]
    if failing or system:
        yield from _of_fabric(job, failing, system)
    elif sockets:
        yield from _of_sockets(job, sockets)
    elif (remote or lost) and several_nodes(job):
        yield from _of_peers(job, [*remote, *lost])


def _failing(warning: NcclWarning) -> bool:
    words = warning.message
    if "Cannot allocate memory" in words:
        return False  # a limit on locked memory, not the fabric
    return "status" in warning.values or bool(
        re.search(r"fail|error|Got async event|timed out|No such device", words)
    )


def _unreachable(words: str) -> bool:
    return bool(_UNREACHABLE.search(words)) and not _LOCAL.search(words)


def _of_fabric(
    job: Job, warnings: Sequence[NcclWarning], errors: Sequence[NcclError]
) -> Iterable[Finding]:
    first: Fact = warnings[0] if warnings else errors[0]
    if went_on(job, first) is not None and not job.deaths:
        return
    support: list[Evidence] = []
    if warnings:
        status = next((w.values["status"] for w in warnings if "status" in w.values), None)
        if status is not None:
            support.append(
                evidence(
                    say(
                        "InfiniBand verbs report a completion with error (status {status}, error "
                        "{status}: {meaning})",
                        status=status,
                        meaning=_STATUS.get(status, say("see enum ibv_wc_status")),
                    ),
                    STRONG + FAIR if status != "5" else FAIR,  # flushed: the fault was before
                    next(w for w in warnings if w.values.get("status") == status),
                )
            )
        else:
            support.append(
                evidence(
                    say("NCCL's InfiniBand transport failed: {words}", words=first_words(first)),
                    STRONG + FAIR if _LINK.search(warnings[0].message) else STRONG + WEAK,
                    first,
                )
            )
    else:
        support.append(
            evidence(
                say("a verbs call failed: {words}", words=first_words(first)), STRONG + FAIR, first
            )
        )
    hosts = tuple(dict.fromkeys(w.speaker.host for w in warnings if w.speaker.host))
    both = len(hosts) > 1
    devices = [
        t
        for t in job.all(NcclTransport)
        if t.kind == "net-ib" and ("RoCE" in t.detail or "IB" in t.detail)
    ]
    ethernet = any("RoCE" in t.detail for t in devices)
    if both:
        support.append(
            evidence(
                say(
                    "both sides report it ({hosts}), and none of their processes had died: it is "
                    "the path or its configuration, not one node's crash",
                    hosts=", ".join(hosts[:4]),
                ),
                FAIR,
                warnings[1] if len(warnings) > 1 else first,
            )
        )
    before = worked_before(job, first)
    at_once = before is None
    told = not at_once or both or any(True for _ in _start(job))
    if at_once and not told:
        support.append(
            evidence(
                say("whether it had worked before is not in the input"),
                0.0,
                first,
            )
        )
    elif at_once:
        complete = [i for i in job.all(NcclInit) if i.stage == "complete"]
        support.append(
            evidence(
                say(
                    "it failed with the first data after the communicator was complete: "
                    "configuration is more likely than a broken link"
                )
                if complete
                else say("it failed at once: configuration is more likely than a broken link"),
                WEAK,
                complete[0] if complete else first,
            )
        )
    else:
        assert before is not None  # noqa: S101 - narrows for the type checker
        support.append(
            evidence(
                say(
                    "it had worked before ({quote}): a link or switch that failed, or a peer that "
                    "died",
                    quote=before.quote[:100],
                ),
                WEAK,
                before,
            )
        )
    if ethernet:
        support.append(
            evidence(
                say(
                    "the devices are RoCE (Ethernet): the right GID index (RoCE v2) and a lossless "
                    "setup of the switches are needed"
                ),
                WEAK,
                next(t for t in devices if "RoCE" in t.detail),
            )
        )
    bootstrap = next((t for t in job.all(NcclTransport) if t.kind == "bootstrap"), None)
    exonerated: list[Exonerated] = []
    if bootstrap is not None and not bootstrap.detail.startswith(("lo:", "docker")):
        exonerated.append(
            Exonerated(
                "network-interface",
                say(
                    "the bootstrap over {interface} worked: the interface for sockets is usable",
                    interface=bootstrap.detail,
                ),
                (bootstrap.place,),
            )
        )
    against = _deaths(job, first)
    if not against and not both and not (at_once and told):
        against.extend(_peer_ended(job, first))
    if not against and not both:
        support.append(
            evidence(
                say("only one side's words are here; the other side's log would tell more"),
                0.0,
                first,
            )
        )
    summary: Text
    if at_once:
        summary = (
            say(
                "RDMA over Converged Ethernet (RoCE) between the nodes does not carry data: set up "
                "wrongly rather than broken."
            )
            if ethernet
            else say("The InfiniBand transport between the nodes fails from the start.")
            if told
            else say("The InfiniBand or RoCE transport between nodes failed.")
        )
    else:
        summary = say("The InfiniBand or RoCE link between nodes failed after it had worked.")
    yield _finding(
        job,
        first,
        summary,
        support,
        against,
        _fabric_fixes(job, ethernet=ethernet, at_once=at_once, gid=True),
        exonerated,
        ranks=_ranks_if_one_host(job, warnings) if not at_once and not both else (),
        ceiling=0.9 if told else 0.65,  # a peer that died, in a log cut above it, looks the same
    )


def _start(job: Job) -> Iterator[Fact]:
    """Lines of a communicator's start: with them, what failed at once can be seen."""
    yield from job.all(NcclInit)
    yield from job.all(NcclTransport)


def _of_sockets(job: Job, warnings: Sequence[NcclWarning]) -> Iterable[Finding]:
    first = warnings[0]
    if went_on(job, first) is not None:
        return
    before = worked_before(job, first)
    support = [
        evidence(
            say("NCCL's socket could not reach a peer: {words}", words=first.message[:160]),
            FAIR + WEAK if before is None else STRONG,
            first,
        )
    ]
    if before is not None:
        support.append(
            evidence(say("it had worked before: {quote}", quote=before.quote[:100]), WEAK, before)
        )
    if len({w.speaker.host for w in warnings if w.speaker.host}) > 1:
        support.append(evidence(say("several nodes report it"), FAIR, warnings[1]))
    yield _finding(
        job,
        first,
        say("A connection between nodes timed out or had no route."),
        support,
        _deaths(job, first),
        _fabric_fixes(job, ethernet=False, at_once=before is None, gid=False),
        [],
        ranks=(),
    )


def _of_peers(job: Job, facts: Sequence[Fact]) -> Iterable[Finding]:
    """Closed connections alone: a peer that died is more likely than a network."""
    first = job.chronology.in_order(facts)[0]
    if went_on(job, first) is not None:
        return
    yield _finding(
        job,
        first,
        say("A connection to another node was lost; why is not shown."),
        [
            evidence(
                say(
                    "a connection was lost ({quote}); that is also what peers see of a process "
                    "that died",
                    quote=first.quote[:120],
                ),
                WEAK,
                first,
            )
        ],
        _deaths(job, first),
        _fabric_fixes(job, ethernet=False, at_once=False, gid=False),
        [],
        ranks=(),
    )


def _deaths(job: Job, first: Fact) -> list[Evidence]:
    """Processes that had failed before: their peers' errors are echoes."""
    found: list[Evidence] = []
    for death in job.deaths:
        same = death.fact is first or (
            isinstance(death.fact, NcclError) and death.fact.result in ("ncclSystemError",)
        )
        if same or (isinstance(death.fact, ProcessEnd) and death.fact.exit_code in (1, None)):
            continue
        earlier = job.chronology.before(death.fact, first)
        if earlier is False:
            continue
        found.append(
            evidence(
                say(
                    "a process had failed by itself before: {quote}; what its peers then report is "
                    "an echo",
                    quote=death.fact.quote[:120],
                ),
                STRONG + STRONG,
                death.fact,
            )
        )
        break
    for event in job.all(DriverEvent):
        if event.kind in ("xid", "sxid"):
            found.append(
                evidence(
                    say("the driver of a GPU complained: {quote}", quote=event.quote[:120]),
                    STRONG,
                    event,
                )
            )
            break
    return found


def _peer_ended(job: Job, first: Fact) -> list[Evidence]:
    """Another process that ended by a signal: its peers' links then fail in the very same way."""
    rank = first.speaker.rank
    for end in job.all(ProcessEnd):
        other = end.rank if end.rank is not None else end.local_rank
        if end.exit_code in (-6, -7, -9, -11) and rank is not None and other not in (None, rank):
            return [
                evidence(
                    say(
                        "another process ended by a signal ({quote}); a peer that died looks like "
                        "this from the other side",
                        quote=end.quote[:100],
                    ),
                    STRONG,
                    end,
                )
            ]
    return []


def _ranks_if_one_host(job: Job, warnings: Sequence[NcclWarning]) -> tuple[int, ...]:
    ranks = {rank for w in warnings if (rank := rank_behind(job, w)) is not None}
    return tuple(sorted(ranks)) if len(ranks) == 1 else ()


def first_words(fact: Fact) -> str:
    """What NCCL said, as short as a sentence allows."""
    if isinstance(fact, NcclWarning):
        return fact.message[:160]
    if isinstance(fact, NcclError) and fact.last_error:
        return fact.last_error[:160]
    return fact.quote[:160]


def _finding(
    job: Job,
    first: Fact,
    summary: Text,
    support: Sequence[Evidence],
    against: Sequence[Evidence],
    fixes: tuple[Fix, ...],
    exonerated: Sequence[Exonerated],
    *,
    ranks: tuple[int, ...],
    ceiling: float = 0.9,
) -> Finding:
    program = job.owner(first) or job.trainer
    waiting = sorted(
        {t.speaker.rank for t in job.all(CollectiveTimeout) if t.speaker.rank is not None}
    )
    return Finding(
        cause="network-transport",
        summary=summary,
        support=tuple(support),
        against=tuple(against),
        fixes=fixes,
        next_step=say(
            "test the fabric without the job: ib_write_bw (or nccl-tests all_reduce_perf) between "
            "the two nodes{hosts}, with the same device and GID index; then once with "
            "NCCL_IB_DISABLE=1, which takes the fabric out",
            hosts=" " + ", ".join(hosts_of(job)[:2]) if len(hosts_of(job)) > 1 else "",
        ),
        origin=Origin(
            program.label if program is not None else "unknown",
            "node",
            (program.engine or program.software) if program is not None else None,
            ranks,
        ),
        waiting_ranks=tuple(waiting),
        started_at=job.chronology.with_year(first.moment),
        exonerated=tuple(exonerated),
        excerpts=(excerpt(first, "origin"),),
        # what is wrong with the path cannot be seen from its ends
        ceiling=ceiling,
    )


def _fabric_fixes(job: Job, *, ethernet: bool, at_once: bool, gid: bool) -> tuple[Fix, ...]:
    program = job.trainer
    fixes: list[Fix] = []
    if gid and at_once:
        fixes.append(
            Fix(
                say(
                    "RoCE: name the GID of RoCE v2 with NCCL_IB_GID_INDEX (show_gids lists them, "
                    "often 3), the same on every node; NCCL_IB_HCA and NCCL_CROSS_NIC where rails "
                    "are not connected to each other"
                ),
                Change(program.label, {"NCCL_IB_GID_INDEX": "3"})
                if ethernet and program is not None
                else None,
            )
        )
    fixes.append(
        Fix(
            say(
                "measure the path outside of the job (ib_write_bw, nccl-tests) and mend what fails "
                "there"
            )
        )
    )
    if gid:
        fixes.append(
            Fix(
                say(
                    "NCCL_IB_DISABLE=1 goes over sockets instead: slow, but it confirms that the "
                    "fabric is at fault"
                ),
                Change(program.label, {"NCCL_IB_DISABLE": "1"}) if program is not None else None,
            )
        )
    if not at_once:
        fixes.append(
            Fix(
                say(
                    "look at the link: ibstat, perfquery, the switch's counters and dmesg of both "
                    "nodes at that time; drain the node if it comes again; NCCL_IB_TIMEOUT=22 and "
                    "NCCL_IB_RETRY_CNT=7 bridge short interruptions"
                )
            )
        )
    return tuple(fixes)


CAUSE = Cause(
    id="network-transport",
    family="node and network",
    title=say("the network between nodes fails"),
    about=say(
        "InfiniBand, RoCE or sockets between nodes do not carry the data. At once and on both "
        "sides it is configuration: GID index, partition, rails, MTU. After hours of work it is a "
        "link, a switch, or a peer that died; the peer's own log decides."
    ),
    shows=(
        say("“NET/IB : Got completion with error 12” (status=12, IBV_WC_RETRY_EXC_ERR)"),
        say("“Got async event : port error”, failed ibv_modify_qp, sockets without a route"),
    ),
    decide=say("ib_write_bw or nccl-tests between the two nodes, without the job"),
    remedies=(
        say("the right GID index, HCA list and rails"),
        say("mend or drain the link that fails"),
    ),
    look_alikes=(
        LookAlike("python-exception", say("the peer had died before; its connection then closes")),
        LookAlike("network-interface", say("the address is a loopback or a bridge")),
        LookAlike("gpu-hardware", say("an Xid on one node comes first")),
    ),
    examine=examine,
    sources=(
        "libibverbs enum ibv_wc_status; NCCL 2.27 src/transport/net_ib.cc",
        "NVIDIA/nccl issue 426 (completion with error 12, GID index)",
    ),
)
