"""``data-dependent-graph``: a rank's data made it skip modules, and with them their collectives."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import standing
from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    group_of,
    origin_of,
    ranks_text,
)
from unstall.causes.divergence import GATHERS, Divergence, Side, divergences, is_flat
from unstall.causes.reasons import (
    began,
    began_evidence,
    boilerplate,
    died_before,
    network_before,
    no_network_trouble,
    remark_on,
)
from unstall.job import Job
from unstall.model.facts import PythonException, WarningLine
from unstall.model.findings import Collective, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import say

#: DDP's own check (torch/csrc/distributed/c10d/reducer.cpp, ensure_prior_reduction_finished).
UNUSED = "Expected to have finished reduction in the prior iteration"
IN_STEP = ("gradients", "forward")
CONDITIONAL = ("save", "evaluate", "metrics", "reward", "generate")


def examine(job: Job) -> Iterable[Finding]:
    """A claim from operations of the model that differ at one number, or from DDP's own check."""
    for divergence in divergences(job, standing(job)):
        if fits(divergence):
            yield _diverged(job, divergence)
            return
    unused = next((e for e in job.all(PythonException) if UNUSED in e.message), None)
    if unused is not None:
        yield _unused(job, unused)


def fits(divergence: Divergence) -> bool:
    """Whether all sides exchange parts of the model, of different sizes or kinds.

    Gradients are reduced in buckets and parameters gathered by layer: other sizes or another kind
    at one number mean that a rank is at another module of the same step.
    """
    if divergence.exchanges or divergence.told in ("stacks", "gloo"):
        return False
    sides = divergence.sides
    if any(side.doing is not None and side.doing.kind in CONDITIONAL for side in sides):
        return False
    if not all(is_flat(side.shape) for side in sides):
        return False
    ops = {side.op for side in sides}
    if divergence.seq in (0, 1) and ops == {"ALLREDUCE"}:
        # DDP, FSDP and ZeRO compare or broadcast parameters in a group before they reduce in it
        return False
    if any(side.small for side in sides):
        # a rank with fewer gradients is done reducing them and asks for overflows or the norm
        return ops == {"ALLREDUCE"} and any(not side.small for side in sides)
    of_model = all(_of_model(side) for side in sides)
    if len(ops) > 1:
        return of_model and (divergence.told != "desync" or bool(GATHERS.search(" ".join(ops))))
    sizes = {side.numel for side in sides}
    if len(sizes) < 2:
        return False
    return of_model or all(s.doing is not None and s.doing.kind in IN_STEP for s in sides)


