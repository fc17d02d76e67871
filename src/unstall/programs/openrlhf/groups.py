"""OpenRLHF's process groups, 0.9 to 0.11.

Each Ray actor group (policy, reference, critic, reward) is a DeepSpeed world of its own:
``deepspeed.init_distributed``, then a device mesh ``dp`` x ``sp`` x ``tp``, then DeepSpeed's clone
of the default group. Its time-out is 60 minutes (``setup_distributed``).

Weights go to the engines through ``StatelessProcessGroup`` and ``PyNcclCommunicator``
(``openrlhf/utils/distributed_util.py``): no c10d group, no watchdog. The group's name,
``openrlhf``, is only Ray's with ``--vllm_sync_with_ray``.

Read in ``openrlhf/utils/deepspeed/deepspeed.py`` of 0.9.0 and 0.11.2.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.programs.default_group import DIMENSIONS
from unstall.programs.groups import Framework, Grid, Grids, Part, Sizes, Step, along, everyone
from unstall.programs.meshes import mesh_steps

SOURCE = "openrlhf/utils/deepspeed/deepspeed.py: DeepspeedStrategy.setup_distributed"


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Axes: data, sequence (ring attention), tensor parallel."""
    sp, tp = sizes.get("sp", 1), sizes.get("tp", 1)
    world = sizes.get("world") or sizes.get("dp", 1) * sp * tp
    if min(sp, tp) < 1 or world % (sp * tp):
        raise ValueError("the ranks do not divide")
    return {"main": Grid((("dp", world // (sp * tp)), ("sp", sp), ("tp", tp)))}


def _spans(sizes: Sizes) -> bool:
    world = sizes.get("world") or sizes.get("dp", 1) * sizes.get("sp", 1) * sizes.get("tp", 1)
    return sizes.get("sp", 1) * sizes.get("tp", 1) == 1 and world > 0 and not sizes.get("old_mesh")


_DATA = Step(
    name="dp",
    meaning=DIMENSIONS["dp"],
    ranks=along("dp"),
    parts=(Part("nccl", "mesh_dp"),),
    when=lambda sizes: not _spans(sizes),
    condition="dp does not span all ranks",
    over="dp",
)

OPENRLHF = Framework(
    name="openrlhf",
    label="OpenRLHF",
    source=SOURCE,
    package="openrlhf",
    read=("0.9.0", "0.11"),
    eras=("0.11.0",),
    grids=grids,
    steps=(
        _DATA,
        *mesh_steps(("sp", "tp"), DIMENSIONS),
        Step(
            name="world_clone",
            meaning=say("DeepSpeed's copy of the default group: ZeRO's data-parallel group"),
            ranks=everyone,
            parts=(Part("nccl"),),
            over="all ranks",
        ),
    ),
    default_used="always",
    default_source="deepspeed/runtime/zero/partition_parameters.py: Init gathers parameters in the "
    "default group",
    guesses={"world": (2, 4, 8), "sp": (1, 2, 4), "tp": (1, 2)},
)
