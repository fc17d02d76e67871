"""Stacks of Ray's processes (ray 2, ``_private``)."""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "actor-idle",
        ("Worker.main_loop",),
        "ray/_private/worker.py",
        ("queue",),
        say("the actor is idle: it has no task"),
        "ray 2, _private/worker.py (main_loop)",
    ),
    Circumstance(
        "awaits-actors",
        ("get", "wait"),
        "ray/_private/worker.py",
        ("queue",),
        say("the driver waits for its workers"),
        "ray 2, _private/worker.py (get)",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "ray",
        "launcher",
        "coordinator",
        "ray 2, process titles of its own services",
        command=("ray::IDLE", "raylet", "gcs_server", "ray/dashboard"),
        weight=15,
    ),
    RoleSign(
        "ray",
        "trainer",
        "worker",
        "ray 2, workers/default_worker.py; title ray::<class>.<method>",
        command=("ray::",),
        weight=3,
    ),
)
