"""The ``deepspeed`` launcher.

Source: DeepSpeed 0.14.0 to 0.19.8 ``launcher/runner.py`` (flags; CUDA_VISIBLE_DEVICES is taken as
``--include`` unless ``--include``, ``--exclude``, ``--num_gpus`` or ``--num_nodes`` is given, and
is then ignored; MASTER_ADDR is 127.0.0.1 without a host file and the first host's address with one,
which without a flag is /job/hostfile), ``constants.py`` (port 29500, DEEPSPEED_TIMEOUT in
minutes, default 30 before 0.19.5 and 10 since).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unstall.model.plan import Port, Value
from unstall.model.text import say
from unstall.programs.base import Launch, default, number, ordinals, parse_flags, picked

NAME = "deepspeed"
_SWITCHES = frozenset(
    [
        "module",
        "no_python",
        "no_local_rank",
        "no_ssh",
        "no_ssh_check",
        "force_multi",
        "save_pid",
        "elastic_training",
        "bind_cores_to_rank",
        "quiet",
    ]
)
_TRAVELS = ("NCCL", "PYTHON", "LD_LIBRARY", "PATH", "UCX", "MV2", "MLFLOW")
_SHORT = {"-H": "hostfile", "-i": "include", "-e": "exclude", "-q": "quiet", "-m": "module"}


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is DeepSpeed's launcher."""
    texts = [w.text for w in words[:4]]
    name = texts[0].rsplit("/", 1)[-1]
    return name in ("deepspeed", "ds") or (
        name.startswith("python") and "deepspeed.launcher.runner" in texts
    )


def peel(launch: Launch, origins: dict[str, str]) -> None:
    """Take the launcher off; what is left are the words of one worker."""
    start = 1
    for at, word in enumerate(launch.words[:4]):
        if word.text == "deepspeed.launcher.runner":
            start = at + 1
    flags, rest = parse_flags(launch.words[start:], switches=_SWITCHES, short=_SHORT, stop=True)
    launch.launchers.append(NAME)
    launch.flags.update({k: v for k, v in flags.items() if k not in launch.flags})
    filtered = [f for f in ("include", "exclude", "num_gpus", "num_nodes") if f in flags]
    hosts = "hostfile" in flags
    if filtered or hosts:
        launch.ignores["CUDA_VISIBLE_DEVICES"] = say(
            "the deepspeed launcher ignores CUDA_VISIBLE_DEVICES when --{flag} is given",
            flag=filtered[0] if filtered else "hostfile",
        )
        launch.devices = None
        launch.visible = None
    else:
        launch.reads["CUDA_VISIBLE_DEVICES"] = say(
            "the deepspeed launcher takes it as --include localhost:…"
        )
    include = flags.get("include")
    nodes = number(flags["num_nodes"]) if "num_nodes" in flags else (None if hosts else 1)
    if include is not None and include.known:
        parts = include.text.split("@")
        nodes = len(parts)
        _, colon, slots = parts[0].partition(":")
        found = ordinals(Value(slots)) if colon else None
        if found is not None and len(parts) == 1:
            launch.devices, launch.visible, launch.device_place = found, len(found), include.place
        if found is not None:
            launch.per_node = len(found)
            launch.processes = len(found) if len(parts) == 1 else None
    gpus = number(flags.get("num_gpus"))
    if gpus is not None and gpus > 0:
        launch.devices = tuple(range(gpus)) if gpus <= 64 else None
        launch.device_place = flags["num_gpus"].place
        launch.visible = gpus
        launch.per_node = gpus
        launch.processes = gpus * nodes if nodes is not None else None
        launch.settings["processes per node"] = flags["num_gpus"]
    elif include is None and launch.visible is not None:
        launch.per_node = launch.visible
        launch.processes = launch.visible * nodes if nodes is not None else None
    launch.nodes = nodes
    port = flags.get("master_port", default(29500))
    host = flags.get("master_addr", default("127.0.0.1" if nodes == 1 else ""))
    launch.ports.append(Port("rendezvous", port, host=host, picked=picked(port, origins)))
    for name in ("MASTER_PORT", "MASTER_ADDR"):
        launch.ignores[name] = say(
            "the deepspeed launcher takes --{flag}, not {name}, and overwrites {name} for its "
            "workers",
            flag=name.lower(),
            name=name,
        )
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NPROC_PER_NODE", "NODE_RANK"):
        launch.ignores[name] = say("the deepspeed launcher does not read {name}", name=name)
    launch.reads["DEEPSPEED_TIMEOUT"] = say("DeepSpeed's time-out of process groups, in minutes")
    if "module" in flags and rest:
        launch.words = (Value("python"), Value("-m"), *rest)
    elif "no_python" in flags:
        launch.words = tuple(rest)
    else:
        launch.words = (Value("python"), *rest)


def travel(launch: Launch, given: Mapping[str, Value]) -> None:
    """Over several nodes only some of the shell's variables reach the workers.

    Source: DeepSpeed 0.14.0 to 0.19.8 ``launcher/runner.py`` (``EXPORT_ENVS``, ``.deepspeed_env``
    beside the script or in the home folder), ``accelerator/cuda_accelerator.py`` (``export_envs``).

    Args:
        launch: a program of the launcher on several nodes.
        given: the variables of ``.deepspeed_env``.
    """
    for name in list(launch.environment):
        if name.startswith(_TRAVELS) or name in given:
            continue
        launch.not_exported[name] = launch.environment.pop(name)
        launch.ignores[name] = say(
            "over several nodes the deepspeed launcher hands on only variables that begin with "
            "NCCL, PYTHON, LD_LIBRARY, PATH, UCX, MV2 or MLFLOW, and those of .deepspeed_env: "
            "{name} does not reach the workers",
            name=name,
        )
    launch.environment.update(given)
