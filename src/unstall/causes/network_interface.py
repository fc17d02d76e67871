"""``network-interface``: an address or interface that the other ranks cannot reach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
)
from unstall.causes.reasons import (
    first_death_before,
    from_settings,
    judged,
    rank_behind,
    several_nodes,
    went_on,
    worked_before,
)
from unstall.job import Job
from unstall.model.facts import (
    EnvironmentValue,
    Fact,
    NcclError,
    NcclTransport,
    NcclWarning,
    PeerLost,
    Place,
    PythonException,
    Remark,
    WarningLine,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

#: Loopback addresses, and those that Docker's and libvirt's bridges get on every machine.
_LOOPBACK = re.compile(r"(?<![\d.])127\.\d{1,3}\.\d{1,3}\.\d{1,3}|localhost|\[::1\]")
_BRIDGE = re.compile(r"(?<![\d.])(172\.1[78]\.0\.\d{1,3}|192\.168\.122\.\d{1,3})(?!\d)")
#: Addresses that a machine gives itself where nobody gave it one: valid on one cable only.
_LINK_LOCAL = re.compile(
    r"(?<![\d.])169\.254\.\d{1,3}\.\d{1,3}(?!\d)|(?<![\w:])fe80:[\da-f:]{2,40}"
)
_CONNECTS = re.compile(r"onnect to")
_PRIVATE_NAMES = ("lo", "docker", "virbr", "br-", "veth", "cni", "flannel")
_GLOO = re.compile(r"Unable to find (?:address for|interface for)[: ]{1,2}\[?([^\s\]]{1,60})")
_NONE = re.compile(r"no (?:socket |\w{1,24} )?interface found|neither AF_INET", re.IGNORECASE)
_REFUSED = re.compile(
    r"refused|timed out|No route to host|timeout|unreachable|failed", re.IGNORECASE
)
_MESH = re.compile(r"connectFullMesh failed")
_PORT = re.compile(r"<(\d{2,5})>|\]:(\d{2,5})")


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first address that cannot be right."""
    found = [item for item in _signs(job) if went_on(job, item[0]) is None]
    if not found:
        return
    fact, text, weight, kind = max(found, key=lambda item: item[2])
    support: list[Evidence] = [evidence(text, weight, fact)]
    seen = {kind}
    for other, words, amount, sort in found:
        if sort not in seen:
            seen.add(sort)
            support.append(evidence(words, min(amount, FAIR), other))
    conflicts = judged(job, "network-interface", "conflict", "suspicious")
    support.extend(from_settings(conflicts, STRONG))
    variable = _variable(job, fact, kind)
    if variable is not None:
        name, value, place = variable
        support.append(
            evidence(
                say("{name} was set to {value}", name=name, value=value),
                WEAK,
                place or fact.place,
            )
        )
    against: list[Evidence] = []
    before = worked_before(job, fact)
    if before is not None:
        against.append(
            evidence(
                say("the ranks had worked together before: {quote}", quote=before.quote[:120]),
                STRONG,
                before,
            )
        )
    death = first_death_before(job, fact, "memory", "device", "signal")
    if death is not None and death.place != fact.place:
        against.append(
            evidence(
                say("a process had failed before: {quote}", quote=death.quote[:120]), STRONG, death
            )
        )
    program = job.owner(fact) or job.trainer
    ranks = sorted(
        {r for f, *_, k in found if k == kind and (r := rank_behind(job, f)) is not None}
    )
    yield Finding(
        cause="network-interface",
        summary=_summary(kind),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(program, kind, [one.correction for one in conflicts if one.correction]),
        next_step=say(
            "on every node: ip -br addr, and ip route get ADDRESS_OF_THE_OTHER_NODE names the "
            "interface that leads there; NCCL_DEBUG=INFO shows the one that NCCL took "
            "(“Bootstrap : Using”). nc -vz ADDRESS PORT to a high port tells a firewall"
        ),
        origin=origin_of(program, ranks if kind == "name" else (), role="node"),
        started_at=job.chronology.with_year(fact.moment),
        exonerated=tuple(_exonerated(job, fact)),
        excerpts=tuple(excerpt(f, "origin") for f, *_ in found[:4]),
    )


_Sign = tuple[Fact, Text, float, str]


