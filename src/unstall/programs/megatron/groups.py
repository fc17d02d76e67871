"""Megatron-core's process groups, 0.10 to 0.19.

``initialize_model_parallel`` makes one group after the other for every list of ranks, on every
rank; the order of the axes is TP, CP, EP, DP, PP, the first contiguous (``--use-tp-pp-dp-mapping``
swaps the last two: switch ``tp_pp_dp``). Experts lay the same ranks out anew: expert TP, EP,
expert DP, PP. From 0.11 every group has a description (PyTorch 2.4 and later shows it).

Read in ``megatron/core/parallel_state.py`` of core 0.10.0 to 0.19.0:

* 0.10 to 0.12: data parallel first, then data with context parallel
* 0.13: the other way round; a group for the distributed optimizer's instance at the end
* 0.19: weight-rematerialisation groups (GTP), of one rank each unless switched on

Gloo twins of the data-parallel groups are left out with ``--disable-gloo-process-groups`` (switch
``no_gloo``). Not described: several distributed-optimizer instances, hierarchical and hybrid
context parallel, encoder parallelism, SHARP, UCC, all-gather twins (0.16).
"""

from __future__ import annotations

from unstall.model.text import Text, say
from unstall.programs.groups import (
    Framework,
    Grid,
    Grids,
    Part,
    Ranks,
    Sizes,
    Step,
    along,
    everyone,
    positive,
    singles,
)

