"""Stacks of Megatron (Megatron Core 0.16, ``pipeline_parallel`` and ``training``)."""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, FrameSign, RoleSign

_P2P = "megatron/core/pipeline_parallel/p2p_communication.py"

SIGNS: tuple[FrameSign, ...] = (
    FrameSign(
        ("_communicate", "_p2p_ops", "_batched_p2p_ops", "P2PCommunicator._communicate"),
        _P2P,
        "point-to-point",
        source="Megatron Core 0.16, p2p_communication.py",
    ),
)

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "pipeline-exchange",
        (
            "_communicate",
            "recv_forward",
            "recv_backward",
            "send_forward_recv_backward",
            "send_backward_recv_forward",
            "send_forward",
            "send_backward",
        ),
        _P2P,
        ("point-to-point", "collective", "gpu"),
        say("the stage waits for the pipeline stage before or after it"),
        "Megatron Core 0.16, pipeline_parallel/p2p_communication.py",
    ),
    Circumstance(
        "checkpoint",
        ("save_checkpoint", "save_checkpoint_and_time"),
        "",
        ("collective", "disk", "queue", "process", "lock", "store"),
        say("the rank is saving a checkpoint"),
        "Megatron-LM, megatron/training/checkpointing.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "megatron",
        "trainer",
        "trainer",
        "Megatron-LM, megatron/training/training.py (pretrain)",
        functions=("pretrain", "train_step"),
        file="megatron/training/training.py",
        weight=17,
    ),
)
