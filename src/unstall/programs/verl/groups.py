"""verl's process groups, 0.3 to 0.9, FSDP workers.

Each Ray worker group (actor with rollout, reference, critic, reward) is a world of its own. The
default group has both back ends (``cpu:gloo,cuda:nccl``; NCCL alone in 0.3). Then, in order: the
FSDP mesh (``ddp``, ``fsdp``; one dimension ``fsdp`` over all ranks reuses the default group), the
Ulysses mesh (``dp``, ``sp``) where sequences are split, for the actor the rollout mesh (``dp``,
``infer_tp``; from 0.6 also ``infer_pp``). A rollout engine in the same process (vLLM as an
external launcher, the way of 0.3 to 0.6) adds its own groups after that: see
:data:`unstall.programs.vllm.groups.VLLM`; engines that run as servers (0.7 and later) are
worlds of their own.

Read in ``verl/workers/fsdp_workers.py`` of 0.3.0.post1, 0.5.0, 0.7.0 and
``verl/workers/engine/fsdp`` of 0.9.1. Megatron workers follow
:data:`unstall.programs.megatron.groups.MEGATRON`.
"""

from __future__ import annotations

from collections.abc import Callable

from unstall.programs.default_group import DIMENSIONS
from unstall.programs.groups import (
    Framework,
    Grid,
    Grids,
    Part,
    Sizes,
    Step,
    along,
    positive,
)

SOURCE = "verl/workers/fsdp_workers.py: create_device_mesh, ActorRolloutRefWorker"


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Three layouts of the same ranks: FSDP, Ulysses, rollout."""
    world, sp, itp, ipp = positive(sizes, "world", "sp", "infer_tp", "infer_pp")
    fsdp = sizes.get("fsdp", 0)
    fsdp = world if fsdp < 1 or fsdp >= world else fsdp
    if world % fsdp or world % sp or world % (itp * ipp):
        raise ValueError("the ranks do not divide")
    return {
        "main": Grid((("ddp", world // fsdp), ("fsdp", fsdp))),
        "ulysses": Grid((("dp", world // sp), ("sp", sp))),
        "rollout": Grid((("dp", world // (itp * ipp)), ("infer_tp", itp), ("infer_pp", ipp))),
    }


def _mesh(
    names: tuple[str, ...],
    grid: str,
    made: Callable[[Sizes], bool],
    condition: str,
    *,
    since: str | None = None,
    until: str | None = None,
) -> tuple[Step, ...]:
    """The steps of a mesh that is made where ``made`` says so."""
    return tuple(
        Step(
            name=name,
            meaning=DIMENSIONS[name],
            ranks=along(name, grid=grid),
            parts=(Part("both", f"mesh_{name}"),),
            since=since,
            until=until,
            when=_needed(name, grid, made),
            condition=condition,
            over=name,
        )
        for name in names
    )


def _needed(name: str, grid: str, made: Callable[[Sizes], bool]) -> Callable[[Sizes], bool]:
    """Whether a dimension has groups of its own: not where it spans all ranks (torch 2.10 on)."""

    def needed(sizes: Sizes) -> bool:
        axes = grids(sizes, None)[grid]
        spans = axes.size[name] == axes.world
        return made(sizes) and not (spans and not sizes.get("old_mesh"))

    return needed


def _rollout(sizes: Sizes) -> bool:
    return bool(sizes.get("rollout", 1))


VERL = Framework(
    name="verl",
    label="verl",
    source=SOURCE,
    package="verl",
    read=("0.3.0", "0.9"),
    eras=("0.5.0", "0.7.0"),
    grids=grids,
    steps=(
        *_mesh(("ddp", "fsdp"), "main", lambda s: s.get("ddp", 1) > 1, "fsdp_size below the world"),
        *_mesh(
            ("dp", "sp"),
            "ulysses",
            lambda s: s.get("sp", 1) > 1,
            "ulysses_sequence_parallel_size > 1",
        ),
        *_mesh(("dp", "infer_tp"), "rollout", _rollout, "actor with rollout", until="0.6"),
        *_mesh(
            ("dp", "infer_tp", "infer_pp"), "rollout", _rollout, "actor with rollout", since="0.6"
        ),
    ),
    default_backend="both",
    default_used="always",
    default_source="verl/workers/fsdp_workers.py: FSDP over all ranks reuses the default group",
    guesses={
        "world": (2, 4, 8, 16),
        "fsdp": (0, 8),
        "sp": (1, 2),
        "infer_tp": (1, 2, 4),
        "rollout": (0, 1),
    },
)
