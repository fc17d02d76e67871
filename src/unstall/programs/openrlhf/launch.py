"""OpenRLHF: ``openrlhf.cli.train_ppo_ray`` (Ray) and its DeepSpeed trainers.

Sources: OpenRLHF 0.5 to 0.9 ``cli/train_ppo_ray.py`` (flags such as ``--actor_num_gpus_per_node``;
in the newest ones ``--actor.num_gpus_per_node``), ``utils/deepspeed/deepspeed.py``
(``setup_distributed(timeout=60 minutes)``), ``trainer/ray/launcher.py`` (each group's master port
is
asked of the system), ``trainer/ray/ppo_actor.py`` (the weight exchange's port as well).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Parallel, Timeout, Value
from unstall.model.text import say
from unstall.programs.base import Launch, default, number, parse_flags

NAME = "openrlhf"
TIMEOUT_MS = 3_600_000
_SWITCHES = frozenset(
    [
        "colocate_all_models",
        "colocate_actor_ref",
        "colocate_critic_reward",
        "vllm_enable_sleep",
        "deepspeed_enable_sleep",
        "bf16",
        "flash_attn",
        "gradient_checkpointing",
        "packing_samples",
        "adam_offload",
        "normalize_reward",
        "apply_chat_template",
        "async_train",
        "load_checkpoint",
        "enforce_eager",
    ]
)


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is one of OpenRLHF's trainers."""
    return any(w.text.startswith("openrlhf.cli.") or "openrlhf/cli/" in w.text for w in words[:8])


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, devices and sizes."""
    del origins
    texts = [w.text for w in launch.words]
    at = next(
        n for n, t in enumerate(texts) if t.startswith("openrlhf.cli.") or "openrlhf/cli/" in t
    )
    method = texts[at].removesuffix(".py").replace("/", ".").rsplit(".", 1)[-1]
    flags, _ = parse_flags(launch.words[at + 1 :], switches=_SWITCHES)
    launch.flags.update(flags)
    launch.software = NAME
    launch.role = "inference" if method.startswith(("serve", "batch")) else "trainer"
    launch.label = f"openrlhf {method}"
    launch.timeouts.append(
        Timeout("setup_distributed", TIMEOUT_MS, "process groups", default("3600 s"))
    )
    stage = launch.flag("zero_stage", "ds.zero_stage")
    launch.settings["ZeRO stage"] = stage or default(2)
    if not method.endswith("_ray"):
        return
    launch.launchers.append("ray")
    total = 0
    devices: dict[str, int] = {}
    for role in ("actor", "ref", "critic", "reward"):
        nodes = launch.flag(f"{role}_num_nodes", f"{role}.num_nodes") or default(1)
        each = launch.flag(f"{role}_num_gpus_per_node", f"{role}.num_gpus_per_node") or default(8)
        given = launch.flag(f"{role}_num_gpus_per_node", f"{role}.num_gpus_per_node")
        if role != "actor" and given is None:
            continue
        count_nodes, count = number(nodes), number(each)
        if count_nodes is not None and count is not None:
            devices[role] = count_nodes * count
        launch.settings[f"{role} devices per node"] = each
    engines = launch.flag("vllm_num_engines", "vllm.num_engines")
    tensor = launch.flag("vllm_tensor_parallel_size", "vllm.tensor_parallel_size") or default(1)
    if engines is not None:
        launch.engine = "vllm"
        launch.settings["vLLM engines"] = engines
        launch.settings["tensor parallel size"] = tensor
        launch.parallel = Parallel(tensor=number(tensor), data=number(engines))
    together = launch.flag("colocate_all_models", "train.colocate_all") is not None
    if together:
        total = max(devices.values(), default=0)
    else:
        actor_ref = launch.flag("colocate_actor_ref", "train.colocate_actor_ref") is not None
        total = sum(n for r, n in devices.items() if not (r == "ref" and actor_ref))
        if engines is not None:
            total += (number(engines) or 0) * (number(tensor) or 1)
    launch.processes = total or None
    launch.settings["devices in all"] = Value(str(total), default=True)
    samples = launch.flag("n_samples_per_prompt", "rollout.n_samples_per_prompt")
    if samples is not None:
        launch.settings["samples per prompt"] = samples
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "NODE_RANK", "NPROC_PER_NODE"):
        launch.ignores[name] = say(
            "OpenRLHF's workers are placed by Ray and get {name} from OpenRLHF", name=name
        )