def _signs(job: Job) -> Iterable[_Sign]:
    for exception in job.all(PythonException):
        told = _GLOO.search(exception.message)
        if told is not None:
            yield (
                exception,
                say(
                    "gloo found no interface called {name}: it takes one name as it is, not a list "
                    "and not NCCL's signs ^ and =",
                    name=told[1],
                )
                if told[1][:1] in ("^", "=") or "," in told[1]
                else say("gloo found no interface called {name} on this machine", name=told[1]),
                STRONG + STRONG,
                "name",
            )
    for warning in job.all(NcclWarning):
        words = warning.message
        if _NONE.search(words) is not None:
            yield (
                warning,
                say(
                    "NCCL found no interface that fits what it was told: {words}", words=words[:140]
                ),
                STRONG + FAIR,
                "name",
            )
        elif warning.topic in ("socket", "bootstrap") and _REFUSED.search(words):
            yield from _address(job, warning, words)
    for error in job.all(NcclError):
        words = error.last_error or ""
        if _NONE.search(words) is not None:
            yield (
                error,
                say(
                    "NCCL found no interface that fits what it was told: {words}", words=words[:140]
                ),
                STRONG + FAIR,
                "name",
            )
        elif words and _REFUSED.search(words) and _own_error(error, words):
            yield from _address(job, error, words)
    for lost in job.all(PeerLost):
        if lost.layer == "gloo" and lost.peer is not None:
            yield from _address(job, lost, lost.quote)
        if lost.layer == "gloo" and _MESH.search(lost.quote) and not worked_before(job, lost):
            yield (
                lost,
                say(
                    "gloo could not connect its ranks to each other when the group was made: the "
                    "address that a rank gave of itself is not reached by the others"
                ),
                STRONG + WEAK if several_nodes(job) else STRONG,
                "mesh",
            )
    for line in job.all(WarningLine):
        if line.topic == "loopback-fallback" and several_nodes(job):
            yield (
                line,
                say(
                    "the host name did not lead to an address of this machine, so the loopback was "
                    "taken: other nodes cannot reach it"
                ),
                STRONG,
                "loopback",
            )
    yield from _bootstraps(job)


def _own_error(error: NcclError, words: str) -> bool:
    """A remote error is what a peer's end looks like, except where a connection was only tried."""
    if error.result != "ncclRemoteError":
        return True
    return bool(_CONNECTS.search(words) and _LINK_LOCAL.search(words))


def _several_nodes(job: Job) -> bool:
    """Whether lines show it, or whoever reports it says so."""
    return several_nodes(job) or any(r.topic == "several-nodes" for r in job.all(Remark))


def _address(job: Job, fact: Fact, words: str) -> Iterable[_Sign]:
    if _LOOPBACK.search(words) is not None and _several_nodes(job):
        yield (
            fact,
            say(
                "a rank was told to connect to a loopback address, which is the machine itself: "
                "{words}",
                words=words[:140],
            ),
            STRONG + FAIR,
            "loopback",
        )
    elif (found := _LINK_LOCAL.search(words)) is not None and not worked_before(job, fact):
        yield (
            fact,
            say(
                "a rank was told to connect to {address}, a link-local address: it belongs to an "
                "interface without an address of the network, or to a node's own name service",
                address=found[0],
            ),
            STRONG + WEAK,
            "link-local",
        )
    elif (found := _BRIDGE.search(words)) is not None and _several_nodes(job):
        yield (
            fact,
            say(
                "a rank was told to connect to {address}, the address of a bridge for containers "
                "or virtual machines that every machine has for itself",
                address=found[1],
            ),
            STRONG + FAIR,
            "bridge",
        )
    elif re.search(r"No route to host|timed out|110|113", words) and not worked_before(job, fact):
        port = _PORT.search(words)
        if port is not None:
            yield (
                fact,
                say(
                    "a connection to the random port {port} of another rank was not let through at "
                    "the start: a firewall that opens only fixed ports does that",
                    port=port[1] or port[2],
                ),
                FAIR + WEAK,
                "firewall",
            )


def _bootstraps(job: Job) -> Iterable[_Sign]:
    """What NCCL took for its bootstrap on each host."""
    taken = [t for t in job.all(NcclTransport) if t.kind == "bootstrap" and ":" in t.detail]
    for line in taken:
        name = line.detail.split(":", 1)[0]
        if name.startswith(_PRIVATE_NAMES) and _several_nodes(job):
            yield (
                line,
                say(
                    "NCCL took {interface} for its bootstrap, which the other nodes do not reach",
                    interface=line.detail,
                ),
                STRONG,
                "loopback" if name.startswith("lo") else "bridge",
            )


