"""``port-collision``: a port that a program wants to listen on is taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

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
from unstall.causes.reasons import from_settings, judged, rank_behind, went_on, worked_before
from unstall.job import Job
from unstall.model.facts import EnvironmentValue, NcclWarning, Place, StoreFailure
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Judgement, Program
from unstall.model.text import say

#: EADDRINUSE of Linux, macOS and Windows. Other numbers mean another trouble: 97 no IPv6,
#: 99 an address that is not this machine's, 13 a port below 1024.
IN_USE = (98, 48, 10048)

#: Linux hands out ports from here on to whoever asks for any (net.ipv4.ip_local_port_range).
EPHEMERAL = 32768

#: What PyTorch's launchers and stores take where nothing is set (torch/distributed/run.py).
DEFAULT = 29500

_WORDS = re.compile(r"in use|EADDRINUSE|utilizing it|code: -98|被占用|已被使用", re.IGNORECASE)


class _Setting(msgspec.Struct, frozen=True):
    """Where a program was given a port."""

    name: str
    text: str
    place: Place | None


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first port that could not be bound, unless the work then went on."""
    failures = [one for one in job.all(StoreFailure) if one.kind == "bind" and _in_use(one)]
    for failure in failures:
        if went_on(job, failure) is None:
            yield _claim(job, failure, [f for f in failures if f.port == failure.port])
            return
    for warning in job.all(NcclWarning):
        if warning.topic == "socket" and "bind" in warning.message and _WORDS.search(warning.quote):
            yield _of_nccl(job, warning)
            return


def _in_use(failure: StoreFailure) -> bool:
    if failure.errno is not None:
        return failure.errno in IN_USE
    return bool(_WORDS.search(failure.quote))


def _claim(job: Job, failure: StoreFailure, same: Sequence[StoreFailure]) -> Finding:
    program = _program(job, failure)
    label = program.label if program is not None else "the program"
    settings = _settings(job, program)
    port = failure.port
    support: list[Evidence] = [
        evidence(
            say("port {port} could not be bound: the address is in use", port=port)
            if port is not None
            else say("the address that it wanted is in use: {quote}", quote=failure.quote[:140]),
            STRONG + FAIR,
            failure,
        )
    ]
    against: list[Evidence] = []
    twins = [one for one in judged(job, "port-collision") if _names(one.values, port)]
    given = [one for one in settings if one.text == str(port)]
    other = [one for one in settings if one.text.isdigit() and one.text != str(port)]
    if twins:
        support.extend(from_settings(twins, STRONG))
        why = say(
            "Two programs of the launch script bind port {port} on one machine.", port=_number(port)
        )
    elif given:
        support.append(
            evidence(
                say(
                    "it is the port that {setting} gives to {program}: another process on this "
                    "machine had it, a second job or one left over from an earlier run",
                    setting=given[0].name,
                    program=label,
                ),
                FAIR,
                given[0].place,
            )
        )
        why = say(
            "Port {port}, given by {setting}, was already taken on this machine by another "
            "process.",
            port=_number(port),
            setting=given[0].name,
        )
    elif other:
        support.append(
            evidence(
                say(
                    "{setting} was set to {value}, but the port that failed is {port}: the setting "
                    "is not read there, the program ignores it and takes a fixed port",
                    setting=other[0].name,
                    value=other[0].text,
                    port=_number(port),
                ),
                FAIR,
                other[0].place or failure.place,
            )
        )
        why = say(
            "Port {port} was already taken, and it is not the one that {setting}={value} asks "
            "for: that setting is not read, the program uses a fixed port.",
            port=_number(port),
            setting=other[0].name,
            value=other[0].text,
        )
    elif port is not None and port >= EPHEMERAL:
        support.append(
            evidence(
                say(
                    "{port} is a number that the system hands out at random: as where a free port "
                    "is asked for, closed and bound later, and is taken in between",
                    port=port,
                ),
                FAIR if _late(job) else 0.0,
                failure,
            )
        )
        support.extend(from_settings(_late(job), WEAK))
        why = (
            say(
                "Port {port} was picked as a free one and taken by another process before it was "
                "used.",
                port=port,
            )
            if _late(job)
            else say(
                "Port {port}, a random number and not one that was set, was already taken: by "
                "another process, or by a second rank of the job that also takes itself for the "
                "first.",
                port=port,
            )
        )
    else:
        if port == DEFAULT:
            support.append(
                evidence(
                    say(
                        "{port} is PyTorch's default: every job on this machine that sets no port "
                        "takes it",
                        port=port,
                    ),
                    WEAK,
                    failure,
                    source="PyTorch torch/distributed/run.py",
                )
            )
        why = (
            say("Port {port} was already taken on this machine.", port=port)
            if port is not None
            else say("A port was already taken on this machine; the message does not name it.")
        )
    ranks = {rank for one in same if (rank := rank_behind(job, one)) is not None}
    if len(ranks) > 1:
        against.append(
            evidence(
                say(
                    "{count} ranks of one job tried to bind it: each takes itself for rank 0",
                    count=len(ranks),
                ),
                STRONG,
                failure,
            )
        )
    before = worked_before(job, failure)
    if before is not None and program is not None and job.owner(before) is program:
        against.append(
            evidence(
                say("the work had begun before: {quote}", quote=before.quote[:120]), WEAK, before
            )
        )
    return Finding(
        cause="port-collision",
        summary=why,
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(program, port, given, other, late=bool(_late(job))),
        next_step=say(
            "find the address that the program listens on (its log, options or documentation), "
            "then who listens there: ss -ltnp"
        )
        if port is None
        else say(
            "list the listener while the port is taken: ss -ltnp 'sport = :{port}' names its "
            "process; its start time tells a second job from a left-over one",
            port=_number(port),
        ),
        origin=origin_of(program, (), role="launcher"),
        started_at=job.chronology.with_year(failure.moment),
        exonerated=tuple(_exonerated(job, failure)),
        excerpts=(excerpt(failure, "origin"),),
    )


