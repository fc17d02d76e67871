"""LLaMA-Factory: ``llamafactory-cli train FILE`` and ``src/train.py``.

Source: LLaMA-Factory 0.9 ``src/llamafactory/launcher.py`` and ``cli.py``: ``train`` starts torchrun
where FORCE_TORCHRUN is set or more than one device is visible, with NNODES, NODE_RANK,
NPROC_PER_NODE (all visible devices), MASTER_ADDR and MASTER_PORT (a free port) from the
environment; it overwrites PYTORCH_CUDA_ALLOC_CONF unless OPTIM_TORCH=0. ``ddp_timeout`` is
transformers' 1800 s unless the file sets it (its examples set 180000000).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Value
from unstall.model.text import say
from unstall.programs import torchrun, training
from unstall.programs.base import Launch, default, overrides, parse_flags, truth

NAME = "llama-factory"
_VARIABLES = ("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT")


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is LLaMA-Factory's."""
    texts = [w.text for w in words[:6]]
    name = texts[0].rsplit("/", 1)[-1]
    if name in ("llamafactory-cli", "lmf"):
        return True
    return (
        name.startswith("python")
        and any(
            t.startswith("llamafactory.")
            or t.endswith(("src/train_bash.py", "llamafactory/launcher.py"))
            for t in texts
        )
    ) or ("--finetuning_type" in {w.text for w in words} and name.startswith("python"))


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, the file's keys, processes and ports."""
    texts = [w.text for w in launch.words]
    command = (
        texts[1]
        if texts[0].rsplit("/", 1)[-1] in ("llamafactory-cli", "lmf") and len(texts) > 1
        else "train"
    )
    flags, rest = parse_flags(launch.words[1:])
    keys, _ = overrides(rest)
    launch.take_config()
    launch.flags.update(flags)
    launch.flags.update(keys)
    launch.software = NAME
    launch.label = f"llamafactory {command}"
    if command in ("api", "chat", "webchat", "webui", "webui"):
        launch.role = "inference"
        launch.server = True
        launch.distributed = False
        return
    launch.role = "trainer"
    forced = truth(launch.variable("FORCE_TORCHRUN"))
    many = launch.visible is None or launch.visible > 1
    if not launch.launchers and command == "train" and (forced or many):
        found: dict[str, Value] = {}
        for name in _VARIABLES:
            given = launch.variable(name)
            if given is not None:
                found[name.lower()] = given
            launch.reads[name] = say(
                "`{command}` passes it to torchrun as --{flag}",
                command="llamafactory-cli train",
                flag=name.lower(),
            )
        if "nproc_per_node" not in found:
            found["nproc_per_node"] = (
                default(launch.visible) if launch.visible is not None else default("gpu")
            )
        if "master_port" not in found:
            found["master_port"] = default(0)
        torchrun.apply(launch, found, origins, "torchrun")
        for name in found:
            launch.flags.pop(name, None)
    elif not launch.launchers:
        launch.processes = launch.per_node = 1
    training.ddp_timeout(launch)
    training.deepspeed_stage(launch)
    training.batches(launch)
