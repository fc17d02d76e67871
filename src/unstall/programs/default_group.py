"""Trainers that use the default group, or it and one device mesh.

DDP, FSDP without a mesh, accelerate, transformers' Trainer, TRL and ms-swift make no groups of
their own: every collective is in ``PG ID 0 PG GUID 0(default_pg)``. With a device mesh of several
dimensions (hybrid sharding, tensor parallelism of FSDP2, torchtitan) each dimension that does not
span all ranks has its groups, described as ``mesh_<dimension>``.

TRL's and ms-swift's weight exchange with a rollout server goes through ``StatelessProcessGroup``
and ``PyNcclCommunicator`` (``trl/extras/vllm_client.py``, ``swift/…/vllm_client.py``): no c10d
group, no watchdog, no time-out line.
"""

from __future__ import annotations

from unstall.model.text import Text, say
from unstall.programs.groups import Framework, Grid, Grids, Sizes
from unstall.programs.meshes import mesh_steps

DIMENSIONS: dict[str, Text] = {
    "dp": say("device mesh: data parallel"),
    "ddp": say("device mesh: replicas of the sharded model"),
    "fsdp": say("device mesh: ranks that shard one copy of the model"),
    "dp_replicate": say("device mesh: replicas of the sharded model"),
    "dp_shard": say("device mesh: ranks that shard one copy of the model"),
    "dp_shard_cp": say("device mesh: sharding and context parallel together"),
    "dp_cp": say("device mesh: data and context parallel together"),
    "tp": say("device mesh: tensor parallel"),
    "cp": say("device mesh: context parallel"),
    "sp": say("device mesh: sequence parallel"),
    "pp": say("device mesh: pipeline parallel"),
    "ep": say("device mesh: expert parallel"),
    "infer_tp": say("device mesh: tensor parallel of the rollout engine"),
    "infer_pp": say("device mesh: pipeline parallel of the rollout engine"),
    "replicate": say("device mesh: replicas of the sharded model"),
    "shard": say("device mesh: ranks that shard one copy of the model"),
    "data_parallel": say("device mesh: data parallel"),
    "sequence_parallel": say("device mesh: sequence parallel"),
    "default": say("device mesh: all ranks"),
}
"""Meanings of the names that frameworks give to mesh dimensions (torchtitan, accelerate, verl,
OpenRLHF, DeepSpeed); a log shows them as ``mesh_<name>``."""


def dimension_meaning(name: str) -> Text:
    """What a mesh dimension of that name is for; names that are not known are quoted."""
    known = DIMENSIONS.get(name)
    return known or say("device mesh: dimension {dimension}", dimension=name)


def _flat(sizes: Sizes, _version: str | None) -> Grids:
    return {"main": Grid((("dp", sizes.get("world") or sizes.get("dp", 1)),))}


def _hybrid(sizes: Sizes, _version: str | None) -> Grids:
    names = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
    grid = Grid(tuple((name, sizes.get(name, 1)) for name in names))
    if sizes.get("world", grid.world) != grid.world:
        raise ValueError("the dimensions do not make up the ranks")
    return {"main": grid}


DDP = Framework(
    name="ddp",
    label="PyTorch DDP, FSDP or accelerate",
    source="torch/nn/parallel/distributed.py, torch/distributed/fsdp: default process group",
    package="torch",
    read=("2.0", "2.15"),
    eras=("2.8",),
    grids=_flat,
    steps=(),
    default_used="always",
    default_source="torch/nn/parallel/distributed.py: process_group=None is the default group",
    guesses={"world": (2, 4, 8, 16, 32)},
)
"""One group. Also transformers, TRL, ms-swift, LLaMA-Factory and Lightning without DeepSpeed."""

HYBRID = Framework(
    name="mesh",
    label="FSDP2 with a device mesh",
    source="torch/distributed/device_mesh.py: init_device_mesh",
    package="torch",
    read=("2.4", "2.15"),
    eras=("2.13",),
    grids=_hybrid,
    steps=(
        *mesh_steps(("pp",), DIMENSIONS, when=lambda s: s.get("pp", 1) > 1, condition="PP > 1"),
        *mesh_steps(
            ("dp_replicate",),
            DIMENSIONS,
            when=lambda s: s.get("dp_replicate", 1) > 1,
            condition="replicas > 1",
        ),
        *mesh_steps(
            ("dp_shard",),
            DIMENSIONS,
            when=lambda s: s.get("dp_shard", 1) > 1,
            condition="shards > 1",
        ),
        *mesh_steps(("cp",), DIMENSIONS, when=lambda s: s.get("cp", 1) > 1, condition="CP > 1"),
        *mesh_steps(("tp",), DIMENSIONS, when=lambda s: s.get("tp", 1) > 1, condition="TP > 1"),
    ),
    default_used="rarely",
    default_source="torch/distributed/device_mesh.py: FSDP2 communicates in the mesh's groups",
    guesses={"dp_replicate": (1, 2, 4), "dp_shard": (1, 2, 4, 8), "tp": (1, 2, 4, 8)},
)
"""The dimensions that torchtitan and accelerate make, those of size 1 left out."""
