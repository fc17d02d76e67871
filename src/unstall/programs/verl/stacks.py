"""Stacks of verl's processes.

Sources: verl before 0.9: ``trainer/ppo/ray_trainer.py``, ``single_controller/ray/base.py``,
``workers/reward_manager``; actors are titled ``ray::WorkerDict.<method>`` by Ray.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "reward",
        (
            "compute_reward",
            "compute_reward_async",
            "NaiveRewardManager.__call__",
            "PrimeRewardManager.__call__",
            "DAPORewardManager.__call__",
            "BatchRewardManager.__call__",
            "run_reward_scoring",
        ),
        "",
        ("http", "lock", "process", "queue", "sleep", "pipe", "computing", "unknown"),
        say("the driver is computing rewards; the GPUs have nothing to do meanwhile"),
        "verl before 0.9, workers/reward_manager and trainer/ppo/reward.py",
    ),
    Circumstance(
        "awaits-actors",
        ("func", "Functor.__call__"),
        "verl/single_controller/ray/base.py",
        ("queue",),
        say("the driver waits for its workers"),
        "verl before 0.9, single_controller/ray/base.py",
    ),
    Circumstance(
        "awaits-actors",
        ("RayPPOTrainer.fit",),
        "verl/trainer/ppo/ray_trainer.py",
        ("queue",),
        say("the driver waits for its workers"),
        "verl before 0.9, trainer/ppo/ray_trainer.py (fit)",
    ),
    Circumstance(
        "weight-sync",
        (
            "FSDPVLLMShardingManager.__enter__",
            "MegatronVLLMShardingManager.__enter__",
            "FSDPSGLangShardingManager.__enter__",
            "ActorRolloutRefWorker.rollout_mode",
        ),
        "",
        ("collective", "gpu", "lock", "point-to-point"),
        say("the worker is handing the trained weights to the rollout engine"),
        "verl before 0.9, workers/sharding_manager and workers/fsdp_workers.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "verl",
        "trainer",
        "driver",
        "verl before 0.9, trainer/main_ppo.py (TaskRunner.run)",
        functions=("RayPPOTrainer.fit",),
        weight=31,
    ),
    RoleSign(
        "verl",
        "trainer",
        "driver",
        "verl, Ray's process title",
        command=(
            "ray::TaskRunner",
            "ray::main_task",
            "ray::FullyAsyncTrainer",
            "ray::FullyAsyncRollouter",
            "verl.trainer.main_ppo",
        ),
        weight=30,
    ),
    RoleSign(
        "verl",
        "trainer",
        "worker",
        "verl, Ray's process title",
        command=(
            "ray::WorkerDict",
            "ray::ActorRolloutRefWorker",
            "ray::AsyncActorRolloutRefWorker",
            "ray::CriticWorker",
            "ray::AgentLoopWorker",
        ),
        weight=30,
    ),
    RoleSign(
        "verl",
        "trainer",
        "worker",
        "verl before 0.9, workers/fsdp_workers.py and megatron_workers.py",
        functions=(
            "update_actor",
            "compute_log_prob",
            "generate_sequences",
            "compute_ref_log_prob",
        ),
        file="verl/workers/fsdp_workers.py",
        weight=29,
    ),
    RoleSign(
        "verl",
        "trainer",
        "worker",
        "verl 0.9, workers/engine_workers.py",
        functions=("update_actor", "compute_log_prob", "compute_ref_log_prob"),
        file="verl/workers/engine_workers.py",
        weight=29,
    ),
    RoleSign(
        "verl",
        "rollout",
        "http server",
        "verl 0.5 and later, Ray's process title",
        command=("ray::vLLMHttpServer", "ray::SGLangHttpServer", "ray::AsyncvLLMServer"),
        weight=30,
    ),
)
