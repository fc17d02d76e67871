"""``pipeline-order``: stages send and receive in orders that wait for each other."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import Standing, standing
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
    origin_of,
    ranks_text,
)
from unstall.causes.divergence import EXCHANGES
from unstall.causes.reasons import (
    began,
    began_evidence,
    boilerplate,
    died_before,
    network_before,
    no_network_trouble,
)
from unstall.job import Blocked, Job
from unstall.model.facts import CollectiveTimeout, Fact, WarningLine
from unstall.model.findings import Collective, Evidence, Exonerated, Finding, Fix, ProcessGroup
from unstall.model.plan import Program
from unstall.model.text import Text, say


def examine(job: Job) -> Iterable[Finding]:
    """A claim where all stages of a pipeline wait for their neighbours, or two in one order."""
    exchanging = [
        blocked
        for blocked in job.blocked
        if _exchanges(blocked)
        and (blocked.program is None or blocked.program.role in ("trainer", "inference", "rollout"))
    ]
    seen = standing(job)
    if not exchanging:
        finding = _from_stacks(job, seen)
        if finding is not None:
            yield finding
        return
    yield _stalled(job, exchanging)


def _exchanges(blocked: Blocked) -> bool:
    return any(EXCHANGES.search(op) for _, op, _, _ in blocked.stall.operations)


def _stalled(job: Job, exchanging: list[Blocked]) -> Finding:
    first = exchanging[0]
    waiters: dict[int, CollectiveTimeout] = {}
    for blocked in exchanging:
        for rank, fact in blocked.stall.waiters.items():
            if rank >= 0:
                waiters.setdefault(rank, fact)
    ranks = tuple(sorted(waiters))
    program = first.program
    stages = program.parallel.pipeline if program is not None else None
    support: list[Evidence] = [
        evidence(
            say(
                "{ranks} waited in sends and receives of neighbours ({ops}), not in a collective",
                ranks=ranks_text(ranks) if ranks else say("a rank"),
                ops=", ".join(sorted({fact.work.op for fact in waiters.values()}))
                or first.stall.work.op,
            ),
            FAIR,
            first.stall.first,
        )
    ]
    facing = _facing(waiters, stages)
    if facing is not None:
        support.append(facing)
    support.extend(_everyone(exchanging, ranks, stages))
    support.extend(_unbatched(job))
    if stages is not None and stages > 2 and program is not None:
        support.append(
            evidence(
                say(
                    "the pipeline has {stages} stages: from 3 on a stage has two neighbours, and "
                    "the order of its exchanges matters",
                    stages=stages,
                ),
                WEAK,
                program.place,
                source=None if program.place is not None else "pipeline size as the log tells it",
            )
        )
    support.extend(began_evidence(job, first))
    against = [
        *died_before(job, first),
        *network_before(job, first.stall.first),
        *_late(job, exchanging, ranks),
        *_too_few(first, ranks, stages),
    ]
    return Finding(
        cause="pipeline-order",
        summary=_summary(ranks),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(),
        next_step=_next_step(),
        origin=origin_of(program, (), group=group_of(first)),
        collective=collective_of(first),
        waiting_ranks=ranks,
        started_at=began(job, first),
        exonerated=_exonerated(job, first.stall.first),
        excerpts=tuple(excerpt(fact, "messenger") for fact in list(waiters.values())[:6]),
    )


def _direction(op: str) -> str | None:
    if op.upper().startswith(("SEND", "ISEND")):
        return "send"
    if op.upper().startswith(("RECV", "IRECV")):
        return "receive"
    return None


def _facing(waiters: dict[int, CollectiveTimeout], stages: int | None) -> Evidence | None:
    """Two stages that both send, or both receive: each waits for the other's opposite.

    Only where there are just two: of more, two may send in one direction and wait for a third.
    """
    ordered = sorted(waiters)
    if len(ordered) != 2 or stages not in (None, 2):
        return None
    one, other = ordered
    way = _direction(waiters[one].work.op)
    if way is None or way != _direction(waiters[other].work.op):
        return None
    if waiters[one].group.description != waiters[other].group.description:
        return None
    sending = say(
        "ranks {one} and {other} both send: each waits for the other to receive",
        one=one,
        other=other,
    )
    receiving = say(
        "ranks {one} and {other} both receive: each waits for the other to send",
        one=one,
        other=other,
    )
    return evidence(sending if way == "send" else receiving, STRONG, waiters[other])


def _everyone(
    exchanging: list[Blocked], ranks: tuple[int, ...], stages: int | None
) -> list[Evidence]:
    first = exchanging[0]
    members = first.members if first.members_certain else None
    whole = (members is not None and len(members) > 2 and set(members) <= set(ranks)) or (
        stages is not None and stages > 2 and len(ranks) >= stages
    )
    if not whole:
        return []
    return [
        evidence(
            say(
                "every stage waits for a neighbour and none is missing: a circle, not a late stage"
            ),
            STRONG,
            first.stall.first,
        )
    ]


def _unbatched(job: Job) -> list[Evidence]:
    for warning in job.all(WarningLine):
        if warning.topic == "unbatched-p2p":
            return [
                evidence(
                    say(
                        "PyTorch warned of exchanges outside a batch: each pair gets a "
                        "communicator of its own and the order of calls decides"
                    ),
                    FAIR,
                    warning,
                )
            ]
    return []


def _late(job: Job, exchanging: list[Blocked], ranks: tuple[int, ...]) -> list[Evidence]:
    """Ranks that wait in collectives, or that are missing: the pipeline only waits for them."""
    for blocked in job.blocked:
        if blocked in exchanging or blocked.program is not exchanging[0].program:
            continue
        first = blocked.stall.began
        mine = exchanging[0].stall.began
        if first is not None and mine is not None and mine.seconds_since(first) < -60:
            continue
        return [
            evidence(
                say("other ranks wait in a collective: the stages may only wait for them"),
                FAIR,
                blocked.stall.first,
            )
        ]
    missing = [rank for rank in exchanging[0].absent if rank not in ranks]
    if missing and exchanging[0].members_certain and len(missing) <= len(ranks):
        return [
            evidence(
                say("{ranks} is not among those that wait", ranks=ranks_text(missing)),
                FAIR,
                exchanging[0].stall.first,
            )
        ]
    return []


def _too_few(first: Blocked, ranks: tuple[int, ...], stages: int | None) -> list[Evidence]:
    """Fewer ranks wait than there are stages: a circle needs them all."""
    if stages is None or stages < 3 or len(ranks) >= stages:
        return []
    return [
        evidence(
            say(
                "only {count} of {stages} stages wait: another one may be late or gone",
                count=len(ranks),
                stages=stages,
            ),
            FAIR,
            first.stall.first,
        )
    ]


def _from_stacks(job: Job, seen: Standing) -> Finding | None:
    """All ranks stand in exchanges with their neighbours, and none elsewhere."""
    exchanging = [
        one
        for one in seen.together
        if one.wait.kind == "point-to-point" or "pipeline-exchange" in one.wait.keys
    ]
    if len(exchanging) < 3 or seen.apart or len(exchanging) < len(seen.together):
        return None
    program: Program | None = job.owner(exchanging[0].stack) or job.trainer
    ranks = tuple(sorted({one.rank for one in exchanging if one.rank is not None}))
    first = exchanging[0].stack
    frames = sorted({one.activity.shown for one in exchanging if one.activity is not None})
    support = [
        evidence(
            say(
                "all {count} processes wait for a neighbour and none is elsewhere: {frames}",
                count=len(exchanging),
                frames="; ".join(frames[:3]) or "?",
            ),
            STRONG + FAIR,
            first,
        ),
        *_unbatched(job),
    ]
    return Finding(
        cause="pipeline-order",
        summary=_summary(ranks),
        support=tuple(support),
        fixes=_fixes(),
        next_step=_next_step(),
        origin=origin_of(program, (), group=ProcessGroup(name="pp")),
        collective=Collective("SEND/RECV"),
        waiting_ranks=ranks,
        exonerated=_exonerated(job, first),
        excerpts=tuple(excerpt(one.stack, "messenger") for one in exchanging[:4]),
    )


def _summary(ranks: tuple[int, ...]) -> Text:
    if ranks:
        return say(
            "The pipeline's stages wait for each other in a circle: {ranks} wait in sends or "
            "receives whose order does not fit.",
            ranks=ranks_text(ranks),
        )
    return say("The pipeline's stages wait for each other in sends or receives.")


def _exonerated(job: Job, fact: Fact) -> tuple[Exonerated, ...]:
    return (
        Exonerated(
            "time-out-too-short",
            say("a longer time-out changes nothing: stages in a circle never go on"),
            (fact.place,),
        ),
        *no_network_trouble(job),
        *boilerplate(job),
    )


def _next_step() -> Text:
    return say(
        "run twice more: if another rank hangs each time, it is the order and no link. Then take "
        "stacks or Flight Recorder dumps of all stages: they show who sends and who receives"
    )


def _fixes() -> tuple[Fix, ...]:
    return (
        Fix(
            say(
                "exchange with both neighbours in one batch (torch.distributed.batch_isend_irecv; "
                "in Megatron keep batched point-to-point on, do not set overlap_p2p_comm or "
                "batch_p2p_comm=False)"
            )
        ),
        Fix(
            say(
                "give the pipeline a process group of its own and pass it to every send and "
                "receive; let even stages send first and odd ones receive first"
            )
        ),
        Fix(
            say(
                "keep CUDA_DEVICE_MAX_CONNECTIONS=1 where exchanges overlap with computation, so "
                "that they start in the order of their calls"
            )
        ),
    )


CAUSE = Cause(
    id="pipeline-order",
    family="the ranks diverge",
    title=say("pipeline stages send and receive in orders that do not fit"),
    about=say(
        "Sends and receives between neighbouring stages must be called in orders that fit: two "
        "stages that both send first, over one communicator, wait for each other. With two stages "
        "it may work by luck and hang with four, and the rank that hangs changes between runs, "
        "since it is a race and no link."
    ),
    shows=(
        say("time-outs in SEND, RECV or COALESCED, in the pipeline's group"),
        say("the rank that hangs changes between runs; 2 stages work and 4 hang"),
        say("“An unbatched P2P op (send/recv) was called on this ProcessGroup”"),
    ),
    decide=say("stacks of all stages at the hang, of two runs"),
    remedies=(
        say("batched exchange (batch_isend_irecv)"),
        say("an explicit group for the pipeline"),
        say("one device queue for exchanges"),
    ),
    look_alikes=(
        LookAlike("network-transport", say("always the same link, with the network's own errors")),
        LookAlike("python-exception", say("one stage died, its neighbours wait for it")),
        LookAlike(
            "slow-checkpoint-or-eval", say("one stage is missing and alive; the others wait for it")
        ),
    ),
    examine=examine,
    sources=(
        "PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (unbatched P2P warning)",
        "Megatron Core, pipeline_parallel/p2p_communication.py",
    ),
)