def _of_nccl(job: Job, warning: NcclWarning) -> Finding:
    return Finding(
        cause="port-collision",
        summary=say("NCCL could not bind a port: the address is in use."),
        support=(
            evidence(
                say("NCCL's own socket could not be bound: {quote}", quote=warning.quote[:160]),
                STRONG + FAIR,
                warning,
            ),
        ),
        fixes=(
            Fix(
                say(
                    "see which port it was (NCCL_COMM_ID and NCCL_SOCKET_IFNAME fix one) and who "
                    "listens there: ss -ltnp"
                )
            ),
        ),
        next_step=say("NCCL_DEBUG=INFO shows the address; ss -ltnp the listener"),
        origin=origin_of(job.owner(warning), (), role="launcher"),
        excerpts=(excerpt(warning, "origin"),),
    )


def _program(job: Job, failure: StoreFailure) -> Program | None:
    """Who wanted the port: who said so, who was given it, or the only one that could."""
    owner = job.owner(failure)
    if owner is not None:
        return owner
    text = str(failure.port)
    having = [p for p in job.programs if any(q.value.text == text for q in p.ports if q.listens)]
    if having:
        return having[-1]
    return job.trainer


def _settings(job: Job, program: Program | None) -> list[_Setting]:
    """Ports that were given, by variable, flag or log line; defaults that nobody gave are none."""
    found: list[_Setting] = []
    programs = [program] if program is not None else list(job.programs)
    for one in programs:
        for name in ("MASTER_PORT", "PORT"):
            value = one.environment.get(name)
            if value is not None and value.known:
                found.append(_Setting(name, value.text, value.place))
        for flag, value in one.flags.items():
            if "port" in flag.split("_") and value.known and not value.default:
                found.append(_Setting(f"--{flag}", value.text, value.place))
        found.extend(
            _Setting(f"{port.purpose} port", port.value.text, port.value.place)
            for port in one.ports
            if port.listens and port.value.known and not port.value.default
        )
    found.extend(
        _Setting(value.name, value.value, value.place)
        for value in job.all(EnvironmentValue)
        if value.name == "MASTER_PORT"
    )
    return found


