"""vLLM's process groups, 0.8 to 0.33.

Every ``GroupCoordinator`` makes, for each list of ranks, a device group (NCCL) and a CPU group
(gloo), on every rank. The engine's world comes first, then the groups of
``initialize_model_parallel``. The groups with which data-parallel *engine cores* agree on the end
of a wave are stateless (``stateless_init_torch_distributed_process_group``, gloo): they live in
no ``torch.distributed`` world and are in no count. NCCL communicators of ``PyNcclCommunicator``
(tensor-parallel all-reduce, weight exchange) are outside of ``torch.distributed`` too: no watchdog
watches them and no time-out line names them.

Order read in ``vllm/distributed/parallel_state.py`` of 0.8.0, 0.8.5, 0.9.0 to 0.9.2, 0.10.0 to
0.10.2, 0.11.0 to 0.11.2, and each minor version from 0.12 to 0.33 but 0.15:

* 0.8: world, TP, PP, DP
* 0.9: EP after DP
* 0.10.2: decode-context parallel (DCP) between TP and PP
* 0.11.1: a group for each engine's own world where one engine spans several nodes
* 0.12: prefill-context parallel (PCP) between DCP and PP
* 0.14: EP only for mixture-of-experts models; dense models run their data-parallel engines as
  independent programs, so that their world is one engine
* 0.17: EPLB after EP where expert load balancing is on
* 0.23: ``VLLM_DISTRIBUTED_USE_SPLIT_GROUP=1`` splits the default group instead: hashed names,
  descriptions ``tp:device`` and ``tp:cpu``
* 0.26: DCP runs over PCP before TP

Not described: elastic expert parallel (0.17, its DP and EP groups are stateless), the groups of
Engram tables (0.30), the broadcast group of pipeline stages in the new model runner (0.23).
"""

from __future__ import annotations

from unstall.model.text import Text, say
from unstall.programs.groups import (
    HASHED,
    Framework,
    Grid,
    Grids,
    Part,
    Ranks,
    Sizes,
    Step,
    along,
    chunks,
    everyone,
    positive,
    within,
)
from unstall.programs.vllm.stepping import traffic

SOURCE = "vllm/distributed/parallel_state.py: initialize_model_parallel, GroupCoordinator"