def _of_model(side: Side) -> bool:
    """Whether an operation exchanges gradients or parameters rather than a program's own tensor."""
    op = side.op.upper()
    return op in ("ALLREDUCE", "ALLREDUCE_COALESCED") or op.startswith(
        ("_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "ALLGATHER_INTO_TENSOR")
    )


def _diverged(job: Job, divergence: Divergence) -> Finding:
    one, other = divergence.sides[0], divergence.sides[1]
    mixed = divergence.small_and_large
    support: list[Evidence] = [
        evidence(
            say(
                "at number {seq} of one process group {who} ran {op} and {others} ran {other}: "
                "gradients here, perhaps an overflow flag or a norm after the last of them there",
                seq="?" if divergence.seq is None else divergence.seq,
                who=one.who,
                op=one.shown,
                others=other.who,
                other=other.shown,
            )
            if mixed
            else say(
                "at number {seq} of one process group {who} ran {op} and {others} ran {other}: "
                "parts of the model, of different modules",
                seq="?" if divergence.seq is None else divergence.seq,
                who=one.who,
                op=one.shown,
                others=other.who,
                other=other.shown,
            ),
            FAIR + WEAK if mixed else STRONG + FAIR,
            divergence.fact,
        )
    ]
    for side in divergence.sides:
        if side.doing is not None and side.doing.kind in IN_STEP:
            support.append(
                evidence(
                    say("{who} came from {frame}", who=side.who, frame=side.doing.shown),
                    WEAK,
                    side.fact,
                )
            )
    support.extend(_signs(job))
    against = [*network_before(job, divergence.fact)]
    blocked = divergence.blocked
    if blocked is not None:
        support.extend(began_evidence(job, blocked))
        against.extend(died_before(job, blocked))
        support.extend(_counts(divergence))
    small = tuple(sorted(rank for side in divergence.sides if side.small for rank in side.ranks))
    few = one.ranks if len(one.ranks) < len(other.ranks) or len(divergence.sides) > 2 else ()
    few = small or few  # the rank that is done reducing had fewer gradients
    rest = tuple(rank for rank in divergence.all_ranks if rank not in few)
    return Finding(
        cause="data-dependent-graph",
        summary=say(
            "The ranks are in the same step with different modules: {who} skipped or added some, "
            "so that unlike operations met at number {seq}.",
            who=ranks_text(few) if few else say("one rank"),
            seq="?" if divergence.seq is None else divergence.seq,
        ),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(job, divergence.program),
        next_step=say(
            "print on every rank what its batch lacks (images, tokens of an expert, a branch of "
            "the model) at the step that hangs; TORCH_DISTRIBUTED_DEBUG=DETAIL names the first "
            "operation that differs"
        ),
        origin=origin_of(
            divergence.program, few, group=group_of(blocked) if blocked is not None else None
        ),
        collective=Collective(one.op, divergence.seq, one.numel),
        waiting_ranks=rest if few else divergence.all_ranks,
        started_at=began(job, blocked) if blocked is not None else None,
        exonerated=(
            Exonerated(
                "time-out-too-short",
                say("a longer time-out changes nothing: the ranks wait in different operations"),
                (divergence.fact.place,),
            ),
            *no_network_trouble(job),
            *boilerplate(job),
        ),
        excerpts=tuple(
            excerpt(side.fact, "origin" if side.ranks == few else "messenger")
            for side in divergence.sides[:4]
        ),
    )


def _counts(divergence: Divergence) -> list[Evidence]:
    """Ranks that had enqueued different numbers of operations for the same step."""
    if divergence.blocked is None:
        return []
    counts = {
        rank: status
        for rank, status in divergence.blocked.stall.statuses.items()
        if status.last_enqueued is not None
    }
    if len(counts) < 2:
        return []
    fewest = min(counts, key=lambda rank: counts[rank].last_enqueued or 0)
    most = max(counts, key=lambda rank: counts[rank].last_enqueued or 0)
    low, high = counts[fewest].last_enqueued or 0, counts[most].last_enqueued or 0
    if high - low < 2:
        return []
    return [
        evidence(
            say(
                "rank {few} had enqueued {low} operations there, rank {many} {high}",
                few=fewest,
                low=low,
                many=most,
                high=high,
            ),
            WEAK,
            counts[fewest],
        )
    ]


def _signs(job: Job) -> list[Evidence]:
    """What else is said of modules that only some batches use."""
    found: list[Evidence] = []
    mixed = remark_on(job, "mixed-data")
    if mixed is not None:
        found.append(
            evidence(
                say(
                    "samples of unlike kinds are spoken of, which use different modules: {quote}",
                    quote=mixed.quote[:160],
                ),
                FAIR,
                mixed,
            )
        )
    for warning in job.all(WarningLine):
        if warning.topic == "find-unused-parameters":
            found.append(
                evidence(
                    say("unused parameters are spoken of: {quote}", quote=warning.quote[-140:]),
                    0.0,
                    warning,
                )
            )
            break
    for program in job.of_role("trainer"):
        flag = program.flags.get("ddp_find_unused_parameters")
        if flag is not None and flag.text.lower() in ("true", "1") and flag.place is not None:
            found.append(
                evidence(
                    say("the launch command sets ddp_find_unused_parameters"), WEAK, flag.place
                )
            )
            break
    return found


def _unused(job: Job, unused: PythonException) -> Finding:
    program = job.owner(unused)
    raised = sorted(
        {
            e.speaker.rank
            for e in job.all(PythonException)
            if UNUSED in e.message and e.speaker.rank is not None
        }
    )
    return Finding(
        cause="data-dependent-graph",
        summary=say(
            "Parameters took no part in the loss of the step before: DDP waited for their "
            "gradients."
        ),
        support=(
            evidence(
                say("DDP's own check: {quote}", quote=unused.message[:160]),
                DECISIVE + STRONG,
                unused,
                source="PyTorch torch/csrc/distributed/c10d/reducer.cpp",
            ),
        ),
        fixes=(
            Fix(
                say(
                    "parameters that never get a gradient: remove or freeze them (requires_grad), "
                    "or find_unused_parameters=True"
                )
            ),
            *_fixes(job, program),
        ),
        # the check does not tell whether the graph differs by rank or never uses the parameters
        ceiling=0.8,
        next_step=say(
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters without a gradient; see which "
            "batches skip them"
        ),
        origin=origin_of(program, raised),
        exonerated=tuple(no_network_trouble(job)),
        excerpts=(excerpt(unused, "origin"),),
    )


def _fixes(job: Job, program: Program | None) -> tuple[Fix, ...]:
    deepspeed = program is not None and (
        program.software == "deepspeed" or "deepspeed" in program.flags
    )
    deepspeed = deepspeed or "deepspeed" in job.versions
    fixes = [
        Fix(
            say(
                "let every rank run every module at every step: a dummy input for the skipped "
                "one (a blank image, one token for each expert), its output multiplied by 0"
            )
        ),
        Fix(
            say(
                "for DeepSpeed ZeRO-3 with experts: mark them as leaf modules "
                "(deepspeed.utils.set_z3_leaf_modules), so that they are gathered whole"
            )
        ),
        Fix(
            say(
                "for DDP: find_unused_parameters=True, if the skipped parameters have no gradient "
                "on some ranks only"
            )
        ),
        Fix(say("or sort the data, so that all ranks get the same kind of batch at one step")),
    ]
    if deepspeed:
        fixes[2:3] = []
    return tuple(fixes)


CAUSE = Cause(
    id="data-dependent-graph",
    family="the ranks diverge",
    title=say("a rank's data skips modules and their collectives"),
    about=say(
        "A batch without images skips the vision tower, an expert gets no token, a branch of the "
        "model is not taken: that rank gathers no parameters and reduces no gradients for the "
        "modules, and its next operation meets another one of the other ranks. Nothing compares "
        "them: the group hangs, or exchanges wrong data, until a time-out."
    ),
    shows=(
        say("all ranks wait in one group at one number, with different element counts"),
        say("an all-gather of parameters on one rank, a reduce-scatter of gradients on another"),
        say("DDP: “Expected to have finished reduction in the prior iteration”"),
    ),
    decide=say("the batches of all ranks at the step that hangs, and the modules that they used"),
    remedies=(
        say("a dummy input for modules that a batch does not need"),
        say("leaf modules (DeepSpeed ZeRO-3)"),
        say("find_unused_parameters (DDP)"),
    ),
    look_alikes=(
        LookAlike(
            "size-mismatch",
            say("a tensor of the program itself (a list gather, a broadcast), not of the model"),
        ),
        LookAlike("rank-dependent-branch", say("one side saves, evaluates or logs")),
        LookAlike("uneven-batches", say("one side is behind the loop")),
    ),
    examine=examine,
    sources=(
        "PyTorch torch/csrc/distributed/c10d/reducer.cpp",
        "DeepSpeed, deepspeed/utils/z3_leaf_module.py",
    ),
)
