"""Megatron-LM's ``pretrain_*.py`` under torchrun or srun.

Source: Megatron-LM core 0.13 ``training/arguments.py`` (world size must be a multiple of tensor ×
pipeline × context parallel size; ``--distributed-timeout-minutes`` 10), ``training/initialize.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Parallel, Timeout, Value
from unstall.programs.base import Launch, default, parse_flags, seconds

NAME = "megatron"
_MARKS = (
    "pretrain_gpt",
    "pretrain_bert",
    "pretrain_t5",
    "pretrain_vlm",
    "pretrain_mamba",
    "finetune_gpt",
)


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is a Megatron script, by its name or by its flags."""
    texts = [w.text for w in words]
    if not texts[0].rsplit("/", 1)[-1].startswith("python"):
        return False
    if any(m in t for t in texts[1:4] for m in _MARKS):
        return True
    return any(t.split("=", 1)[0] == "--tensor-model-parallel-size" for t in texts)


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags and sizes."""
    del origins
    flags, _ = parse_flags(launch.words[1:], many=True)
    launch.flags.update({k: v for k, v in flags.items() if k not in launch.flags})
    launch.software = NAME
    launch.role = "trainer"
    tensor = launch.number("tensor_model_parallel_size", default=1)
    pipeline = launch.number("pipeline_model_parallel_size", default=1)
    context = launch.number("context_parallel_size", default=1)
    size = (tensor or 1) * (pipeline or 1) * (context or 1)
    data = launch.processes // size if launch.processes is not None and size else None
    launch.parallel = Parallel(
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=launch.number("expert_model_parallel_size", default=1),
        data=data,
    )
    for label, key in (
        ("tensor parallel size", "tensor_model_parallel_size"),
        ("pipeline parallel size", "pipeline_model_parallel_size"),
    ):
        launch.settings[label] = launch.flag(key) or default(1)
    for label, key in (
        ("global batch size", "global_batch_size"),
        ("micro batch size", "micro_batch_size"),
    ):
        value = launch.flag(key)
        if value is not None:
            launch.settings[label] = value
    timeout = launch.flag("distributed_timeout_minutes") or default(10)
    launch.timeouts.append(
        Timeout("distributed_timeout_minutes", seconds(timeout, 60_000), "process groups", timeout)
    )