SOURCE = "megatron/core/parallel_state.py: initialize_model_parallel"


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Axes of the dense layers and of the experts; DP follows from the number of ranks."""
    tp, cp, pp, dp = positive(sizes, "tp", "cp", "pp", "dp")
    ep, etp = positive({"etp": tp, **sizes}, "ep", "etp")
    world = sizes.get("world") or tp * cp * pp * dp
    if world % (tp * cp * pp) or world % (etp * ep * pp):
        raise ValueError("the ranks do not divide")
    dp, edp = world // (tp * cp * pp), world // (etp * ep * pp)
    if sizes.get("tp_pp_dp"):
        dense = (("dp", dp), ("pp", pp), ("cp", cp), ("tp", tp))
        expert = (("dp", edp), ("pp", pp), ("ep", ep), ("tp", etp))
    else:
        dense = (("pp", pp), ("dp", dp), ("cp", cp), ("tp", tp))
        expert = (("pp", pp), ("dp", edp), ("ep", ep), ("tp", etp))
    return {"main": Grid(dense), "experts": Grid(expert)}


def _one(description: str) -> tuple[Part, ...]:
    return (Part("nccl", description),)


def _steps(
    description: str,
    meaning: Text,
    axes: tuple[str, ...],
    *,
    gloo: bool = False,
    grid: str = "main",
    since: str = "0.10",
    until: str | None = None,
) -> tuple[Step, ...]:
    """One step, and its twin without gloo where it has gloo groups."""
    shared = {
        "name": description,
        "meaning": meaning,
        "ranks": along(*axes, grid=grid),
        "since": since,
        "until": until,
        "over": ", ".join(axes).upper() + (" of the experts' layout" if grid == "experts" else ""),
    }
    if not gloo:
        return (Step(**shared, parts=_one(description)),)  # type: ignore[arg-type]
    return (
        Step(
            **shared,  # type: ignore[arg-type]
            parts=(Part("nccl", description), Part("gloo", f"{description}_GLOO")),
            when=lambda sizes: not sizes.get("no_gloo"),
        ),
        Step(
            **shared,  # type: ignore[arg-type]
            parts=_one(description),
            when=lambda sizes: bool(sizes.get("no_gloo")),
            condition="--disable-gloo-process-groups",
        ),
    )


def _ends(ranks: tuple[int, ...]) -> tuple[int, ...]:
    return ranks if len(ranks) == 1 else (ranks[0], ranks[-1])


def _single(name: str, meaning: Text, ranks: Ranks = singles) -> Step:
    return Step(
        name=name,
        meaning=meaning,
        ranks=ranks,
        parts=_one(name),
        since="0.19",
        over="each rank alone",
    )


_DATA = say("data parallel: gradients of one shard of the model")
_DATA_CP = say("data and context parallel: gradients and the sharded optimizer")

_DP_OLD = _steps("DATA_PARALLEL_GROUP", _DATA, ("dp",), gloo=True, until="0.13")
_DP = _steps("DATA_PARALLEL_GROUP", _DATA, ("dp",), gloo=True, since="0.13")
_DP_CP = _steps("DATA_PARALLEL_GROUP_WITH_CP", _DATA_CP, ("dp", "cp"), gloo=True)

_PIPELINE = Step(
    name="PIPELINE_MODEL_PARALLEL_GROUP",
    meaning=say("pipeline parallel: the stages of one model copy"),
    ranks=along("pp"),
    parts=(
        Part("nccl", "PIPELINE_MODEL_PARALLEL_GROUP"),
        Part(
            "nccl",
            "EMBEDDING_GROUP",
            name="EMBEDDING_GROUP",
            pick=_ends,
            meaning=say("embeddings of the first and the last stage"),
        ),
        Part(
            "nccl",
            "POSITION_EMBEDDING_GROUP",
            name="POSITION_EMBEDDING_GROUP",
            pick=lambda ranks: ranks[:1],
            meaning=say("position embeddings of the first stage"),
        ),
    ),
    since="0.10",
    over="PP; first and last of PP; first of PP",
)

_EXPERT_DP = _steps(
    "EXPERT_DATA_PARALLEL_GROUP",
    say("data parallel of the experts"),
    ("dp",),
    gloo=True,
    grid="experts",
)

MEGATRON = Framework(
    name="megatron",
    label="Megatron-LM",
    source=SOURCE,
    package="megatron-core",
    read=("0.10.0", "0.19"),
    eras=("0.13", "0.12", "0.19"),
    grids=grids,
    steps=(
        _single("GTP_WEIGHT_REMAT_GROUP", say("weight rematerialisation")),
        *_DP_OLD,
        *_DP_CP,
        *_DP,
        *_steps("CONTEXT_PARALLEL_GROUP", say("context parallel: parts of one sequence"), ("cp",)),
        *_steps("MODEL_PARALLEL_GROUP", say("all ranks of one model copy"), ("tp", "pp")),
        *_steps(
            "TENSOR_MODEL_PARALLEL_GROUP",
            say("tensor parallel: the ranks that share each layer"),
            ("tp",),
        ),
        _PIPELINE,
        *_steps(
            "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP",
            say("tensor, data and context parallel together"),
            ("tp", "dp", "cp"),
        ),
        *_steps(
            "TENSOR_AND_DATA_PARALLEL_GROUP",
            say("tensor and data parallel together"),
            ("tp", "dp"),
        ),
        *_steps(
            "TENSOR_AND_CONTEXT_PARALLEL_GROUP",
            say("tensor and context parallel together"),
            ("tp", "cp"),
        ),
        _single("EXPERT_GTP_WEIGHT_REMAT_GROUP", say("weight rematerialisation of the experts")),
        *_steps(
            "EXPERT_MODEL_PARALLEL_GROUP",
            say("expert parallel: the ranks that share the experts"),
            ("ep",),
            grid="experts",
        ),
        *_steps(
            "EXPERT_TENSOR_PARALLEL_GROUP",
            say("tensor parallel within the experts"),
            ("tp",),
            grid="experts",
        ),
        *_steps(
            "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",
            say("expert and tensor parallel together"),
            ("tp", "ep"),
            grid="experts",
        ),
        *_steps(
            "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
            say("all ranks of one copy of the experts"),
            ("tp", "ep", "pp"),
            grid="experts",
        ),
        *_steps(
            "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP",
            say("all ranks of one copy of the experts"),
            ("tp", "ep", "pp"),
            grid="experts",
            since="0.19",
        ),
        *_EXPERT_DP,
        Step(
            name="INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
            meaning=say("all ranks of one distributed-optimizer instance"),
            ranks=everyone,
            parts=_one("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"),
            since="0.13",
            over="all ranks",
        ),
    ),
    default_used="rarely",
    default_source="megatron/training: barriers and start-up time sums run in the default group",
    guesses={
        "tp": (1, 2, 4, 8),
        "pp": (1, 2, 4, 8),
        "cp": (1, 2),
        "ep": (1, 4, 8),
        "dp": (1, 2, 4, 8),
    },
)
