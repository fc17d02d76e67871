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
from unstall.programs.groups import Framework, Grid, Grids, Part, Sizes, Step, everyone, positive
from unstall.programs.meshes import mesh_steps

SOURCE = "openrlhf/utils/deepspeed/deepspeed.py: DeepspeedStrategy.setup_distributed"


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Axes: data, sequence (ring attention), tensor parallel."""
    sp, tp, dp = positive(sizes, "sp", "tp", "dp")
    world = sizes.get("world") or dp * sp * tp
    if world % (sp * tp):
        raise ValueError("the ranks do not divide")
    return {"main": Grid((("dp", world // (sp * tp)), ("sp", sp), ("tp", tp)))}


OPENRLHF = Framework(
    name="openrlhf",
    label="OpenRLHF",
    source=SOURCE,
    package="openrlhf",
    read=("0.9.0", "0.11"),
    eras=("0.11.0",),
    grids=grids,
    steps=(
        *mesh_steps(("dp", "sp", "tp"), DIMENSIONS),
        Step(
            name="world_clone",
            meaning=say("DeepSpeed's copy of the default group: ZeRO's data-parallel group"),
            ranks=everyone,
            parts=(Part("nccl"),),
            over="all ranks",
        ),
    ),
    default_used="usually",
    default_source="deepspeed/runtime/zero/stage3.py: barriers of the default group at start-up; "
    "partition_parameters.py: Init gathers parameters there",
    guesses={"world": (2, 4, 8), "sp": (1, 2, 4), "tp": (1, 2)},
)
