"""``fabric-manager``: NVSwitch machines whose fabric manager does not run or does not fit."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.aftermath import aftermath
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
from unstall.causes.deaths import ranks_told, survived_evidence
from unstall.causes.reasons import went_on
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    DriverEvent,
    Fact,
    NcclError,
    NcclWarning,
    Remark,
    WarningLine,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say


def examine(job: Job) -> Iterable[Finding]:
    """One claim for CUDA 802 or a multicast that could not be set up."""
    starting = [error for error in job.all(CudaError) if error.name == "NotReady802"]
    nvls = [warning for warning in job.all(NcclWarning) if _multicast(warning)]
    last = [e for e in job.all(NcclError) if _speaks_of_nvls(e.last_error)]
    switch = [event for event in job.all(DriverEvent) if event.kind == "sxid"]
    if not starting and not nvls and not last:
        return
    first: Fact = job.chronology.in_order([*starting, *nvls, *last])[0]
    ranks = ranks_told(job, [*starting, *nvls, *last])
    after = aftermath(job, first, ranks)
    support: list[Evidence] = []
    if starting:
        support.append(
            evidence(
                say(
                    "CUDA error 802 (system not yet initialized): on a machine with NVSwitch the "
                    "fabric manager has not set the links up",
                ),
                STRONG + FAIR,
                starting[0],
                source="CUDA Runtime API, error 802; NVIDIA Fabric Manager user guide",
            )
        )
    if nvls or last:
        sign: Fact = (nvls or last)[0]
        support.append(
            evidence(
                say(
                    "NCCL could not set up NVLink multicast (NVLS), which the fabric manager has "
                    "to provide: {quote}",
                    quote=_words(sign),
                ),
                FAIR if starting else STRONG + FAIR if not _weak(nvls, last) else STRONG,
                sign,
                source="NCCL transport/nvls.cc, 2.17-2.28",
            )
        )
    several = _several([*starting, *nvls, *last])
    if several > 1:
        support.append(
            evidence(say("{count} ranks or devices met it, not one", count=several), FAIR, first)
        )
    few = next(
        (
            remark
            for remark in job.all(Remark)
            if remark.topic == "worked-before" and remark.values.get("gpus") in ("1", "2")
        ),
        None,
    )
    if few is not None:
        support.append(
            evidence(
                say(
                    "it worked with {count} GPUs: few do without the switch",
                    count=few.values["gpus"],
                ),
                FAIR,
                few,
            )
        )
    for event in switch[:1]:
        support.append(
            evidence(
                say("the driver logged SXid {code} of a switch", code=event.code or 0), FAIR, event
            )
        )
    against: list[Evidence] = list(survived_evidence(job, first))
    later = went_on(job, first)
    if later is not None and not against:
        against.append(
            evidence(
                say("the work went on after it: NCCL did without multicast"), STRONG + FAIR, later
            )
        )
    mismatch = next((e for e in job.all(DriverEvent) if e.what == "version-mismatch"), None)
    if mismatch is not None:
        against.append(
            evidence(say("the driver and its library have different versions"), STRONG, mismatch)
        )
    other = next(
        (w for w in job.all(WarningLine) if w.topic == "version" and w.place < first.place), None
    )
    if other is not None:
        against.append(evidence(say("versions do not fit each other"), WEAK, other))
    program = job.owner(first)
    yield after.finding(
        "fabric-manager",
        _summary(bool(starting)),
        support,
        against,
        fixes=[
            Fix(
                say(
                    "start the fabric manager of the driver's very version on the host "
                    "(systemctl status nvidia-fabricmanager), then reset the GPUs or reboot"
                )
            ),
            Fix(
                say(
                    "NCCL_NVLS_ENABLE=0 only works around a failing multicast and costs speed; it "
                    "does not help against error 802"
                ),
                Change(program.label, {"NCCL_NVLS_ENABLE": "0"})
                if program is not None and not starting
                else None,
            ),
        ],
        next_step=say(
            "on the host: systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric "
            "(State: Completed, Status: Success); compare its version with the driver's"
        ),
        origin=origin_of(None, (), role="node"),
        exonerated=[
            Exonerated(
                "gpu-hardware",
                say("all devices of the node meet it alike, from the start"),
                (first.place,),
            )
        ]
        if several > 1
        else [],
        excerpts=[excerpt(one, "origin") for one in (*starting[:2], *nvls[:2], *switch[:1])],
        ceiling=0.93,
    )


def _multicast(warning: NcclWarning) -> bool:
    file = warning.file or ""
    return "nvls" in file or (warning.topic == "nvls" and "not supported" not in warning.message)


def _speaks_of_nvls(words: str | None) -> bool:
    return words is not None and ("NVLS" in words or "ulticast" in words)


def _weak(nvls: list[NcclWarning], last: list[NcclError]) -> bool:
    """Whether only the file tells that the failing call was one of the multicast."""
    return not last and not any(w.topic == "nvls" for w in nvls)


def _words(sign: Fact) -> str:
    """NCCL's own words, without the header of their line."""
    if isinstance(sign, NcclWarning):
        return sign.message[:160]
    return (sign.last_error or "")[:160] if isinstance(sign, NcclError) else sign.quote[:160]


def _several(facts: list[Fact]) -> int:
    """How many ranks, processes or devices said it; one process can be known by all three."""
    ranks = {fact.speaker.rank for fact in facts} - {None}
    pids = {(fact.speaker.host, fact.speaker.pid) for fact in facts if fact.speaker.pid}
    devices = {fact.device for fact in facts if isinstance(fact, NcclWarning)} - {None}
    return max(len(ranks), len(pids), len(devices))


def _summary(starting: bool) -> Text:
    if starting:
        return say(
            "The GPUs of the node are not ready (CUDA error 802): the fabric manager of its "
            "NVSwitches does not run or does not fit the driver."
        )
    return say(
        "NVLink multicast could not be set up on the node: its fabric manager does not run, does "
        "not fit the driver, or needs a reset of the GPUs."
    )


CAUSE = Cause(
    id="fabric-manager",
    family="device",
    title=say("the fabric manager of an NVSwitch machine does not run"),
    about=say(
        "On machines with NVSwitch a service on the host, the fabric manager, sets up the links "
        "between GPUs. Where it does not run, has another version than the driver, or was started "
        "after the GPUs were used, CUDA refuses to start (error 802) or NCCL's multicast (NVLS) "
        "fails on every rank. One or two GPUs may work where eight do not."
    ),
    shows=(
        say("“Error 802: system not yet initialized” from cudaGetDeviceCount"),
        say("NCCL: “Failed to bind NVLink SHARP (NVLS) Multicast memory”, transport/nvls.cc"),
        say("every rank of the node; fewer GPUs work"),
    ),
    decide=say("systemctl status nvidia-fabricmanager and the Fabric state of nvidia-smi -q"),
    remedies=(
        say("run the fabric manager of the driver's version, reset the GPUs"),
        say("NCCL_NVLS_ENABLE=0 works around multicast failures only"),
    ),
    look_alikes=(
        LookAlike("library-mismatch", say("a text about versions, or error 803 or 804")),
        LookAlike("gpu-hardware", say("one GPU of the node, after it had worked")),
    ),
    examine=examine,
    sources=(
        "NVIDIA Fabric Manager user guide, r535-r580",
        "CUDA Runtime API, error 802 (cudaErrorSystemNotReady)",
        "NCCL transport/nvls.cc, 2.17-2.28",
    ),
)
