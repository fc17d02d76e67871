"""Stacks of DeepSpeed (0.18, ``runtime/zero`` and ``runtime/engine.py``)."""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "parameter-gather",
        (
            "fetch_sub_module",
            "AllGatherHandle.wait",
            "AllGatherCoalescedHandle.wait",
            "GatheredParameters.__enter__",
        ),
        "",
        ("collective", "gpu"),
        say("the rank gathers a layer's sharded parameters"),
        "DeepSpeed 0.18, runtime/zero/partitioned_param_coordinator.py and partition_parameters.py",
    ),
    Circumstance(
        "gradient-reduction",
        (
            "average_tensor",
            "__reduce_and_partition_ipg_grads",
            "allreduce_gradients",
        ),
        "",
        ("collective", "gpu"),
        say("the rank reduces gradients"),
        "DeepSpeed 0.18, runtime/zero/stage_1_and_2.py and stage3.py",
    ),
    Circumstance(
        "checkpoint",
        ("DeepSpeedEngine.save_checkpoint",),
        "deepspeed/runtime/engine.py",
        ("collective", "disk", "lock", "store"),
        say("the rank is saving a checkpoint"),
        "DeepSpeed 0.18, runtime/engine.py (save_checkpoint)",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "deepspeed",
        "trainer",
        "launcher",
        "DeepSpeed, launcher/launch.py and runner.py",
        command=("deepspeed.launcher.launch", "deepspeed/launcher/launch.py"),
        weight=18,
    ),
    RoleSign(
        "deepspeed",
        "trainer",
        "trainer",
        "DeepSpeed, runtime/engine.py",
        functions=("DeepSpeedEngine.forward", "DeepSpeedEngine.backward", "DeepSpeedEngine.step"),
        weight=12,
    ),
)
