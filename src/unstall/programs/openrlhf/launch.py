"""OpenRLHF: ``openrlhf.cli.train_ppo_ray`` (Ray), its DeepSpeed trainers, its reward server.

Sources, read in OpenRLHF 0.5.9 to 0.11.0: ``cli/train_ppo_ray.py`` (flags such as
``--actor_num_gpus_per_node``, since 0.10.2 ``--actor.num_gpus_per_node``; every role has one node
of 8 devices by default; which roles there are, which of them share devices, and the assertions on
their sizes), ``utils/deepspeed/deepspeed.py`` (``setup_distributed(timeout=60 minutes)``),
``trainer/ray/launcher.py`` (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK are set in
every worker, the port is asked of the system), ``trainer/ray/ppo_actor.py`` (the weight exchange's
port as well), ``cli/serve_rm.py`` (port 5000 of every address).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unstall.model.plan import Parallel, Port, Timeout, Value
from unstall.model.text import say
from unstall.programs.base import Launch, default, parse_flags, picked

NAME = "openrlhf"
TIMEOUT_MS = 3_600_000
_SWITCHES = frozenset(
    [
        "colocate_all_models",
        "colocate_actor_ref",
        "colocate_critic_reward",
        "vllm_enable_sleep",
        "deepspeed_enable_sleep",
        "vllm_sync_with_ray",
        "enable_prefix_caching",
        "bf16",
        "flash_attn",
        "gradient_checkpointing",
        "packing_samples",
        "adam_offload",
        "overlap_comm",
        "normalize_reward",
        "apply_chat_template",
        "async_train",
        "partial_rollout",
        "use_dynamic_batch",
        "use_kl_loss",
        "load_checkpoint",
        "enforce_eager",
        # since 0.10.2
        "train.colocate_all",
        "train.colocate_actor_ref",
        "train.colocate_critic_reward",
        "train.async_enable",
        "train.partial_rollout_enable",
        "train.dynamic_batch_enable",
        "vllm.enable_sleep",
        "vllm.sync_with_ray",
        "vllm.enable_prefix_caching",
        "vllm.enforce_eager",
        "ds.enable_sleep",
        "ds.packing_samples",
        "ds.adam_offload",
        "ds.overlap_comm",
        "actor.gradient_checkpointing_enable",
        "data.apply_chat_template",
        "reward.normalize_enable",
        "algo.kl.use_loss",
        "ckpt.load_enable",
        "ckpt.save_hf",
    ]
)
_ROLES = ("actor", "ref", "critic", "reward")
_RESPECTS_DEBUG = (0, 9, 10)


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is one of OpenRLHF's."""
    return any(w.text.startswith("openrlhf.cli.") or "openrlhf/cli/" in w.text for w in words[:8])


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, devices and sizes."""
    texts = [w.text for w in launch.words]
    at = next(
        n for n, t in enumerate(texts) if t.startswith("openrlhf.cli.") or "openrlhf/cli/" in t
    )
    method = texts[at].removesuffix(".py").replace("/", ".").rsplit(".", 1)[-1]
    flags, _ = parse_flags(launch.words[at + 1 :], switches=_SWITCHES)
    launch.flags.update(flags)
    launch.software = NAME
    launch.role = "inference" if method.startswith(("serve", "batch", "interactive")) else "trainer"
    launch.label = f"openrlhf {method}"
    if method == "serve_rm":
        _serve(launch, origins)
        return
    launch.timeouts.append(
        Timeout("setup_distributed", TIMEOUT_MS, "process groups", default("3600 s"))
    )
    launch.settings["ZeRO stage"] = launch.flag("zero_stage", "ds.zero_stage") or default(2)
    if method.endswith("_ray"):
        _with_ray(launch)


def _serve(launch: Launch, origins: dict[str, str]) -> None:
    """The reward model behind HTTP: one process."""
    launch.role = "reward"
    launch.server = True
    launch.distributed = False
    if not launch.launchers:
        launch.processes = launch.per_node = 1
    port = launch.flag("port") or default(5000)
    host = launch.flag("host") or default("0.0.0.0")  # noqa: S104 - OpenRLHF's default
    launch.ports.append(Port("http", port, host=host, picked=picked(port, origins)))


class Sizes(msgspec.Struct):
    """What the roles of ``train_ppo_ray`` are given.

    Attributes:
        roles: nodes and devices of each node, for the roles that there are; ``None`` unknown.
        engines: number of vLLM engines, 0 without them.
        tensor: devices of each engine.
        together: actor, reference and engines share the actor's devices.
        actor_ref: the actor and the reference share devices.
        critic_reward: the critic and the reward model share devices.
        background: generation and training run at one time; engines have devices of their own.
    """

    roles: dict[str, tuple[int | None, int | None]]
    engines: int | None
    tensor: int | None
    together: bool
    actor_ref: bool
    critic_reward: bool
    background: bool

    def of(self, role: str) -> int | None:
        """Number of devices of a role; 0 where there is none."""
        nodes, each = self.roles.get(role, (0, 0))
        return None if nodes is None or each is None else nodes * each

    def total(self) -> int | None:
        """Devices that all of them ask Ray for."""
        parts = [self.of("actor")]
        if not (self.together or self.actor_ref):
            parts.append(self.of("ref"))
        if self.critic_reward and "critic" in self.roles:
            parts.append(self.of("critic"))
        elif not self.together:
            parts += [self.of("critic"), self.of("reward")]
        if not self.together or self.background:
            known = self.engines is not None and self.tensor is not None
            parts.append((self.engines or 0) * (self.tensor or 0) if known else None)
        return None if None in parts else sum(p for p in parts if p is not None)


def sizes(launch: Launch) -> Sizes:
    """The sizes of ``train_ppo_ray`` from its flags."""

    def pair(role: str) -> tuple[int | None, int | None]:
        return (
            launch.number(f"{role}_num_nodes", f"{role}.num_nodes", default=1),
            launch.number(f"{role}_num_gpus_per_node", f"{role}.num_gpus_per_node", default=8),
        )

    roles = {"actor": pair("actor")}
    weight = launch.flag("init_kl_coef", "algo.kl.init_coef")
    if weight is None or not (weight.known and _zero(weight.text)):
        roles["ref"] = pair("ref")
    estimator = launch.flag("advantage_estimator", "algo.advantage.estimator")
    if estimator is None or estimator.text == "gae":
        roles["critic"] = pair("critic")
    remote = ("remote_rm_url", "reward.remote_url", "agent_func_path", "train.agent_func_path")
    if launch.flag(*remote) is None:
        roles["reward"] = pair("reward")
    return Sizes(
        roles=roles,
        engines=launch.number("vllm_num_engines", "vllm.num_engines", default=0),
        tensor=launch.number("vllm_tensor_parallel_size", "vllm.tensor_parallel_size", default=1),
        together=launch.flag("colocate_all_models", "train.colocate_all") is not None,
        actor_ref=launch.flag("colocate_actor_ref", "train.colocate_actor_ref") is not None,
        critic_reward=launch.flag("colocate_critic_reward", "train.colocate_critic_reward")
        is not None,
        background=launch.flag("async_train", "train.async_enable") is not None,
    )


def _zero(text: str) -> bool:
    try:
        return float(text) <= 0
    except ValueError:
        return False


def _with_ray(launch: Launch) -> None:
    """Roles, engines and devices of the trainer that Ray places."""
    launch.launchers.append("ray")
    launch.nodes = launch.per_node = None  # srun's tasks are not its workers: it starts one driver
    found = sizes(launch)
    for role in _ROLES:
        flag = launch.flag(f"{role}_num_gpus_per_node", f"{role}.num_gpus_per_node")
        if role in found.roles:
            launch.settings[f"{role} devices per node"] = flag or default(8)
    engines = launch.flag("vllm_num_engines", "vllm.num_engines")
    if engines is not None:
        launch.engine = "vllm"
        launch.settings["vLLM engines"] = engines
        launch.settings["tensor parallel size"] = launch.flag(
            "vllm_tensor_parallel_size", "vllm.tensor_parallel_size"
        ) or default(1)
        launch.parallel = Parallel(tensor=found.tensor, data=found.engines)
    total = found.total()
    launch.processes = total
    if total is not None:
        launch.settings["devices in all"] = default(total)
    samples = launch.flag("n_samples_per_prompt", "rollout.n_samples_per_prompt")
    if samples is not None:
        launch.settings["samples per prompt"] = samples
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "NODE_RANK", "NPROC_PER_NODE"):
        launch.ignores[name] = say(
            "OpenRLHF's workers are placed by Ray and get {name} from OpenRLHF", name=name
        )
    version = launch.version("openrlhf")
    if version is not None and version < _RESPECTS_DEBUG:
        launch.ignores["NCCL_DEBUG"] = say(
            "before 0.9.10 OpenRLHF sets NCCL_DEBUG=WARN for its workers, whatever the shell says"
        )
