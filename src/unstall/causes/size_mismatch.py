"""``size-mismatch``: the same operation on all ranks, with tensors of different sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.causes.activity import standing
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    group_of,
    origin_of,
)
from unstall.causes.data_dependent_graph import fits
from unstall.causes.divergence import OF_LISTS, Divergence, divergences
from unstall.causes.reasons import (
    began,
    began_evidence,
    died_before,
    network_before,
    no_network_trouble,
)
from unstall.job import Job
from unstall.model.facts import NcclWarning
from unstall.model.findings import Collective, Evidence, Exonerated, Finding, Fix
from unstall.model.text import say


def examine(job: Job) -> Iterable[Finding]:
    """A claim for one operation with different sizes; never for the dump message's words."""
    for divergence in divergences(job, standing(job)):
        if not divergence.same_op or divergence.exchanges or divergence.told == "stacks":
            continue
        sizes = {side.shape or side.numel for side in divergence.sides}
        if len(sizes) < 2 or any(
            side.shape is None and side.numel is None for side in divergence.sides
        ):
            continue
        if fits(divergence) and not _own_tensor(divergence):
            continue
        yield _claim(job, divergence)
        return
    warned = next((w for w in job.all(NcclWarning) if _TRUNCATED.search(w.message)), None)
    if warned is not None:
        yield _warned(job, warned)


#: NCCL's transports meet a message of another length: net_socket.cc ("message truncated"),
#: net_ib.cc ("collective mismatch error").
_TRUNCATED = re.compile(
    r"[Mm]essage truncated|collective mismatch error|mismatch in collective sizes"
)


def _warned(job: Job, warned: NcclWarning) -> Finding:
    """NCCL's transport received another length than it expected; settings can do that too."""
    program = job.owner(warned)
    rank = warned.speaker.rank
    return Finding(
        cause="size-mismatch",
        summary=say(
            "NCCL received a message of another length than it expected: the ranks passed tensors "
            "of different sizes, or run NCCL with different settings."
        ),
        support=(
            evidence(
                say("NCCL itself compares lengths there: {quote}", quote=warned.message[:200]),
                STRONG + FAIR,
                warned,
                source="NCCL 2.7 to 2.27, src/transport/net_socket.cc and net_ib.cc",
            ),
        ),
        fixes=(
            *_fixes(),
            Fix(
                say(
                    "see that NCCL_PROTO, NCCL_ALGO, NCCL_BUFFSIZE and the NCCL version are the "
                    "same on all ranks"
                )
            ),
        ),
        next_step=say(
            "print the tensor's shape on every rank before that call; "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL compares them and names the Python line"
        ),
        origin=origin_of(program, () if rank is None else (rank,)),
        started_at=job.chronology.with_year(warned.moment),
        excerpts=(excerpt(warned, "origin"),),
        # other settings of NCCL on one rank look the same
        ceiling=0.8,
    )


def _own_tensor(divergence: Divergence) -> bool:
    """Whether the operation or its caller is one by which programs pass tensors of their own."""
    if any(OF_LISTS.search(side.op) for side in divergence.sides):
        return True
    return any(
        side.doing is not None and side.doing.kind in ("metrics", "evaluate")
        for side in divergence.sides
    )