def _variable(job: Job, fact: Fact, kind: str) -> tuple[str, str, Place | None] | None:
    """The variable that chose the interface."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    if not isinstance(fact, (PythonException, PeerLost)):
        names = names[::-1]
    del kind
    for name in names:
        for program in job.programs:
            value = program.environment.get(name)
            if value is not None and value.known:
                return name, value.text, value.place
        for printed in job.all(EnvironmentValue):
            if printed.name == name:
                return name, printed.value, printed.place
    return None


def _summary(kind: str) -> Text:
    if kind == "name":
        return say("A process was told to use a network interface that does not exist there.")
    if kind == "loopback":
        return say(
            "Ranks of different nodes were given a loopback address, so they can never connect."
        )
    if kind == "bridge":
        return say(
            "A bridge of one machine's containers was taken for the network between the nodes."
        )
    if kind == "link-local":
        return say(
            "A rank gave an address that only holds on one cable (link-local): the wrong interface "
            "was taken for the network between the ranks."
        )
    if kind == "mesh":
        return say(
            "Gloo could not connect the ranks to each other at the start: as with an interface or "
            "a host name that leads nowhere."
        )
    return say("Connections between the ranks are blocked at the start, as by a firewall.")


def _exonerated(job: Job, fact: Fact) -> Iterable[Exonerated]:
    ib = any(w.topic == "ib" for w in job.all(NcclWarning))
    if not ib:
        yield Exonerated(
            "network-transport",
            say("the fabric itself reports nothing; the address was wrong before it was used"),
            (fact.place,),
        )


def _fixes(program: Program | None, kind: str, corrections: Sequence[str]) -> tuple[Fix, ...]:
    fixes: list[Fix] = []
    if kind == "firewall":
        fixes.append(
            Fix(
                say(
                    "open the ports between the nodes: NCCL and gloo use random high ports (all of "
                    "net.ipv4.ip_local_port_range), not only MASTER_PORT"
                )
            )
        )
    change: Change | None = None
    if corrections and program is not None and "=" in corrections[0]:
        name, _, value = corrections[0].removeprefix("export ").partition("=")
        change = Change(program.label, {name: value})
    fixes.append(
        Fix(
            say(
                "name a concrete interface that exists on that node and reaches the others: "
                "NCCL_SOCKET_IFNAME=eth0 and GLOO_SOCKET_IFNAME=eth0 (gloo takes one plain name "
                "only; where names differ between nodes, set them per node)"
            ),
            change,
        )
    )
    if kind in ("loopback", "bridge", "mesh"):
        fixes.append(
            Fix(
                say(
                    "make each host's own name resolve to the address that the others reach "
                    "(/etc/hosts often has it at 127.0.1.1)"
                )
            )
        )
    return tuple(fixes)


CAUSE = Cause(
    id="network-interface",
    family="node and network",
    title=say("an interface that the others cannot reach"),
    about=say(
        "NCCL and gloo tell each other addresses of one interface of each machine. A loopback, a "
        "container bridge, a name that does not exist there, or NCCL's exclusion syntax given to "
        "gloo makes an address that nobody reaches; a firewall that opens only one port does the "
        "same to all others."
    ),
    shows=(
        say("“Unable to find address for: ^lo”, “no socket interface found”"),
        say("“Bootstrap : Using lo:127.0.0.1”, connections to 127.0.0.1 or 172.17.0.1 refused"),
    ),
    decide=say("ip route get ADDRESS_OF_THE_OTHER_NODE on each node"),
    remedies=(
        say("a concrete interface name, for NCCL and for gloo"),
        say("the host's name at a reachable address; the high ports open"),
    ),
    look_alikes=(
        LookAlike("network-transport", say("addresses are right and the fabric fails")),
        LookAlike("rendezvous-environment", say("the store's own address is wrong")),
        LookAlike("python-exception", say("the peer had died and refuses connections since")),
    ),
    examine=examine,
    sources=(
        "gloo transport/tcp/device.cc; NCCL 2.27 src/misc/socket.cc, src/bootstrap.cc",
        "NVIDIA/Megatron-LM issue 436; aws-samples/aws-do-eks pull requests 50, 51",
    ),
)
