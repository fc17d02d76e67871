"""``device-overlap``: two programs or two ranks use one device, or there are too few devices."""

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
    ranks_text,
)
from unstall.causes.cuda_oom import foreign
from unstall.causes.deaths import rank_told
from unstall.causes.reasons import from_settings, judged, went_on
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    CudaOutOfMemory,
    EnvironmentValue,
    Fact,
    NcclError,
    NcclWarning,
    PythonException,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Judgement, Program
from unstall.model.text import Text, say

_DUPLICATE = re.compile(r"rank (\d{1,9}) and rank (\d{1,9}) both on CUDA device (\w{1,40})")
_TAKEN = re.compile(
    r"Free memory on device.{0,80}is less than desired GPU memory utilization"
    r"|overlapping devices from different ranks"
)
_WEIGHTS = re.compile(r"pynccl|init_communicator|weight|vllm_client|update_group")
#: Memory of another process, in MiB, from which on it is a program of its own and no bare context.
_PROGRAM = 4096.0


def examine(job: Job) -> Iterable[Finding]:
    """One claim from NCCL's own words, from too few devices, or from a refused communicator."""
    conflicts = judged(job, "device-overlap", "conflict")
    found = (
        _duplicate(job)
        or _ordinal(job)
        or _refused(job, conflicts)
        or (_crowded(job, conflicts) if conflicts else None)
    )
    if found is None and (taken := _taken(job)) is not None:
        yield taken
        return
    if found is None:
        return
    fact, support, ranks, summary = found
    if went_on(job, fact) is not None:
        return
    support.extend(from_settings(conflicts, STRONG))
    program = None if _shared_by(job, conflicts) else (job.owner(fact) or job.trainer)
    yield Finding(
        cause="device-overlap",
        summary=summary,
        support=tuple(support),
        against=tuple(_against(job)),
        fixes=tuple(_fixes(job, conflicts, fact)),
        next_step=say(
            "NCCL_DEBUG=WARN makes NCCL name the two ranks and their device; nvidia-smi shows, "
            "while it runs, which processes are on which device, and CUDA_VISIBLE_DEVICES of each "
            "(/proc/PID/environ) what they were given"
        ),
        origin=origin_of(program, ranks, role="launcher"),
        started_at=job.chronology.with_year(fact.moment),
        exonerated=tuple(_exonerated(job, fact)),
        excerpts=(excerpt(fact, "origin"),),
    )


_Found = tuple[Fact, list[Evidence], Sequence[int], Text]


def _duplicate(job: Job) -> _Found | None:
    """NCCL says itself that two ranks are on one device."""
    pairs: dict[tuple[int, ...], Fact] = {}
    device = ""
    sources: list[tuple[Fact, str]] = [(w, w.message) for w in job.all(NcclWarning)]
    sources.extend((e, e.last_error or "") for e in job.all(NcclError))
    sources.extend((e, e.message) for e in job.all(PythonException))
    named: Fact | None = None
    for fact, words in sources:
        told = _DUPLICATE.search(words)
        if told is not None:
            pairs.setdefault(tuple(sorted((int(told[1]), int(told[2])))), fact)
            device = device or told[3]
        elif "Duplicate GPU" in words or "ranks detected using the same GPU" in words:
            named = named or fact
    if not pairs and named is None:
        return None
    first = next(iter(pairs.values()), named)
    assert first is not None  # noqa: S101 - one of both is there
    ranks = sorted({rank for pair in pairs for rank in pair})
    support = [
        evidence(
            say(
                "NCCL found two ranks of one communicator on the same device: {pairs}, bus id "
                "{device} (a PCI bus id, not a GPU's number)",
                pairs="; ".join(" + ".join(map(str, pair)) for pair in list(pairs)[:4]),
                device=device,
            )
            if pairs
            else say("NCCL found two ranks of one communicator on the same device"),
            STRONG + STRONG,
            first,
        )
    ]
    if len(pairs) > 1:
        support.append(
            evidence(
                say(
                    "different pairs in different runs or groups: how ranks are placed on devices "
                    "is at fault, not one device"
                ),
                0.0,
                first,
            )
        )
    if ranks:
        return (
            first,
            support,
            ranks,
            say(
                "Two ranks of one NCCL communicator ({ranks}) were put on the same GPU, which NCCL "
                "refuses.",
                ranks=ranks_text(ranks),
            ),
        )
    return first, support, ranks, say("Two ranks of one NCCL communicator use the same GPU.")


