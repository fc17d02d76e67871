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

from unstall.programs.default_group import DIMENSIONS
from unstall.programs.groups import Framework, Grid, Grids, Sizes, Step
from unstall.programs.meshes import mesh_steps

SOURCE = "verl/workers/fsdp_workers.py: create_device_mesh, ActorRolloutRefWorker"


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Three layouts of the same ranks: FSDP, Ulysses, rollout."""
    fsdp, sp = sizes.get("fsdp", 0), sizes.get("sp", 1)
    itp, ipp = sizes.get("infer_tp", 1), sizes.get("infer_pp", 1)
    world = sizes.get("world", 1)
    fsdp = world if fsdp < 1 or fsdp >= world else fsdp
    if min(sp, itp, ipp) < 1 or world % fsdp or world % sp or world % (itp * ipp):
        raise ValueError("the ranks do not divide")
    return {
        "main": Grid((("ddp", world // fsdp), ("fsdp", fsdp))),
        "ulysses": Grid((("dp", world // sp), ("sp", sp))),
        "rollout": Grid((("dp", world // (itp * ipp)), ("infer_tp", itp), ("infer_pp", ipp))),
    }


def _mesh(
    names: tuple[str, ...], grid: str, *, since: str | None, until: str | None, condition: str
) -> tuple[Step, ...]:
    """A mesh whose grid is not the main one: whether a dimension spans all ranks is read there."""
    steps = []
    for step, name in zip(
        mesh_steps(names, DIMENSIONS, grid=grid, backend="both"), names, strict=True
    ):
        steps.append(
            Step(
                name=step.name,
                meaning=step.meaning,
                ranks=step.ranks,
                parts=step.parts,
                since=since,
                until=until,
                when=_needed(names, grid, name),
                condition=condition,
                over=name,
            )
        )
    return tuple(steps)


def _needed(names: tuple[str, ...], grid: str, name: str):  # type: ignore[no-untyped-def]
    def needed(sizes: Sizes) -> bool:
        axes = grids(sizes, None)[grid]
        if grid == "main" and axes.size["ddp"] == 1:
            return False
        if grid == "ulysses" and sizes.get("sp", 1) < 2:
            return False
        if grid == "rollout" and not sizes.get("rollout", 1):
            return False
        alone = len(names) == 1
        spans = axes.size[name] == axes.world
        return not (spans and (alone or not sizes.get("old_mesh")))

    return needed


VERL = Framework(
    name="verl",
    label="verl",
    source=SOURCE,
    package="verl",
    read=("0.3.0", "0.9"),
    eras=("0.5.0", "0.7.0"),
    grids=grids,
    steps=(
        *_mesh(
            ("ddp", "fsdp"), "main", since=None, until=None, condition="fsdp_size below the world"
        ),
        *_mesh(
            ("dp", "sp"),
            "ulysses",
            since=None,
            until=None,
            condition="ulysses_sequence_parallel_size > 1",
        ),
        *_mesh(
            ("dp", "infer_tp"), "rollout", since=None, until="0.6", condition="actor with rollout"
        ),
        *_mesh(
            ("dp", "infer_tp", "infer_pp"),
            "rollout",
            since="0.6",
            until=None,
            condition="actor with rollout",
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
