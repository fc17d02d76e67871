"""SGLang's process groups, 0.4.5 to 0.5.23.

The scheme is that of early vLLM: each ``GroupCoordinator`` makes a device group (NCCL) and a CPU
group (gloo) for each list of ranks, on every rank. The world of ``torch.distributed`` is one
server's TP x PP; data-parallel replicas are worlds of their own, data-parallel *attention* splits
TP. A group whose size equals TP is TP itself and makes nothing.

Read in ``sglang/srt/distributed/parallel_state.py`` and ``sglang/srt/layers/dp_attention.py``:

* to 0.4.9: world, TP, PP, then the attention TP group
* 0.4.10: expert groups (``moe_ep``, ``moe_tp``) between TP and PP
* 0.5.2: these only where they differ from TP
* 0.5.9: attention groups move before them (``attn_cp``, ``attention_tp``), ``moe_dp`` is new
* 0.5.15: ``dcp`` after TP where it is larger than 1 (0.5.14 was not read)
* 0.5.19: a group of each rank alone (``self_pp``) after PP

The weight-update group that a trainer opens (``init_custom_process_group``) is named by the
caller: ``weight_update_group`` stands where a number would.

Not described: PD multiplexing, NIXL, shared-expert groups (0.5.23), speculative draft workers.
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
    Traffic,
    along,
    chunks,
    everyone,
    positive,
    singles,
)

SOURCE = "sglang/srt/distributed/parallel_state.py: initialize_model_parallel, GroupCoordinator"


def _attention_tp(sizes: Sizes) -> int:
    return sizes.get("tp", 1) // (sizes.get("attn_dp", 1) * sizes.get("attn_cp", 1))


def _moe_tp(sizes: Sizes) -> int:
    return sizes.get("tp", 1) // (sizes.get("ep", 1) * sizes.get("moe_dp", 1))


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Axes: PP, TP; and TP as attention (DP, CP, TP) and as experts (DP, EP, TP)."""
    tp, pp = positive(sizes, "tp", "pp")
    adp, acp = positive(sizes, "attn_dp", "attn_cp")
    ep, mdp = positive(sizes, "ep", "moe_dp")
    if tp % (adp * acp) or tp % (ep * mdp):
        raise ValueError("the tensor-parallel ranks do not divide")
    if sizes.get("world") and sizes["world"] != tp * pp:
        raise ValueError("the world is not TP x PP")
    return {
        "main": Grid((("pp", pp), ("tp", tp))),
        "attention": Grid(
            (("pp", pp), ("attn_dp", adp), ("attn_cp", acp), ("attn_tp", _attention_tp(sizes)))
        ),
        "experts": Grid((("pp", pp), ("moe_dp", mdp), ("ep", ep), ("moe_tp", _moe_tp(sizes)))),
    }


_BOTH = (Part("nccl"), Part("gloo"))

_ATTENTION_TP = say("tensor parallel within attention: workers that share one attention replica")
_MOE_EP = say("expert parallel: the workers that share the experts")
_MOE_TP = say("tensor parallel within the experts")


def _step(
    name: str,
    meaning: Text,
    ranks: Ranks,
    over: str,
    *,
    since: str | None = None,
    until: str | None = None,
    size: str | None = None,
) -> Step:
    """A step that is left out where its size equals TP."""
    measure = {
        "attn_cp": lambda s: s.get("attn_cp", 1),
        "attn_tp": _attention_tp,
        "moe_dp": lambda s: s.get("moe_dp", 1),
        "ep": lambda s: s.get("ep", 1),
        "moe_tp": _moe_tp,
    }
    return Step(
        name=name,
        meaning=meaning,
        ranks=ranks,
        parts=_BOTH,
        since=since,
        until=until,
        when=None if size is None else lambda s: measure[size](s) != s.get("tp", 1),
        condition="" if size is None else "size differs from TP",
        over=over,
    )


_MOE_DP = along("moe_dp", grid="experts")