def _ordinal(job: Job) -> _Found | None:
    """More processes than visible devices: a rank asks for a device that is not there."""
    error = next((e for e in job.all(CudaError) if e.name == "InvalidDevice"), None)
    if error is None:
        return None
    support = [
        evidence(
            say(
                "a process asked for a device number that it cannot see (invalid device ordinal): "
                "there are more processes than visible devices"
            ),
            STRONG + FAIR,
            error,
        )
    ]
    visible = next((v for v in job.all(EnvironmentValue) if v.name == "CUDA_VISIBLE_DEVICES"), None)
    if visible is not None:
        support.append(
            evidence(say("CUDA_VISIBLE_DEVICES was {value}", value=visible.value), WEAK, visible)
        )
    rank = error.speaker.rank
    return (
        error,
        support,
        () if rank is None else (rank,),
        say(
            "A process asked for a GPU that it cannot see: more processes were started on the node "
            "than devices are visible."
        ),
    )


def _refused(job: Job, conflicts: Sequence[Judgement]) -> _Found | None:
    """NCCL refused a communicator as wrongly used, and the programs do share a device."""
    error = next(
        (e for e in job.all(NcclError) if e.result == "ncclInvalidUsage" and not e.last_error), None
    )
    if error is None:
        return None
    weights = any(
        _WEIGHTS.search(e.where or "") for e in job.all(NcclError) if e.result == error.result
    )
    support = [
        evidence(
            say(
                "NCCL refused to make a communicator (invalid usage): two of its ranks on one GPU "
                "is what it refuses so"
            ),
            FAIR,
            error,
        )
    ]
    if weights:
        support.append(
            evidence(
                say(
                    "it was the communicator by which the trainer hands its weights to the server: "
                    "both programs are ranks of it"
                ),
                FAIR if conflicts else WEAK,
                error,
            )
        )
    ranks = _weight_ranks(job, conflicts) if weights else ()
    return (
        error,
        support,
        ranks,
        say(
            "Trainer and server share one GPU, and NCCL refuses the communicator between them: two "
            "ranks on the same device."
        )
        if weights
        else say("NCCL refused a communicator, most likely because two of its ranks use one GPU."),
    )


def _crowded(job: Job, conflicts: Sequence[Judgement]) -> _Found | None:
    """Memory is short because another program of the script is on the device."""
    for exception in job.all(PythonException):
        if _TAKEN.search(exception.message) is not None:
            return (
                exception,
                [
                    evidence(
                        say(
                            "the engine found less free memory on its device than it wants: "
                            "another program had it"
                        ),
                        FAIR + WEAK,
                        exception,
                    )
                ],
                (),
                say("Two programs of the script were put on the same GPU."),
            )
    for short in job.all(CudaOutOfMemory):
        large = [size for _, size in short.others if size >= _PROGRAM]
        if large:
            return (
                short,
                [
                    evidence(
                        say(
                            "device {device} ran out of memory while another process held "
                            "{size} GiB of it",
                            device=short.device if short.device is not None else "?",
                            size=round(max(large) / 1024, 1),
                        ),
                        FAIR + WEAK,
                        short,
                    )
                ],
                (),
                say("Two programs of the script were put on the same GPU."),
            )
    del conflicts
    return None


def _taken(job: Job) -> Finding | None:
    """A process that no script names holds more of the device than the one that ran out."""
    for short in job.all(CudaOutOfMemory):
        held = max(foreign(short), key=lambda one: one[1], default=None)
        least = max(_PROGRAM, (short.total or 0.0) / 4, short.allocated or 0.0)
        if held is None or held[1] < least or went_on(job, short) is not None:
            continue
        rank = rank_told(job, short)
        place = {"pid": held[0] or 0, "size": round(held[1] / 1024, 1)}
        return Finding(
            cause="device-overlap",
            summary=say(
                "The GPU was full because process {pid} holds {size} GiB of it: another program, a "
                "second rank, or what an earlier run left.",
                **place,
            ),
            support=(
                evidence(
                    say("process {pid} holds {size} GiB of the device", **place),
                    STRONG + FAIR,
                    short,
                ),
            ),
            fixes=(
                Fix(
                    say(
                        "see whose process {pid} is (nvidia-smi, ps -fp {pid}): end it if it is "
                        "left from an earlier run, else use another device (CUDA_VISIBLE_DEVICES)",
                        pid=held[0] or 0,
                    )
                ),
            ),
            next_step=say("nvidia-smi before the start: a device in use is not this job's"),
            origin=origin_of(
                job.owner(short) or job.trainer, () if rank is None else (rank,), role="launcher"
            ),
            started_at=job.chronology.with_year(short.moment),
            excerpts=(excerpt(short, "origin"),),
            ceiling=0.7,
        )
    return None


