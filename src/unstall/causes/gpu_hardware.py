"""``gpu-hardware``: a GPU, its memory or its links failed."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.aftermath import Aftermath, aftermath
from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    ranks_text,
)
from unstall.causes.deaths import ranks_told
from unstall.job import Job
from unstall.model.facts import CudaError, DriverEvent, Fact, NcclInit
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say

#: CUDA errors of the hardware (CUDA runtime 12.9: 214, 220, 721).
ERRORS = ("EccUncorrectable", "NvlinkUncorrectable", "Contained")

#: Xid numbers that name the hardware, with what they mean (NVIDIA, "Xid errors", r580).
XIDS = {
    48: say("a double-bit ECC error"),
    54: say("auxiliary power is not connected"),
    62: say("an internal microcontroller halted"),
    64: say("a row remapping or page retirement failed"),
    74: say("an NVLink error"),
    79: say("the GPU has fallen off the bus"),
    92: say("a high rate of single-bit ECC errors"),
    94: say("a contained ECC error"),
    95: say("an uncontained ECC error"),
    119: say("the GPU's system processor does not answer (GSP)"),
    120: say("an error of the GPU's system processor (GSP)"),
    136: say("a link between the GPUs failed"),
    140: say("an unrecovered ECC error"),
    143: say("the GPU could not be initialised"),
}
#: Xid numbers that only record or follow: 31, 13 and 43 are a program's, 45 a clean-up, 63 a remap
#: that went well.
MINOR = {63: say("a row was remapped, which by itself is no failure")}
PROGRAM = frozenset({13, 31, 43, 45, 68})

COMPLAINTS = {
    "lost": say("the driver says that the GPU is lost"),
    "reset-needed": say("the driver says that the GPU must be reset"),
    "no-handle": say("the driver cannot reach the GPU"),
    "init-failed": say("the driver could not initialise the GPU"),
}


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first sign of failing hardware."""
    errors = [error for error in job.all(CudaError) if error.name in ERRORS]
    events = [event for event in job.all(DriverEvent) if event.code in XIDS]
    lost = [event for event in job.all(DriverEvent) if event.what in COMPLAINTS]
    if not errors and not events and not lost:
        return
    first: Fact = job.chronology.in_order([*errors, *events, *lost])[0]
    where = _where(job, [*events, *lost])
    told = ranks_told(job, [*errors, *events]) or where
    after = aftermath(job, errors[0] if errors else first, told)
    support: list[Evidence] = []
    for error in errors[:1]:
        support.append(
            evidence(
                say("“CUDA error: {text}” names the hardware", text=error.text), DECISIVE, error
            )
        )
        if error.through == "watchdog":
            support.append(
                evidence(
                    say(
                        "the watchdog only asked for an event's state and was told of it: the "
                        "messenger"
                    ),
                    0.0,
                    error,
                )
            )
    for event in events[:2]:
        support.append(
            evidence(
                say("the driver logged Xid {code}: {meaning}", code=event.code or 0,
                    meaning=XIDS[event.code or 0]),
                STRONG + FAIR if event is events[0] and not errors else FAIR,
                event,
            )
        )  # fmt: skip
    for event in lost[:1]:
        weight = FAIR if errors or events else STRONG + FAIR
        support.append(evidence(COMPLAINTS[event.what or ""], weight, event))
    for event in job.all(DriverEvent):
        if event.code in MINOR:
            support.append(
                evidence(
                    say("the driver logged Xid {code}: {meaning}", code=event.code or 0,
                        meaning=MINOR[event.code or 0]),
                    WEAK,
                    event,
                )
            )  # fmt: skip
            break
    if len(after.ranks) == 1:
        support.append(evidence(say("only {who} met it", who=ranks_text(after.ranks)), WEAK, first))
    against: list[Evidence] = list(_others_first(job, first))
    if len(after.ranks) > 2 and not events and not lost:
        against.append(
            evidence(
                say(
                    "{count} ranks met it: hardware seldom fails on several at once",
                    count=len(after.ranks),
                ),
                FAIR,
                first,
            )
        )
    if events and not where:
        support.append(
            evidence(
                say(
                    "the PCI address {pci} is no device number: nvidia-smi -L and the busId in "
                    "NCCL's lines tell which rank it is",
                    pci=events[0].pci or "?",
                ),
                0.0,
                events[0],
            )
        )
    yield after.finding(
        "gpu-hardware",
        _summary(after, errors, events, lost),
        support,
        against,
        fixes=_fixes(),
        next_step=say(
            "look at that node: dmesg -T | grep -i xid, nvidia-smi -q -d ECC,ROW_REMAPPER, "
            "dcgmi diag -r 3; the same node again in another job settles it"
        ),
        origin=after.origin(role="trainer" if after.ranks else "node"),
        exonerated=_exonerated(after, first),
        excerpts=[excerpt(one, "origin") for one in (*errors[:1], *events[:2], *lost[:1])],
        ceiling=0.97,
    )


