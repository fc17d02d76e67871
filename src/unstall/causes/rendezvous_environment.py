"""``rendezvous-environment``: ranks are told wrong numbers or addresses and never meet."""

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
from unstall.model.facts import Fact, ProcessEnd, PythonException, StoreFailure, WarningLine
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Judgement, Program
from unstall.model.text import Text, say

LOCAL = re.compile(r"^(localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0|::)$")
_MISSING = re.compile(
    r"environment variable (\w{1,40}) expected, but not set"
    # a script's own look into the environment, as ``KeyError`` tells it
    r"|^KeyError: '?((?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)|SLURM_PROCID"
    r"|SLURM_LOCALID|OMPI_COMM_WORLD_\w{4,16})'?$"
)
_INVALID = re.compile(
    r"[Ii]nvalid rank (-?\d+)|rank (-?\d+) (?:is )?(?:>=|must be less than|out of)"
    r"|node_rank.{0,40}(?:greater|less|must be)|[Dd]uplicate rank (\d+)"
    r"|Rank should be an integer between 0 and"
)
_UNRESOLVED = re.compile(
    r"Name or service not known|Temporary failure in name resolution|nodename nor servname"
    r"|No address associated with hostname"
)
_MEETING = re.compile(r"torch[/\\.]distributed|elastic|rendezvous|torchrun|c10d", re.IGNORECASE)
#: A closed rendezvous (``RendezvousClosedError``) was open before: another agent had ended the job.
_RENDEZVOUS = re.compile(r"Rendezvous(ConnectionError|TimeoutError)")
_NUMBER = re.compile(r"^\d+$|^(?:::ffff:)?0\.\d+\.\d+\.\d+$")


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first sign of a rendezvous that could not come about."""
    found = _symptoms(job)
    if not found:
        return
    first = found[0][0]
    if went_on(job, first) is not None:
        return
    support: list[Evidence] = []
    seen: set[str] = set()
    for fact, text, weight, kind in found:
        if kind not in seen:
            seen.add(kind)
            support.append(evidence(text, weight, fact))
    if not seen - {"meeting", "connect"} and not _suspected(job):
        return  # somebody did not come, or was not there: many reasons, none of them shown
    conflicts = judged(job, "rendezvous-environment", "conflict")
    doubts = judged(job, "rendezvous-environment", "suspicious")
    support.extend(from_settings(conflicts, STRONG))
    if not conflicts:
        support.extend(from_settings(doubts, FAIR))
    against: list[Evidence] = []
    before = worked_before(job, first)
    if before is not None:
        against.append(
            evidence(
                say(
                    "the ranks had met before: {quote}; a connection that fails later is an echo",
                    quote=before.quote[:120],
                ),
                STRONG,
                before,
            )
        )
    death = first_death_before(job, first, "exception", "memory", "device", "signal")
    if death is not None and death not in [fact for fact, *_ in found]:
        against.append(
            evidence(
                say("a process had failed before: {quote}", quote=death.quote[:120]), STRONG, death
            )
        )
    program = job.owner(first) or job.trainer
    ranks = [r for fact, _, _, kind in found if kind in ("rank",) and (r := rank_behind(job, fact))]
    yield Finding(
        cause="rendezvous-environment",
        summary=_summary(found[0][3], first),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(program, seen, [*conflicts, *doubts]),
        next_step=say(
            "print on every node what it was given just before the launch: hostname, MASTER_ADDR, "
            "MASTER_PORT, NODE_RANK, WORLD_SIZE; then getent hosts $MASTER_ADDR, and from the "
            "others a connection to that port (nc -vz $MASTER_ADDR $MASTER_PORT) tells a firewall "
            "from a wrong address"
        ),
        origin=origin_of(None, ranks, role="launcher")
        if program is None
        else origin_of(program, ranks),
        started_at=job.chronology.with_year(first.moment),
        exonerated=tuple(_exonerated(job, first, seen)),
        excerpts=tuple(excerpt(fact, "origin") for fact, *_ in found[:4]),
    )


def _suspected(job: Job) -> bool:
    return bool(judged(job, "rendezvous-environment", "conflict", "suspicious"))


def _symptoms(job: Job) -> list[tuple[Fact, Text, float, str]]:
    """Lines, what they say, their weight and their kind; the telling kinds first."""
    found: list[tuple[Fact, Text, float, str]] = []
    for failure in job.all(StoreFailure):
        found.extend(_of_store(job, failure))
    binders = [f for f in job.all(StoreFailure) if f.kind == "bind"]
    ranks = {r for f in binders if (r := rank_behind(job, f)) is not None}
    if len(ranks) > 1:
        found.append(
            (
                binders[0],
                say(
                    "{count} ranks of one job tried to listen as rank 0 does: the launcher did not "
                    "tell them their ranks",
                    count=len(ranks),
                ),
                STRONG + FAIR,
                "rank",
            )
        )
    for one in job.all(PythonException):
        found.extend(_of_exception(one))
    unused = next((w for w in job.all(WarningLine) if w.topic == "master-addr-unused"), None)
    if unused is not None and any(_waited(one) for one, *_ in found):
        found.append(
            (
                unused,
                say(
                    "torchrun did not use MASTER_ADDR: with --rdzv_backend and without "
                    "--rdzv_endpoint each node opens a rendezvous of its own and waits there"
                ),
                STRONG,
                "alone",
            )
        )
    order = {
        "missing": 0,
        "number": 1,
        "alone": 1,
        "address": 1,
        "resolve": 1,
        "rank": 1,
        "local": 1,
    }
    found.sort(key=lambda item: (order.get(item[3], 2), item[0].place))
    return found


def _of_store(job: Job, failure: StoreFailure) -> Iterable[tuple[Fact, Text, float, str]]:
    host, port = failure.host, failure.port
    shown = host or "?"
    if failure.kind == "resolve":
        yield (
            failure,
            say(
                "the name of the rendezvous host, {host}, could not be resolved to an address",
                host=shown,
            ),
            # such look-ups are tried again; only a failure that follows shows that none succeeded
            STRONG + FAIR + WEAK if _gave_up(job, failure) else FAIR + WEAK,
            "resolve",
        )
    elif failure.kind == "bind" and failure.errno == 99:
        yield (
            failure,
            say(
                "this process listens as rank 0 does, but the address {host} is not this "
                "machine's: rank or MASTER_ADDR is wrong",
                host=shown,
            ),
            STRONG + FAIR,
            "address",
        )
    elif failure.kind in ("connect", "wait-timeout", "join-timeout"):
        # the wildcard, mapped into IPv6 or not, is this machine itself
        wild = host is None or host.removeprefix("::ffff:") == "0.0.0.0"  # noqa: S104
        if host is not None and not wild and _NUMBER.match(host):
            yield (
                failure,
                say(
                    "{host} is no address of a machine: a host name of nothing but digits is read "
                    "as the number of an IPv4 address",
                    host=host,
                ),
                STRONG + FAIR,
                "number",
            )
        elif host is not None and LOCAL.match(host) and several_nodes(job):
            yield (
                failure,
                say(
                    "a job of several nodes looked for its rendezvous at {host}, which is each "
                    "node itself",
                    host=host,
                ),
                STRONG + FAIR,
                "local",
            )
        elif failure.kind == "join-timeout":
            yield (
                failure,
                say(
                    "{joined} of {expected} had come when the rendezvous gave up",
                    joined=failure.joined if failure.joined is not None else "?",
                    expected=failure.expected if failure.expected is not None else "?",
                ),
                FAIR,
                "meeting",
            )
        elif failure.kind == "connect":
            yield (
                failure,
                say(
                    "nobody answered at {host}:{port}",
                    host=shown,
                    port=port if port is not None else "?",
                ),
                FAIR,
                "connect",
            )


def _waited(fact: Fact) -> bool:
    """Whether the launcher itself gave up waiting for others."""
    return isinstance(fact, PythonException) and "RendezvousTimeoutError" in fact.type


def _gave_up(job: Job, failure: StoreFailure) -> bool:
    """Whether the process or its launcher ended after a look-up that failed."""
    ends = [end for end in job.all(ProcessEnd) if end.exit_code not in (0, None)]
    given_up = [f for f in job.all(StoreFailure) if f.kind != "resolve" and f.timeout_ms]
    later: list[Fact] = [*job.all(PythonException), *ends, *given_up]
    return any(job.chronology.before(failure, one) is not False for one in later)


def _of_exception(one: PythonException) -> Iterable[tuple[Fact, Text, float, str]]:
    message = one.message[:2000]
    if (found := _MISSING.search(f"{one.type}: {message}".strip())) is not None:
        yield (
            one,
            say(
                "the variable {name} was not set: the process was not started by a launcher that "
                "gives it, or it was not exported",
                name=found[1] or found[2],
            ),
            STRONG + FAIR + WEAK,
            "missing",
        )
        return
    frames = " ".join(frame.file for frame in one.frames[-12:])
    meeting = bool(_MEETING.search(frames) or _MEETING.search(one.type) or _MEETING.search(message))
    if meeting and _INVALID.search(message) is not None:
        yield (
            one,
            say("a rank outside the job's ranks: {message}", message=message[:160]),
            STRONG + FAIR,
            "rank",
        )
    elif meeting and _UNRESOLVED.search(message) is not None:
        yield (
            one,
            say("the name of the rendezvous host could not be resolved"),
            STRONG + FAIR,
            "resolve",
        )
    elif _RENDEZVOUS.search(f"{one.type}: {message}") is not None:
        yield (
            one,
            say(
                "the launcher's own rendezvous failed, before any process of the job was started: "
                "{message}",
                message=message[:160] or one.type,
            ),
            FAIR,
            "meeting",
        )


def _summary(kind: str, first: Fact) -> Text:
    if kind == "missing":
        return say(
            "A variable of the rendezvous was not set, so the process could not join its group."
        )
    if kind == "resolve":
        return say(
            "The rendezvous host's name could not be resolved, so the ranks never met: "
            "nothing had run on a GPU yet."
        )
    if kind == "rank":
        return say("Ranks were told wrong numbers, so the rendezvous could not come about.")
    if kind == "address":
        return say(
            "A process that takes itself for rank 0 was given an address that is not its machine's."
        )
    if kind == "number":
        return say(
            "The rendezvous host is given as a bare number, which leads to no machine, so the "
            "ranks never met."
        )
    if kind == "alone":
        return say(
            "Each node waited in a rendezvous of its own: torchrun was not told one endpoint for "
            "all."
        )
    if kind == "local":
        return say(
            "Each node looked for the rendezvous at its own address, so the nodes never met."
        )
    del first
    return say("The ranks never met at the rendezvous: what they were given does not fit.")


def _exonerated(job: Job, first: Fact, seen: set[str]) -> Iterable[Exonerated]:
    if worked_before(job, first) is None:
        yield Exonerated(
            "gpu-hardware",
            say("it failed in the rendezvous, before any work on a GPU"),
            (first.place,),
        )
    if "resolve" in seen or "missing" in seen:
        yield Exonerated(
            "network-transport",
            say("no connection was even tried: the address was not known"),
            (first.place,),
        )


def _fixes(
    program: Program | None, kinds: set[str], judgements: list[Judgement]
) -> tuple[Fix, ...]:
    fixes: list[Fix] = []
    for one in judgements:
        if one.correction is not None:
            fixes.append(
                Fix(
                    say(
                        "in the launch script: {correction}",
                        correction=one.correction,
                    ),
                    _change(program, one.correction),
                )
            )
    if "missing" in kinds:
        fixes.append(
            Fix(
                say(
                    "start the script with a launcher that sets the variables (torchrun, "
                    "accelerate launch, deepspeed, srun with a wrapper), or export RANK, "
                    "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"
                )
            )
        )
    if "number" in kinds:
        fixes.append(
            Fix(
                say(
                    "name the address yourself: on one machine --rdzv_backend=c10d "
                    "--rdzv_endpoint=localhost:PORT in place of --standalone, or MASTER_ADDR="
                    "127.0.0.1; or give the machine a host name with a letter in it"
                )
            )
        )
    if "alone" in kinds:
        fixes.append(
            Fix(
                say(
                    "give all nodes the same --rdzv_endpoint=ADDRESS_OF_NODE_0:PORT and --rdzv_id, "
                    "or leave --rdzv_backend out and give --master_addr, --master_port and each "
                    "node's --node_rank"
                )
            )
        )
    if kinds & {"resolve", "address", "local", "connect", "meeting"} and not kinds & {
        "number",
        "alone",
    }:
        fixes.append(
            Fix(
                say(
                    "set MASTER_ADDR to an address of node 0 that all nodes resolve and reach, the "
                    "same on every node (an IP address avoids name resolution), without a silent "
                    "fall-back to localhost"
                )
            )
        )
    if "rank" in kinds or ("meeting" in kinds and "alone" not in kinds):
        fixes.append(
            Fix(
                say(
                    "give every node its own number from 0 on (--node_rank $NODE_RANK); RANK is "
                    "the number of a process"
                )
            )
        )
    return tuple(fixes)


def _change(program: Program | None, correction: str) -> Change | None:
    words = correction.split()
    if program is None or len(words) != 2 or not words[0].startswith("--"):
        return None
    return Change(program.label, {words[0].lstrip("-"): words[1]})


CAUSE = Cause(
    id="rendezvous-environment",
    family="launch and configuration",
    title=say("ranks are told wrong numbers or addresses"),
    about=say(
        "Before any GPU work, all processes meet at one address; who they are and where that is "
        "comes from variables and flags. A process's RANK taken for the node's number, a look-up "
        "that falls back to localhost, a name that a container does not resolve or a variable that "
        "was not exported keep them from meeting, and the launcher gives up after its time-out."
    ),
    shows=(
        say(
            "“network addresses of (HOST, PORT) cannot be retrieved”, “environment variable RANK "
            "expected, but not set”, “invalid rank”"
        ),
        say("RendezvousTimeoutError or “1/2 clients joined” before any step"),
    ),
    decide=say("what each node was given: MASTER_ADDR, MASTER_PORT, NODE_RANK, printed on each"),
    remedies=(
        say("the right variable: NODE_RANK for the node, RANK for the process"),
        say("an address of node 0 that every node resolves and reaches"),
    ),
    look_alikes=(
        LookAlike("port-collision", say("the address is right and another process has the port")),
        LookAlike(
            "network-interface", say("the rendezvous succeeds and NCCL or gloo then cannot connect")
        ),
        LookAlike("python-exception", say("node 0 had failed before, so nobody listened any more")),
    ),
    examine=examine,
    sources=(
        "PyTorch torch/distributed/rendezvous.py (env://), torch/distributed/elastic/rendezvous",
        "PyTorch torch/csrc/distributed/c10d/{socket,TCPStore}.cpp",
    ),
)