def _names(values: dict[str, str], port: int | None) -> bool:
    return port is not None and any(
        re.search(rf"(?<!\d){port}(?!\d)", shown) for shown in values.values()
    )


def _late(job: Job) -> list[Judgement]:
    return [
        one
        for one in judged(job, "port-collision", "suspicious")
        if any(port.picked in ("reserved-late", "random") for p in job.programs for port in p.ports)
    ]


def _fixes(
    program: Program | None,
    port: int | None,
    given: Sequence[_Setting],
    other: Sequence[_Setting],
    *,
    late: bool,
) -> tuple[Fix, ...]:
    number = _number(port)
    fixes = [
        Fix(
            say(
                "see who listens there (ss -ltnp 'sport = :{port}') and stop it if it is a stale "
                "process of an earlier run (kill PID; a server that was interrupted often leaves "
                "its workers)",
                port=number,
            )
            if port is not None
            else say(
                "see who listens on the program's address (ss -ltnp) and stop it if it is a stale "
                "process of an earlier run, or give this run another address"
            )
        )
    ]
    if given and program is not None:
        fixes.append(
            Fix(
                say(
                    "or give this job a port of its own where it is really read: {setting}",
                    setting=given[0].name,
                ),
                Change(program.label, {given[0].name.lstrip("-"): str((port or DEFAULT) + 1)}),
            )
        )
    elif other:
        fixes.append(
            Fix(
                say(
                    "change the port where the program takes it from: look for {port} in its code "
                    "and configuration; {setting} does not reach it",
                    port=number,
                    setting=other[0].name,
                )
            )
        )
    elif late or (port is not None and port >= EPHEMERAL):
        fixes.append(
            Fix(
                say(
                    "let the program that listens choose the port itself (port 0, or torchrun "
                    "--rdzv_backend c10d --rdzv_endpoint localhost:0), or start again: the race "
                    "seldom repeats"
                )
            )
        )
    else:
        fixes.append(
            Fix(
                say(
                    "or give each job on this machine a port of its own (torchrun --master_port, "
                    "accelerate --main_process_port, deepspeed --master_port, MASTER_PORT)"
                )
            )
        )
    return tuple(fixes)


def _exonerated(job: Job, failure: StoreFailure) -> Iterable[Exonerated]:
    del job
    yield Exonerated(
        "gpu-hardware",
        say("it failed while binding a socket, before any GPU was used"),
        (failure.place,),
    )


def _number(port: int | None) -> str:
    return "?" if port is None else str(port)


CAUSE = Cause(
    id="port-collision",
    family="launch and configuration",
    title=say("a port is already taken"),
    about=say(
        "A store, a rendezvous or a server listens on a port of its machine; only one process can. "
        "Compare the number in the message with every port of the script: the same one means a "
        "second job or a left-over process, another one means that the setting is not read, and a "
        "random high one means that it was asked for, closed and taken by somebody else."
    ),
    shows=(
        say("“Address already in use”, errno 98, EADDRINUSE, “failed to bind”"),
        say("it comes at once, before any collective"),
    ),
    decide=say("ss -ltnp 'sport = :PORT' on that machine, while the port is taken"),
    remedies=(
        say("stop the stale process that holds it"),
        say("change the setting that is really used"),
        say("let the listener choose its port (port 0)"),
    ),
    look_alikes=(
        LookAlike(
            "rendezvous-environment",
            say("several ranks of one job bind the same port: each takes itself for rank 0"),
        ),
        LookAlike(
            "network-interface",
            say("errno 97 or 99 is about the address, not about another process"),
        ),
    ),
    examine=examine,
    sources=(
        "PyTorch torch/csrc/distributed/c10d/socket.cpp, torch/distributed/run.py",
        "Linux ip(7), net.ipv4.ip_local_port_range",
    ),
)
