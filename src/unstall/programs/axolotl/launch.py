"""Axolotl: ``axolotl train FILE``, ``axolotl vllm-serve FILE`` and ``-m axolotl.cli.train``.

Sources, read in axolotl 0.6.0 to 0.18.0: ``cli/main.py`` (``--launcher`` accelerate, torchrun or
python since 0.12, before ``--accelerate``/``--no-accelerate``; words that it does not know, also
behind ``--``, go to the launcher; ``--use-ray`` starts neither), ``cli/utils/train.py``
(``main_process_port`` and ``num_processes`` go to accelerate; torchrun with ``--rdzv_endpoint`` and
without ``--rdzv_id`` gets a random one at each start, since 0.12), ``cli/vllm_serve.py``,
``utils/distributed.py`` and ``utils/trainer.py`` (with DeepSpeed the groups are made before the
trainer is, with AXOLOTL_NCCL_TIMEOUT, 1800 s), ``utils/schemas/config.py`` (``ddp_timeout`` in
seconds, transformers' 1800 without it).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Parallel, Port, Timeout, Value
from unstall.model.text import say
from unstall.programs import accelerate, torchrun, training
from unstall.programs.base import Launch, default, number, parse_flags, picked, seconds, truth

NAME = "axolotl"
_OWN = ("train", "evaluate", "inference", "merge-sharded-fsdp-weights", "vllm-serve")
_SWITCHES = frozenset(["accelerate", "no_accelerate", "use_ray", "debug", "debug_text_only"])
_TIMEOUT = "AXOLOTL_NCCL_TIMEOUT"


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is one of axolotl's that start ranks or serve; others are no programs."""
    texts = [w.text for w in words[:5]]
    if texts[0].rsplit("/", 1)[-1] == "axolotl":
        return texts[1:2] != [] and texts[1] in _OWN
    return any(t.startswith("axolotl.cli.") and t.rsplit(".", 1)[-1] != "preprocess" for t in texts)


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, the file's keys, processes and ports."""
    texts = [w.text for w in launch.words]
    own = texts[0].rsplit("/", 1)[-1] == "axolotl"
    module = next((t for t in texts[:5] if t.startswith("axolotl.cli.")), "")
    command = texts[1] if own else module.rsplit(".", 1)[-1].replace("_", "-")
    words = list(launch.words[2 if own else 1 :])
    behind: list[Value] = []
    split = next((n for n, w in enumerate(words) if w.text == "--"), None)
    if split is not None:
        behind, words = words[split + 1 :], words[:split]
    flags, _ = parse_flags(words, switches=_SWITCHES)
    launch.flags.update(flags)
    launch.take_config()
    launch.software = NAME
    launch.label = f"axolotl {command}"
    if command == "vllm-serve":
        _serve(launch, origins)
        return
    launch.role = "trainer"
    if own and not launch.launchers:
        _start(launch, flags, behind, origins)
    launch.reads[_TIMEOUT] = say("axolotl's time-out of process groups with DeepSpeed, in seconds")
    training.deepspeed_stage(launch)
    given = launch.variable(_TIMEOUT)
    if given is not None and launch.flag("deepspeed") is not None:
        launch.timeouts.append(Timeout(_TIMEOUT, seconds(given), "process groups", given))
    else:
        training.ddp_timeout(launch)


def _start(
    launch: Launch, flags: dict[str, Value], behind: Sequence[Value], origins: dict[str, str]
) -> None:
    """Who starts the ranks."""
    given = {**flags, **parse_flags(behind, switches=_SWITCHES)[0]}
    launcher = launch.flag("launcher")
    name = launcher.text if launcher is not None else "accelerate"
    if "no_accelerate" in flags:
        name = "python"
    if truth(launch.flag("use_ray")):
        launch.launchers.append("ray")
    elif name == "accelerate":
        chosen = {k: launch.flags[k] for k in accelerate.PROCESSES if k in launch.flags}
        chosen.update({k: v for k, v in given.items() if k in accelerate.PROCESSES})
        accelerate.apply(launch, chosen, origins)
    elif name == "torchrun":
        if "rdzv_endpoint" in given:
            given.setdefault("rdzv_backend", default("c10d"))
            if "rdzv_id" not in given:
                launch.settings["rdzv_id"] = default("random")
        torchrun.apply(launch, given, origins, "torchrun")
    elif name == "python":
        launch.processes = launch.per_node = 1


def _serve(launch: Launch, origins: dict[str, str]) -> None:
    """TRL's rollout server with the file's ``vllm`` keys."""
    launch.role = "rollout"
    launch.engine = "vllm"
    launch.server = True

    def setting(name: str, otherwise: str | int) -> Value:
        return launch.flag(name, f"vllm.{name}") or default(otherwise)

    port = setting("port", 8000)
    host = setting("host", "0.0.0.0")  # noqa: S104 - TRL's default
    launch.ports.append(Port("http", port, host=host, picked=picked(port, origins)))
    tensor, data = setting("tensor_parallel_size", 1), setting("data_parallel_size", 1)
    launch.settings["tensor parallel size"], launch.settings["data parallel size"] = tensor, data
    both = number(tensor), number(data)
    launch.parallel = Parallel(tensor=both[0], data=both[1])
    if both[0] is not None and both[1] is not None:
        launch.processes = launch.per_node = both[0] * both[1]
    launch.nodes = 1
    training.nccl_default(launch)