def _claim(job: Job, divergence: Divergence) -> Finding:
    one, other = divergence.sides[0], divergence.sides[1]
    exact = divergence.told in ("detail", "gloo")
    support: list[Evidence] = [
        evidence(
            say(
                "the same operation at number {seq}, with different sizes: {who} {op}, {others} "
                "{other}",
                seq="?" if divergence.seq is None else divergence.seq,
                who=one.who,
                op=one.shown,
                others=other.who,
                other=other.shown,
            ),
            STRONG + FAIR,
            divergence.fact,
        )
    ]
    if exact:
        support.append(
            evidence(
                say("gloo compares the bytes that arrive with those that it expects")
                if divergence.told == "gloo"
                else say(
                    "TORCH_DISTRIBUTED_DEBUG=DETAIL compared the ranks before the operation ran"
                ),
                FAIR,
                divergence.fact,
            )
        )
    elif _own_tensor(divergence):
        support.append(
            evidence(
                say("{op} takes tensors that the program made itself", op=one.op),
                WEAK,
                divergence.fact,
            )
        )
    for side in divergence.sides:
        if side.doing is not None:
            support.append(
                evidence(
                    say("{who} came from {frame}", who=side.who, frame=side.doing.shown),
                    WEAK if side.doing.kind in ("metrics", "evaluate") else 0.0,
                    side.fact,
                )
            )
    against = [*network_before(job, divergence.fact)]
    blocked = divergence.blocked
    if blocked is not None:
        support.extend(began_evidence(job, blocked))
        against.extend(died_before(job, blocked))
    few = one.ranks if len(one.ranks) < len(other.ranks) else ()
    return Finding(
        cause="size-mismatch",
        summary=say(
            "The ranks passed tensors of different sizes to one {op}: {who} {mine}, {others} "
            "{theirs}.",
            op=one.op,
            who=one.who,
            mine=one.shown,
            others=other.who,
            theirs=other.shown,
        ),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(),
        next_step=say(
            "print the tensor's shape on every rank before that call; "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL compares them and names the Python line"
        ),
        origin=origin_of(
            divergence.program, few, group=group_of(blocked) if blocked is not None else None
        ),
        collective=Collective(one.op, divergence.seq, one.numel),
        waiting_ranks=tuple(rank for rank in divergence.all_ranks if rank not in few),
        started_at=began(job, blocked) if blocked is not None else None,
        exonerated=(
            Exonerated(
                "time-out-too-short",
                say("a longer time-out changes nothing: sizes that differ never fit"),
                (divergence.fact.place,),
            ),
            *no_network_trouble(job),
        ),
        excerpts=tuple(excerpt(side.fact, "origin") for side in divergence.sides[:3]),
    )


def _fixes() -> tuple[Fix, ...]:
    return (
        Fix(
            say(
                "pad the tensors to one size before the operation (accelerate: "
                "pad_across_processes; else to the maximum over the ranks, by an all-reduce of "
                "the length)"
            )
        ),
        Fix(
            say(
                "or gather the sizes first, then exchange with the sizes known (all_gather of the "
                "lengths, all_to_all_single with split sizes, all_gather_object for few data)"
            )
        ),
        Fix(say("drop or pad the last, smaller batch (drop_last=True)")),
    )


CAUSE = Cause(
    id="size-mismatch",
    family="the ranks diverge",
    title=say("tensors of different sizes in one operation"),
    about=say(
        "Collectives take for granted that all ranks pass the same number of elements. NCCL does "
        "not compare them: with other sizes it hangs, or returns rubbish. Gathering predictions "
        "of unlike lengths, a last batch that is smaller, or a broadcast into a buffer of another "
        "shape do this."
    ),
    shows=(
        say("the same operation at the same SeqNum, with different NumelIn"),
        say("“Detected mismatch between collectives … Tensor shapes” with DETAIL"),
        say("gloo: “op.preamble.length <= op.nbytes”"),
    ),
    decide=say("the shapes on all ranks before the call"),
    remedies=(
        say("pad to one size"),
        say("exchange the sizes first"),
    ),
    look_alikes=(
        LookAlike(
            "data-dependent-graph",
            say("gradients or parameters of different modules: buckets, not the program's tensor"),
        ),
        LookAlike("rank-dependent-branch", say("the operations themselves differ")),
        LookAlike(
            "slow-checkpoint-or-eval",
            say(
                "“wrong sizes” in the dump message is printed with every dump; sizes that differ "
                "stand in the time-out lines"
            ),
        ),
    ),
    examine=examine,
    sources=(
        "PyTorch torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
        "gloo/transport/tcp/pair.cc (preamble length)",
    ),
)
