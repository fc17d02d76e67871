"""Stacks of OpenRLHF's processes (``trainer/ray``)."""

from __future__ import annotations

from unstall.stacks.rows import RoleSign

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "openrlhf",
        "trainer",
        "driver",
        "OpenRLHF, command line",
        command=("openrlhf.cli.train_ppo_ray",),
        weight=30,
    ),
    RoleSign(
        "openrlhf",
        "trainer",
        "worker",
        "OpenRLHF, Ray's process title",
        command=("ray::ActorModelRayActor", "ray::PolicyModelActor", "ray::CriticModelRayActor"),
        weight=30,
    ),
    RoleSign(
        "openrlhf",
        "rollout",
        "engine",
        "OpenRLHF, Ray's process title",
        command=("ray::LLMRayActor", "ray::RolloutRayActor"),
        weight=30,
    ),
)