def _where(job: Job, events: list[DriverEvent]) -> tuple[int, ...]:
    """Ranks of the devices with these PCI addresses, by the busId in NCCL's lines."""
    wanted = {_bus(event.pci) for event in events if event.pci} - {None}
    if not wanted:
        return ()
    inits = [i for i in job.all(NcclInit) if i.bus_id and i.rank is not None]
    size = max((init.size or 0 for init in inits), default=0)
    found: set[int] = set()
    hosts = {event.speaker.host for event in events} - {None}
    for init in inits:
        if (init.size or 0) != size or init.rank is None:
            continue
        if hosts and init.speaker.host is not None and init.speaker.host not in hosts:
            continue
        if _number(init.bus_id) in wanted:
            found.add(init.rank)
    return tuple(sorted(found)) if len(found) <= len(wanted) else ()


def _bus(pci: str | None) -> int | None:
    """``0000:3b:00.0`` as NCCL writes it: domain, bus, device, function in hexadecimal digits."""
    if pci is None:
        return None
    digits = pci.replace(".", ":").split(":")
    try:
        numbers = [int(part, 16) for part in digits]
    except ValueError:
        return None
    if len(numbers) == 3:
        numbers.append(0)
    if len(numbers) != 4:
        return None
    domain, bus, device, function = numbers
    return (domain << 20) + (bus << 12) + (device << 4) + function


def _number(bus_id: str | None) -> int | None:
    try:
        return int(bus_id, 16) if bus_id else None
    except ValueError:
        return None


def _others_first(job: Job, first: Fact) -> list[Evidence]:
    """A program's own fault on the device before: its Xid follows from that."""
    for event in job.all(DriverEvent):
        if event.code in PROGRAM and job.chronology.before(event, first) is True:
            return [
                evidence(
                    say("Xid {code} before it is a program's own fault", code=event.code or 0),
                    FAIR,
                    event,
                )
            ]
    for error in job.all(CudaError):
        if error.name in ERRORS or error.name == "Other":
            continue
        if isinstance(first, DriverEvent) and None in (first.moment, error.moment):
            continue  # the kernel's log is pasted where it fits: its place tells no order
        if job.chronology.before(error, first) is True:
            return [
                evidence(say("another CUDA error came first: {text}", text=error.text), FAIR, error)
            ]
    return []


def _summary(
    after: Aftermath,
    errors: list[CudaError],
    events: list[DriverEvent],
    lost: list[DriverEvent],
) -> Text:
    what: Text
    if errors and errors[0].name == "EccUncorrectable":
        what = say("its memory has an uncorrectable ECC error")
    elif errors and errors[0].name == "NvlinkUncorrectable":
        what = say("an NVLink of it failed")
    elif errors:
        what = say("a fault in its memory or links was contained")
    elif events:
        what = XIDS[events[0].code or 0]
    else:
        what = COMPLAINTS[lost[0].what or ""]
    if after.ranks and after.waiting:
        return say(
            "The GPU of {who} failed ({what}); the others ({others}) only report it.",
            who=ranks_text(after.ranks),
            what=what,
            others=ranks_text(after.waiting),
        )
    if after.ranks:
        return say("The GPU of {who} failed: {what}.", who=ranks_text(after.ranks), what=what)
    return say("A GPU failed: {what}.", what=what)


def _fixes() -> list[Fix]:
    return [
        Fix(
            say(
                "drain the node and have the GPU reset, tested and replaced where it fails again "
                "(nvidia-smi --gpu-reset, dcgmi diag)"
            )
        ),
        Fix(
            say(
                "until then exclude the node (Slurm: --exclude NODE) and resume from the last "
                "checkpoint"
            )
        ),
    ]


def _exonerated(after: Aftermath, first: Fact) -> list[Exonerated]:
    found = [
        Exonerated(
            "illegal-memory-access",
            say("the error names the hardware, not an address that a kernel used"),
            (first.place,),
        )
    ]
    if after.messengers:
        found.append(
            Exonerated(
                "nccl",
                say("NCCL's remote errors came from the rank whose GPU had failed"),
                (first.place,),
            )
        )
    return found


CAUSE = Cause(
    id="gpu-hardware",
    family="device",
    title=say("a GPU, its memory or its links failed"),
    about=say(
        "A GPU reported a fault of its hardware. The process that used it gets a CUDA error at its "
        "next call, often in the watchdog thread; the peers see a remote error moments later, and "
        "the launcher and the scheduler end the rest. It comes back on the same node."
    ),
    shows=(
        say("“uncorrectable ECC error encountered”, “uncorrectable NVLink error”"),
        say("Xid 48, 64, 74, 79, 94, 95, 119, 120 in the kernel log"),
        say("“GPU is lost”, “has fallen off the bus”"),
    ),
    decide=say("the kernel log of that node; the same node in another job"),
    remedies=(
        say("drain the node, reset, test, replace"),
        say("exclude it and resume from a checkpoint"),
    ),
    look_alikes=(
        LookAlike(
            "network-transport",
            say("remote errors without a device error on the rank that ended first"),
        ),
        LookAlike("illegal-memory-access", say("Xid 13, 31 or 43 and an address: a program's")),
        LookAlike("preempted", say("the scheduler's cancellation comes after the device error")),
        LookAlike("fabric-manager", say("every rank of a node, from the start")),
    ),
    examine=examine,
    sources=(
        "NVIDIA Xid errors, r580",
        "CUDA Runtime API, errors 214, 220, 721",
        "NCCL init.cc: busId is domain, bus, device and function",
    ),
)
