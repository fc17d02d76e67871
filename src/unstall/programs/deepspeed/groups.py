"""DeepSpeed's process groups, 0.14 to 0.19, for ZeRO without model parallelism.

ZeRO's data-parallel group is a clone of the default group, made when the engine first asks for
it (``utils/groups.py``: ``_clone_world_group``; one ``new_group``): ``PG ID 1 PG GUID 1``.
Gradients are reduced there. With ``zero.Init`` (stage 3) parameters are gathered in the default
group, so both are busy. ZeRO++ secondary partitions (``zero_hpz_partition_size``) add a group for
each run of that many consecutive ranks before the clone (``partition_parameters.py``: made in
``zero.Init``). Sequence parallelism (Ulysses, ``mesh_param`` or ``sequence_parallel_size``) makes a
device mesh instead of the clone.

Not described: pipeline modules, MiCS, expert parallelism, 1-bit optimizers, tensor parallelism,
groups of a client's ``mpu``.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.programs.groups import (
    Framework,
    Grid,
    Grids,
    Part,
    Sizes,
    Step,
    chunks,
    everyone,
    positive,
)
from unstall.programs.meshes import mesh_steps

SOURCE = "deepspeed/utils/groups.py: _clone_world_group, _create_zero_param_parallel_group"


def grids(sizes: Sizes, _version: str | None) -> Grids:
    """Axes: data parallel, sequence parallel."""
    sp, dp = positive(sizes, "sp", "dp")
    world = sizes.get("world") or dp * sp
    if world % sp:
        raise ValueError("the ranks do not divide")
    return {"main": Grid((("data_parallel", world // sp), ("sequence_parallel", sp)))}


def _sequence(sizes: Sizes) -> bool:
    return sizes.get("sp", 1) > 1


DEEPSPEED = Framework(
    name="deepspeed",
    label="DeepSpeed ZeRO",
    source=SOURCE,
    package="deepspeed",
    read=("0.14.0", "0.19"),
    eras=("0.18.0",),
    grids=grids,
    steps=(
        *mesh_steps(
            ("data_parallel", "sequence_parallel"),
            {
                "data_parallel": say("data parallel: the same part of every sequence"),
                "sequence_parallel": say("sequence parallel (Ulysses): parts of one sequence"),
            },
            when=_sequence,
            condition="sequence parallel",
        ),
        Step(
            name="zero_hpz",
            meaning=say("ZeRO++: ranks that hold one secondary copy of the parameters"),
            ranks=chunks("hpz"),
            parts=(Part("nccl"),),
            when=lambda sizes: sizes.get("hpz", 1) > 1 and not _sequence(sizes),
            condition="zero_hpz_partition_size > 1, made in zero.Init",
            over="consecutive ranks",
        ),
        Step(
            name="world_clone",
            meaning=say("DeepSpeed's copy of the default group: ZeRO's data-parallel group"),
            ranks=everyone,
            parts=(Part("nccl"),),
            when=lambda sizes: not _sequence(sizes),
            condition="no sequence parallelism by mesh",
            over="all ranks",
        ),
    ),
    default_used="usually",
    default_source="deepspeed/runtime/zero/stage3.py: barriers of the default group at start-up; "
    "partition_parameters.py: Init gathers parameters there",
    guesses={"world": (2, 4, 8, 16, 32), "sp": (1, 2, 4), "hpz": (1, 8)},
)
