"""Settings that every trainer built on transformers' ``TrainingArguments`` has.

Source: transformers 4.57 ``training_args.py`` (``ddp_timeout`` 1800 s, passed to
``init_process_group``; ``deepspeed`` takes a JSON file; ``per_device_train_batch_size`` 8).
"""

from __future__ import annotations

from unstall.model.plan import Timeout
from unstall.programs.base import (
    NCCL_DEFAULT_MS,
    OTHER_DEFAULT_MS,
    Launch,
    default,
    number,
    seconds,
)

TRAINING_SECONDS = 1800


def ddp_timeout(launch: Launch, otherwise: int = TRAINING_SECONDS) -> None:
    """``--ddp_timeout`` or the framework's default, in seconds, for the process groups."""
    value = launch.flag("ddp_timeout") or default(otherwise)
    launch.timeouts.append(Timeout("ddp_timeout", seconds(value), "process groups", value))


def nccl_default(launch: Launch) -> None:
    """Nothing sets a time-out: PyTorch's default for NCCL counts (30 minutes before 2.2)."""
    torch = launch.version("torch")
    old = torch is not None and torch < (2, 2)
    amount = OTHER_DEFAULT_MS if old else NCCL_DEFAULT_MS
    launch.timeouts.append(
        Timeout("NCCL default", amount, "process groups", default(f"{amount // 1000} s"))
    )


def deepspeed_stage(launch: Launch) -> None:
    """ZeRO stage, as the shortcut of ms-swift (``zero3``) or from a JSON file's name or content."""
    value = launch.flag("deepspeed")
    if value is None:
        return
    name = value.text.rsplit("/", 1)[-1].lower()
    for mark in ("zero", "z", "stage"):
        at = name.find(mark)
        tail = name[at + len(mark) :].lstrip("_-") if at >= 0 else ""
        if tail[:1].isdigit():
            launch.settings["ZeRO stage"] = type(value)(
                tail[0], place=value.place, known=value.known, token=value.token
            )
            return
    launch.settings["ZeRO stage"] = type(value)(
        value.text, place=value.place, known=False, token=f"stage of {value.text}"
    )


def batches(launch: Launch, generations: int | None = None) -> None:
    """Sizes that a group of generations must divide; ``generations`` is the default."""
    for name, fallback in (("per_device_train_batch_size", 8), ("gradient_accumulation_steps", 1)):
        launch.settings[name] = launch.flag(name) or default(fallback)
    if generations is not None:
        launch.settings["num_generations"] = launch.flag("num_generations") or default(generations)
        for name in ("generation_batch_size", "steps_per_generation"):
            value = launch.flag(name)
            if value is not None:
                launch.settings[name] = value


def world(launch: Launch) -> int | None:
    """Number of processes, where it is known."""
    return (
        launch.processes
        if launch.processes is not None
        else number(launch.settings.get("processes"))
    )
