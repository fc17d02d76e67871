"""TRL: ``trl vllm-serve``, ``trl grpo | sft | dpo …`` and plain scripts with its configurations.

Sources, read in TRL 0.24.0 and 1.16.0: ``scripts/vllm_serve.py`` (host 0.0.0.0, port 8000; one
process for each data-parallel rank, with VLLM_DP_MASTER_PORT from ``get_open_port``; the weight
exchange listens in the server's first worker on the port that the trainer names and refuses a
trainer on the same device), ``trainer/grpo_config.py`` (``vllm_server_host`` 0.0.0.0,
``vllm_server_port`` 8000, ``vllm_server_timeout`` 240 s, ``vllm_group_port`` 51216, ``vllm_mode``
"server" in the former and "colocate" in the latter, the line is drawn at 1.0; ``num_generations``
8), ``cli`` (``trl <command>`` goes through ``accelerate launch`` and takes its flags).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Port, Timeout, Value
from unstall.programs import accelerate, training
from unstall.programs.base import Launch, default, parse_flags, picked, seconds, truth
from unstall.programs.swift.launch import connections
from unstall.programs.vllm import launch as vllm

NAME = "trl"
GROUP_PORT = 51216
_COMMANDS = ("sft", "dpo", "grpo", "kto", "reward", "rloo", "ppo")
_ACCELERATE = [
    *accelerate.PROCESSES,
    "mixed_precision",
    "zero_stage",
    "multi_gpu",
    "use_deepspeed",
    "use_fsdp",
]


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is TRL's own."""
    texts = [w.text for w in words[:4]]
    name = texts[0].rsplit("/", 1)[-1]
    if name == "trl":
        return len(texts) > 1
    return name.startswith("python") and any(
        t in ("trl.scripts.vllm_serve", "trl.cli") or t.endswith("trl/scripts/vllm_serve.py")
        for t in texts
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, ports and sizes."""
    texts = [w.text for w in launch.words]
    if texts[0].rsplit("/", 1)[-1] == "trl":
        method, start = texts[1], 2
    else:
        at = next(n for n, t in enumerate(texts) if "vllm_serve" in t or t == "trl.cli")
        method, start = (
            ("vllm-serve", at + 1) if "vllm_serve" in texts[at] else (texts[at + 1], at + 2)
        )
    flags, _ = parse_flags(launch.words[start:])
    launch.software = NAME
    launch.flags.update(flags)
    launch.take_config()
    launch.label = f"trl {method}"
    if method == "vllm-serve":
        launch.role = "rollout"
        launch.engine = "vllm"
        launch.server = True
        vllm.serve(launch, origins)
        launch.ports = [p for p in launch.ports if p.purpose != "data-parallel messaging"]
        return
    if method in _COMMANDS:
        chosen = {k: v for k, v in launch.flags.items() if k in _ACCELERATE}
        if not launch.launchers:
            accelerate.apply(launch, chosen, origins)
        config_trainer(launch, origins)
        return
    launch.role = "node"
    launch.distributed = False


def config_trainer(launch: Launch, origins: dict[str, str]) -> None:
    """A trainer with TRL's configuration, from its flags or from what is known of its script."""
    launch.software = NAME
    training.ddp_timeout(launch)
    training.deepspeed_stage(launch)
    vllm_mode = launch.flag("vllm_mode")
    uses = truth(launch.flag("use_vllm"))
    online = launch.flag("num_generations") is not None or uses or "grpo" in launch.label
    training.batches(launch, 8 if online else None)
    if not uses:
        return
    release = launch.version("trl")
    server = (
        vllm_mode.text == "server"
        if vllm_mode is not None
        else (
            (release is not None and release < (1, 0))
            or launch.flag("vllm_server_host") is not None
        )
    )
    launch.settings["vLLM mode"] = vllm_mode or default("server" if server else "colocate")
    if not server:
        return
    client(launch, origins)


def client(launch: Launch, origins: dict[str, str]) -> None:
    """The trainer's side of ``trl vllm-serve``."""
    pairs = connections(
        launch,
        launch.flag("vllm_server_host"),
        launch.flag("vllm_server_base_url"),
        launch.flag("vllm_server_port") or default(8000),
    )
    for host, port in pairs[:1]:
        launch.ports.append(
            Port("http", port, listens=False, host=host, picked=picked(port, origins))
        )
        group = launch.flag("vllm_group_port") or default(GROUP_PORT)
        launch.ports.append(Port("weight-exchange", group, listens=False, host=host))
    timeout = launch.flag("vllm_server_timeout") or default(240)
    launch.timeouts.append(
        Timeout("vllm_server_timeout", seconds(timeout), "server start", timeout)
    )


def from_comment(launch: Launch) -> bool:
    """Read ``GRPOConfig(use_vllm=True, vllm_mode="server")`` in the comment behind a command.

    A person who pastes a launch line often says there what the script's configuration holds.
    """
    comment = launch.comment[:2000]
    at = comment.find("Config(")
    if at < 0:
        return False
    start = at
    while start > 0 and comment[start - 1].isalnum():
        start -= 1
    name = comment[start : at + len("Config")]
    end = comment.find(")", at)
    inner = comment[at + len("Config(") : end if end > 0 else len(comment)]
    for part in inner.split(","):
        key, equals, text = part.partition("=")
        key = key.strip()
        if equals and key.isidentifier():
            launch.flags.setdefault(key, Value(text.strip().strip("\"'"), place=launch.place))
    trainers = ("GRPO", "SFT", "DPO", "RLOO", "PPO", "KTO", "Reward", "OnlineDPO", "GKD", "NashMD")
    if name.removesuffix("Config") not in trainers:
        return False
    launch.label = f"{name.removesuffix('Config')} trainer".strip()
    if name.startswith("GRPO"):
        launch.flags.setdefault("num_generations", default(8))
    return True