def grids(sizes: Sizes, version: str | None) -> Grids:
    """Axes: external data parallel, DP, PP, PCP, TP, the last contiguous."""
    tp, pp, pcp, dp = positive(sizes, "tp", "pp", "pcp", "dp")
    if within(version, "0.14", None) and not sizes.get("moe", 1):
        dp = 1
    engine = dp * pp * pcp * tp
    world = sizes.get("world") or engine
    if world % engine:
        raise ValueError("the ranks do not divide into engines")
    return {
        "main": Grid(
            (("external", world // engine), ("dp", dp), ("pp", pp), ("pcp", pcp), ("tp", tp))
        )
    }


def _steps(
    name: str,
    meaning: Text,
    ranks: Ranks,
    over: str,
    *,
    since: str | None = None,
    until: str | None = None,
    switch: str | None = None,
    default: int = 0,
    condition: str = "",
) -> tuple[Step, ...]:
    """The step as ``new_group`` makes it, and from 0.23 as ``split_group`` does."""

    def on(sizes: Sizes) -> bool:
        return switch is None or bool(sizes.get(switch, default))

    shared = {"name": name, "meaning": meaning, "ranks": ranks, "over": over, "until": until}
    counted = Step(
        **shared,  # type: ignore[arg-type]
        parts=(Part("nccl"), Part("gloo")),
        since=since,
        when=lambda sizes: on(sizes) and not sizes.get("split_group"),
        condition=condition,
    )
    split = Step(
        **shared,  # type: ignore[arg-type]
        parts=(Part("nccl", f"{name}:device"), Part("both", f"{name}:cpu")),
        since=since if since is not None and not within("0.23", since, None) else "0.23",
        when=lambda sizes: on(sizes) and bool(sizes.get("split_group")),
        condition="; ".join(p for p in (condition, "VLLM_DISTRIBUTED_USE_SPLIT_GROUP=1") if p),
        naming=HASHED,
    )
    return (counted, split) if within("0.23", None, until) else (counted,)


_WORLD = _steps("world", say("all workers of the engines together"), everyone, "all ranks")
_INNER = _steps(
    "inner_dp_world",
    say("all workers of one data-parallel engine"),
    along("pp", "pcp", "tp"),
    "PP, PCP, TP",
    since="0.11.1",
    switch="nodes_per_engine",
    condition="an engine spans several nodes, DP > 1",
)
_TP = _steps(
    "tp",
    say("tensor parallel: the workers that share each layer of one engine"),
    along("tp"),
    "TP",
)
_DCP_OLD = _steps(
    "dcp",
    say("decode-context parallel: workers that share the key-value cache"),
    chunks("dcp"),
    "consecutive ranks",
    since="0.10.2",
    until="0.26",
)
_DCP = _steps(
    "dcp",
    say("decode-context parallel: workers that share the key-value cache"),
    Ranks(
        lambda grids, sizes: grids["main"].chunks(
            sizes.get("dcp", 1),
            ("external", "dp", "pp", "tp", "pcp") if sizes.get("dcp", 1) > 1 else None,
        ),
        lambda _grids, sizes: sizes.get("dcp", 1),
    ),
    "PCP, then TP",
    since="0.26",
)
_PCP = _steps(
    "pcp",
    say("prefill-context parallel: workers that share a prompt"),
    along("pcp", outer=("external", "dp", "pp", "tp")),
    "PCP",
    since="0.12",
)
_PP = _steps(
    "pp",
    say("pipeline parallel: the stages of one engine"),
    along("pp", outer=("external", "dp", "tp", "pcp")),
    "PP",
)
_DP = _steps(
    "dp",
    say("data parallel: the same worker of every engine"),
    along("dp", outer=("external", "tp", "pp", "pcp")),
    "DP",
)
_EP_OLD = _steps(
    "ep",
    say("expert parallel: the workers that share the experts"),
    along("dp", "pcp", "tp", outer=("external", "pp")),
    "DP, PCP, TP",
    since="0.9",
    until="0.14",
)
_EP = _steps(
    "ep",
    say("expert parallel: the workers that share the experts"),
    along("dp", "pcp", "tp", outer=("external", "pp")),
    "DP, PCP, TP",
    since="0.14",
    switch="moe",
    default=1,
    condition="mixture-of-experts model",
)
_EPLB = _steps(
    "eplb",
    say("expert load balancing: the workers that exchange experts"),
    along("dp", "pcp", "tp", outer=("external", "pp")),
    "DP, PCP, TP",
    since="0.17",
    switch="eplb",
    condition="--enable-eplb, mixture-of-experts model",
)

VLLM = Framework(
    name="vllm",
    label="vLLM",
    source=SOURCE,
    package="vllm",
    read=("0.8.0", "0.33"),
    eras=("0.11.0", "0.14.0", "0.12.0", "0.17.0", "0.9.0", "0.10.2", "0.26.0", "0.8.5"),
    grids=grids,
    steps=(
        *_WORLD,
        *_INNER,
        *_TP,
        *_DCP_OLD,
        *_DCP,
        *_PCP,
        *_PP,
        *_DP,
        *_EP_OLD,
        *_EP,
        *_EPLB,
    ),
    default_used="never",
    default_source="vllm/distributed/parallel_state.py: every operation runs in a GroupCoordinator",
    guesses={
        "dp": (1, 2, 4, 8, 3, 16),
        "tp": (1, 2, 4, 8, 16),
        "pp": (1, 2, 4),
        "moe": (0, 1),
    },
    traffic=traffic,
)
