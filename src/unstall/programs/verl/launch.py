"""verl: ``python -m verl.trainer.main_ppo`` with Hydra overrides.

Sources, verl 0.5 to 0.7: ``trainer/config/ppo_trainer.yaml`` (``trainer.nnodes`` 1,
``trainer.n_gpus_per_node`` 8, ``actor_rollout_ref.nccl_timeout`` 600 s, ``rollout.n`` 1,
``rollout.tensor_model_parallel_size`` 2, ``data.train_batch_size`` 1024),
``single_controller/ray`` (Ray places the workers; each group's master port is asked of the system,
so MASTER_PORT of the shell reaches nothing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unstall.model.plan import Parallel, Timeout, Value
from unstall.model.text import say
from unstall.programs.base import (
    Launch,
    default,
    number,
    overrides,
    parse_flags,
    seconds,
    truth,
)

NAME = "verl"


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is one of verl's trainers."""
    texts = [w.text for w in words[:8]]
    return texts[0].rsplit("/", 1)[-1].startswith("python") and any(
        (t.startswith(("verl.trainer.", "recipe.", "verl.experimental.")) and "main" in t)
        or t.endswith(("verl/trainer/main_ppo.py", "fsdp_sft_trainer"))
        for t in texts
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its overrides, devices and sizes."""
    del origins
    keys, rest = overrides(launch.words[1:])
    launch.flags.update({k: v for k, v in parse_flags(rest)[0].items() if k.startswith("config")})
    launch.flags.update(keys)
    launch.software = NAME
    launch.role = "trainer"
    name = keys.get("actor_rollout_ref.rollout.name")
    launch.engine = name.text if name is not None else "vllm"
    if launch.launchers and launch.launchers[-1] == "torchrun":
        # the supervised trainer runs under torchrun, without Ray
        launch.engine = None
        if any("main_ppo" in word.text for word in launch.words[:8]):
            launch.settings["driver under torchrun"] = Value("yes", place=launch.place)
        return
    launch.launchers.append("ray")
    nodes = keys.get("trainer.nnodes") or default(1)
    each = keys.get("trainer.n_gpus_per_node") or default(8)
    launch.nodes, launch.per_node = number(nodes), number(each)
    both = launch.nodes is not None and launch.per_node is not None
    # srun's tasks are not verl's: it starts one driver
    launch.processes = (launch.nodes or 0) * (launch.per_node or 0) if both else None
    launch.settings["nodes"] = nodes
    launch.settings["processes per node"] = each
    tensor = keys.get("actor_rollout_ref.rollout.tensor_model_parallel_size") or default(2)
    launch.settings["tensor parallel size"] = tensor
    launch.parallel = Parallel(
        tensor=number(tensor),
        pipeline=number(keys.get("actor_rollout_ref.actor.megatron.pipeline_model_parallel_size")),
        extra={
            label: size
            for label, key in (
                ("actor tensor", "actor_rollout_ref.actor.megatron.tensor_model_parallel_size"),
                ("ulysses", "actor_rollout_ref.actor.ulysses_sequence_parallel_size"),
            )
            if (size := number(keys.get(key))) is not None
        },
    )
    for label, key, fallback in (
        ("train batch size", "data.train_batch_size", 1024),
        ("rollout n", "actor_rollout_ref.rollout.n", 1),
        ("mini batch size", "actor_rollout_ref.actor.ppo_mini_batch_size", 256),
    ):
        launch.settings[label] = keys.get(key) or default(fallback)
    least = _least_batch(launch, keys)
    if least is not None:
        launch.settings["least batch"] = default(least)
    timeout = keys.get("actor_rollout_ref.nccl_timeout") or default(600)
    launch.timeouts.append(
        Timeout("actor_rollout_ref.nccl_timeout", seconds(timeout), "process groups", timeout)
    )
    for variable in (
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "NODE_RANK",
        "NPROC_PER_NODE",
    ):
        launch.ignores[variable] = say(
            "verl's workers are placed by Ray and get {name} from verl", name=variable
        )
    launch.reads["CUDA_VISIBLE_DEVICES"] = say(
        "Ray offers only these devices, if it is started by this command or with this variable"
    )


def _least_batch(launch: Launch, keys: Mapping[str, Value]) -> int | None:
    """What prompts × samples must be a multiple of; ``None`` where verl asks nothing, or unknown.

    Source: verl 0.4.1 to 0.9.1 ``trainer/ppo/ray_trainer.py`` and ``utils/config.py``
    (``minimal_bsz``): the number of devices, with Megatron the data-parallel size times the micro
    batch, and nothing with dynamic batches.
    """
    actor = "actor_rollout_ref.actor"
    world = launch.processes
    if world is None or truth(keys.get(f"{actor}.use_dynamic_bsz")):
        return None
    named = [keys.get(f"{actor}.strategy"), launch.flag("config_name")]
    megatron = any(v is not None and "megatron" in v.text for v in named) or any(
        key.startswith(f"{actor}.megatron.") for key in keys
    )
    if not megatron:
        return world
    micro = number(keys.get(f"{actor}.ppo_micro_batch_size_per_gpu"))
    size = 1
    for name in ("tensor_model", "pipeline_model", "context"):
        given = keys.get(f"{actor}.megatron.{name}_parallel_size")
        part = 1 if given is None else number(given)
        if not part:
            return None
        size *= part
    return (world // size) * micro if micro and world % size == 0 else None
