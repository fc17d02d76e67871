"""A plain Python program: a training script, or one that is none of our business."""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Value
from unstall.model.text import say
from unstall.programs import training
from unstall.programs.base import Launch, parse_flags
from unstall.programs.trl import launch as trl

NAME = "python"
_HELPERS = (
    "-c",
    "pip",
    "setup.py",
    "venv",
    "http.server",
    "ensurepip",
    "json.tool",
    "site",
)
_NOT = (
    "download",
    "convert",
    "preprocess",
    "merge",
    "plot",
    "install",
    "check_",
    "collect_env",
    "test_",
)


def claims(words: Sequence[Value]) -> bool:
    """Whether the command runs a Python script or module."""
    name = words[0].text.rsplit("/", 1)[-1]
    return name.startswith("python") and len(words) > 1


def worth_a_place(launch: Launch) -> bool:
    """Whether a plain script is a program of the job: launched in parallel, or given devices."""
    script = launch.script or ""
    if launch.launchers and not (
        script in _HELPERS and set(launch.launchers) <= {"srun", "mpirun", "ray job"}
    ):
        return True
    if script in _HELPERS or not script:
        return False
    if any(mark in script.rsplit("/", 1)[-1] for mark in _NOT):
        return False
    given = (
        "CUDA_VISIBLE_DEVICES",
        "MASTER_PORT",
        "MASTER_ADDR",
        "RANK",
        "WORLD_SIZE",
        "NCCL_DEBUG",
    )
    if any(n in launch.environment or n in launch.not_exported for n in given):
        return True
    if "Config(" in launch.comment:
        return True
    name = script.rsplit("/", 1)[-1]
    return any(
        m in name for m in ("train", "finetune", "sft", "grpo", "ppo", "dpo", "rlhf", "serve")
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags; the script itself is not read."""
    words = list(launch.words[1:])
    while words and words[0].text in ("-u", "-B", "-O", "-I", "-s", "-E"):
        words.pop(0)
    if words and words[0].text == "-m":
        launch.script = words[1].text if len(words) > 1 else ""
        words = words[2:]
    elif words:
        launch.script = words[0].text
        words = words[1:]
    flags, _ = parse_flags(words)
    launch.flags.update({k: v for k, v in flags.items() if k not in launch.flags})
    launch.software = launch.launchers[-1] if launch.launchers else NAME
    launch.role = "trainer"
    base = (launch.script or "").rsplit("/", 1)[-1]
    launch.label = base
    if "serv" in base and not launch.launchers:
        launch.role = "inference"
        launch.server = True
    if trl.from_comment(launch) or (
        launch.flag("use_vllm") is not None
        and (launch.flag("num_generations") or launch.flag("vllm_mode"))
    ):
        trl.config_trainer(launch, origins)
    elif launch.flag("ddp_timeout") is not None:
        training.ddp_timeout(launch)
        training.deepspeed_stage(launch)
    else:
        training.nccl_default(launch)
        training.deepspeed_stage(launch)
    if not launch.launchers and not {"RANK", "WORLD_SIZE"} <= launch.environment.keys():
        # with a rank and a world size it is one of several that meet there: init_process_group's
        # default method, env:// (torch, distributed/rendezvous.py), reads all four
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            launch.ignores[name] = say(
                "the program is started as plain Python: {name} counts only if its own code hands "
                "it to init_process_group, and code that starts its ranks itself often sets a port "
                "of its own (29500 in many libraries)",
                name=name,
            )
    if not launch.launchers:
        launch.reads["CUDA_VISIBLE_DEVICES"] = say(
            "the CUDA runtime shows the process only these devices"
        )