SGLANG = Framework(
    name="sglang",
    label="SGLang",
    source=SOURCE,
    package="sglang",
    read=("0.4.5", "0.5.23"),
    eras=("0.5.9", "0.5.6", "0.5.19", "0.4.10", "0.4.6", "0.5.15"),
    grids=grids,
    steps=(
        _step("world", say("all workers of one server"), everyone, "all ranks"),
        _step(
            "tp",
            say("tensor parallel: the workers that share each layer of one server"),
            along("tp"),
            "TP",
        ),
        Step(
            name="dcp",
            meaning=say("decode-context parallel: workers that share the key-value cache"),
            ranks=chunks("dcp"),
            parts=_BOTH,
            since="0.5.15",
            when=lambda s: s.get("dcp", 1) > 1,
            condition="DCP > 1",
            over="consecutive ranks",
        ),
        _step("moe_ep", _MOE_EP, along("ep", grid="experts"), "EP", since="0.4.10", until="0.5.2"),
        _step(
            "moe_tp",
            _MOE_TP,
            along("moe_tp", grid="experts"),
            "TP within experts",
            since="0.4.10",
            until="0.5.2",
        ),
        _step(
            "attn_cp",
            say("context parallel within attention"),
            along("attn_cp", grid="attention"),
            "CP within attention",
            since="0.5.9",
            size="attn_cp",
        ),
        _step(
            "attention_tp",
            _ATTENTION_TP,
            along("attn_tp", grid="attention"),
            "TP within attention",
            since="0.5.9",
            size="attn_tp",
        ),
        _step(
            "moe_dp",
            say("data parallel within the experts"),
            _MOE_DP,
            "DP within experts",
            since="0.5.9",
            until="0.5.15",
            size="moe_dp",
        ),
        Step(
            name="moe_dp",
            meaning=say("data parallel within the experts"),
            ranks=_MOE_DP,
            parts=_BOTH,
            since="0.5.15",
            when=lambda s: s.get("attn_cp", 1) <= s.get("moe_dp", 1) != s.get("tp", 1),
            condition="size differs from TP and is not below CP within attention",
            over="DP within experts",
        ),
        _step("moe_ep", _MOE_EP, along("ep", grid="experts"), "EP", since="0.5.2", size="ep"),
        _step(
            "moe_tp",
            _MOE_TP,
            along("moe_tp", grid="experts"),
            "TP within experts",
            since="0.5.2",
            size="moe_tp",
        ),
        _step("pp", say("pipeline parallel: the stages of one server"), along("pp"), "PP"),
        _step(
            "self_pp",
            say("each worker alone (pipeline helper)"),
            singles,
            "each rank alone",
            since="0.5.19",
        ),
        _step(
            "attention_tp",
            _ATTENTION_TP,
            along("attn_tp", grid="attention"),
            "TP within attention",
            until="0.5.9",
        ),
    ),
    default_used="never",
    default_source=f"{SOURCE}: every operation runs in a GroupCoordinator",
    guesses={
        "tp": (1, 2, 4, 8, 16),
        "pp": (1, 2),
        "attn_dp": (1, 2, 4, 8),
        "ep": (1, 2, 4, 8),
    },
    traffic=lambda sizes, version: _traffic(sizes, version),
)


def _traffic(sizes: Sizes, version: str | None) -> tuple[Traffic, ...]:
    """The batch synchronisation of data-parallel attention, see :mod:`.stepping`."""
    from unstall.programs.sglang.stepping import batch_sync

    if sizes.get("attn_dp", 1) < 2:
        return ()
    sync = batch_sync(version)
    return tuple(
        Traffic(
            group="tp",
            op="_ALLGATHER_BASE",
            numel_in=sync.elements,
            backend=backend,
            usual=False,
            text=say(
                "{count} elements: with data-parallel attention SGLang's workers tell each other "
                "their batch before each step",
                count=sync.elements,
            ),
            source=f"SGLang {version or '(version unknown)'}, {sync.source}",
        )
        for backend in sync.backends
    )
