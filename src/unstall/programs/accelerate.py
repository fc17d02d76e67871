"""``accelerate launch``.

Source: Accelerate 1.10.0 ``commands/launch.py`` (flags), ``utils/launch.py`` (port 29500 by
default, ``--gpu_ids`` becomes CUDA_VISIBLE_DEVICES, a port in use makes it choose another on one
machine),
``commands/config/config_args.py`` (keys of the configuration file).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Port, Value
from unstall.model.text import say
from unstall.programs.base import Launch, default, number, ordinals, parse_flags, picked

NAME = "accelerate"
PROCESSES = (
    "num_processes",
    "num_machines",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "gpu_ids",
)
"""Flags, and keys of its file, that say how many processes there are, where, and how they meet."""
_SWITCHES = frozenset(
    [
        "quiet",
        "cpu",
        "multi_gpu",
        "tpu",
        "use_deepspeed",
        "use_fsdp",
        "use_parallelism_config",
        "use_megatron_lm",
        "use_xpu",
        "ipex",
        "m",
        "module",
        "no_python",
        "debug",
        "tpu_use_sudo",
        "tpu_cluster",
        "no_tpu_cluster",
        "enable_cpu_affinity",
        "same_network",
        "downcast_bf16",
        "dynamo_use_dynamic",
        "dynamo_use_fullgraph",
        "dynamo_use_regional_compilation",
        "fp8_use_autocast_during_eval",
        "megatron_lm_use_custom_fsdp",
    ]
)
_SHORT = {"-m": "module", "-q": "quiet"}


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is ``accelerate launch``."""
    texts = [w.text for w in words[:6]]
    name = texts[0].rsplit("/", 1)[-1]
    if name == "accelerate":
        return "launch" in texts[1:3]
    if name == "accelerate-launch":
        return True
    return (
        name.startswith("python")
        and "-m" in texts
        and any(
            t in ("accelerate.commands.launch", "accelerate.commands.accelerate_cli") for t in texts
        )
    )


def peel(launch: Launch, origins: dict[str, str]) -> None:
    """Take accelerate off; a configuration file's keys were put among its flags before."""
    texts = [w.text for w in launch.words[:6]]
    start = 1
    for mark in ("launch", "accelerate.commands.launch"):
        if mark in texts:
            start = texts.index(mark) + 1
            break
    flags, rest = parse_flags(launch.words[start:], switches=_SWITCHES, short=_SHORT, stop=True)
    apply(launch, flags, origins)
    if "module" in flags and rest:
        launch.words = (Value("python"), Value("-m"), *rest)
    elif "no_python" in flags:
        launch.words = tuple(rest)
    else:
        launch.words = (Value("python"), *rest)


def apply(launch: Launch, flags: dict[str, Value], origins: dict[str, str]) -> None:
    """What accelerate makes of its flags."""
    launch.launchers.append(NAME)
    launch.flags.update({k: v for k, v in flags.items() if k not in launch.flags})
    devices = flags.get("gpu_ids")
    if devices is not None and devices.text != "all":
        found = ordinals(devices)
        if found is not None:
            launch.devices, launch.visible, launch.device_place = found, len(found), devices.place
    processes = flags.get("num_processes")
    nodes = number(flags.get("num_machines", default(1)))
    launch.nodes = nodes
    if processes is None:
        launch.processes = launch.visible if nodes in (1, None) else None
    else:
        launch.processes = number(processes)
        launch.settings["processes"] = processes
    known = launch.processes is not None and nodes
    # srun's tasks for each node are not accelerate's processes
    launch.per_node = (launch.processes or 0) // (nodes or 1) if known else None
    launch.node_rank = flags.get("machine_rank")
    port = flags.get("main_process_port", default(29500))
    host = flags.get("main_process_ip", default("127.0.0.1"))
    single = launch.processes == 1 and nodes in (1, None)
    if not single:
        launch.ports.append(
            Port(
                "rendezvous",
                port,
                host=host,
                picked="free" if port.text == "0" else picked(port, origins),
            )
        )
        if nodes != 1:
            launch.job = f"{host.token or host.text}:{port.token or port.text}"
    stage = flags.get("zero_stage") or flags.get("deepspeed_config.zero_stage")
    if stage is not None:
        launch.settings["ZeRO stage"] = stage
    launch.reads["CUDA_VISIBLE_DEVICES"] = say("the workers see only these devices")
    if devices is not None and devices.text != "all":
        launch.ignores["CUDA_VISIBLE_DEVICES"] = say(
            "accelerate overwrites CUDA_VISIBLE_DEVICES with --gpu_ids"
        )
        launch.reads.pop("CUDA_VISIBLE_DEVICES", None)
    for name, flag in (("MASTER_PORT", "main_process_port"), ("MASTER_ADDR", "main_process_ip")):
        launch.ignores[name] = say(
            "accelerate takes --{flag}, not {name}, and overwrites {name} for its workers",
            flag=flag,
            name=name,
        )
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        launch.ignores[name] = say(
            "accelerate sets {name} for each of its workers itself", name=name
        )
    launch.ignores["NODE_RANK"] = say("accelerate takes --machine_rank, not NODE_RANK")
    launch.ignores["NPROC_PER_NODE"] = say("accelerate takes --num_processes, not NPROC_PER_NODE")