def _shared_by(job: Job, conflicts: Sequence[Judgement]) -> list[Program]:
    """The programs that a conflict names together."""
    for one in conflicts:
        both = [program for label in one.values if (program := job.plan.program(label)) is not None]
        if len(both) > 1:
            return both
    return []


def _weight_ranks(job: Job, conflicts: Sequence[Judgement]) -> tuple[int, ...]:
    """Ranks of the weight exchange on shared devices: the server's workers, then the trainer.

    Source: TRL 0.16+ ``vllm_client.py`` (the client's rank is the server's world size) and vLLM's
    examples of weight exchange.
    """
    both = _shared_by(job, conflicts)
    server = next((p for p in both if p.role in ("rollout", "inference")), None)
    client = next((p for p in both if p.role == "trainer"), None)
    if server is None or client is None or server.devices is None:
        return ()
    size = server.processes or len(server.devices)
    if client.devices is None or size != len(server.devices):
        return ()
    shared = set(server.devices) & set(client.devices)
    own = [at for at, device in enumerate(server.devices) if device in shared]
    return (*own, size)


def _against(job: Job) -> Iterable[Evidence]:
    for warning in job.all(NcclWarning):
        if warning.topic == "version":
            yield evidence(
                say("NCCL complained of versions instead: {quote}", quote=warning.message[:120]),
                STRONG,
                warning,
            )
            return


def _fixes(job: Job, conflicts: Sequence[Judgement], fact: Fact) -> Iterable[Fix]:
    both = _shared_by(job, conflicts)
    if both:
        later = both[-1]
        correction = next((one.correction for one in conflicts if one.correction), None)
        taken = {device for program in both for device in program.devices or ()}
        free = next(number for number in range(1024) if number not in taken)
        yield Fix(
            say(
                "give each program devices of its own: {correction}",
                correction=correction or f"CUDA_VISIBLE_DEVICES={free}",
            ),
            Change(later.label, {"CUDA_VISIBLE_DEVICES": str(free)})
            if later.devices is not None and len(later.devices) == 1
            else None,
        )
        if {program.role for program in both} & {"rollout", "inference"}:
            yield Fix(
                say(
                    "or, where there is only one GPU, run the engine inside the trainer "
                    '(vllm_mode="colocate" in TRL, --vllm_mode colocate in ms-swift): it needs '
                    "no communicator between programs"
                )
            )
    else:
        yield Fix(
            say(
                "start as many processes on a node as CUDA_VISIBLE_DEVICES lists devices, and let "
                "each process take the device of its local rank "
                "(torch.cuda.set_device(LOCAL_RANK)) before any collective"
            )
        )
        yield Fix(
            say(
                "under Ray or another placement: one GPU bundle for each worker and no worker that "
                "overrides CUDA_VISIBLE_DEVICES"
            )
        )
    if not isinstance(fact, CudaError):
        yield Fix(say("NCCL_DEBUG=WARN to see the two ranks and the bus id of their device"))


def _exonerated(job: Job, fact: Fact) -> Iterable[Exonerated]:
    if not any(w.topic == "version" for w in job.all(NcclWarning)):
        yield Exonerated(
            "library-mismatch",
            say("no library complains of another's version"),
            (fact.place,),
        )
    yield Exonerated(
        "network-transport",
        say("NCCL refused the communicator before it connected anything"),
        (fact.place,),
    )


CAUSE = Cause(
    id="device-overlap",
    family="launch and configuration",
    title=say("two programs or ranks on one device"),
    about=say(
        "NCCL allows one rank of a communicator on a device. Two programs with the same "
        "CUDA_VISIBLE_DEVICES, ranks that all take device 0, a placement that puts two workers on "
        "one GPU or more processes than devices break that: the communicator is refused, or the "
        "programs take each other's memory."
    ),
    shows=(
        say("“Duplicate GPU detected : rank A and rank B both on CUDA device BUS”"),
        say("“invalid usage” where trainer and server first exchange weights"),
        say("“invalid device ordinal” on the ranks beyond the visible devices"),
    ),
    decide=say("NCCL_DEBUG=WARN, and the devices that each process was given"),
    remedies=(
        say("separate devices for each program and each rank"),
        say("the engine inside the trainer (colocate) where there is one GPU only"),
    ),
    look_alikes=(
        LookAlike("library-mismatch", say("NCCL names two versions instead of two ranks")),
        LookAlike("cuda-oom", say("memory is short, and no other program of the job is there")),
        LookAlike("port-collision", say("a socket could not be bound")),
    ),
    examine=examine,
    sources=(
        "NCCL 2.27 src/init.cc (Duplicate GPU detected)",
        "TRL 0.16+ trl/extras/vllm_client.py (init_communicator)",
    ),
)
