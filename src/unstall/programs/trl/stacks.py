"""Stacks of TRL's processes.

Sources: trl 0.24: ``scripts/vllm_serve.py``, ``extras/vllm_client.py``.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "worker-idle",
        ("llm_worker",),
        "trl/scripts/vllm_serve.py",
        ("pipe",),
        say("the front end is idle: it has returned its answer and waits for the next command"),
        "trl 0.24, scripts/vllm_serve.py (llm_worker: connection.recv)",
    ),
    Circumstance(
        "awaits-front-ends",
        ("generate",),
        "trl/scripts/vllm_serve.py",
        ("pipe",),
        say("the HTTP server waits for the answers of its data-parallel front ends"),
        "trl 0.24, scripts/vllm_serve.py (generate)",
    ),
    Circumstance(
        "awaits-rollout",
        ("VLLMClient.generate",),
        "vllm_client.py",
        ("http", "lock"),
        say("the trainer waits for the rollout server's answer"),
        "trl 0.24, extras/vllm_client.py (generate)",
        waits_for="http",
    ),
    Circumstance(
        "weight-sync",
        (
            "VLLMClient.update_named_param",
            "VLLMClient.init_communicator",
            "VLLMClient.reset_prefix_cache",
        ),
        "trl/extras/vllm_client.py",
        ("http", "lock", "collective", "gpu", "store"),
        say("the trainer is sending its weights to the rollout server"),
        "trl 0.24, extras/vllm_client.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "trl",
        "rollout",
        "front end",
        "trl 0.24, scripts/vllm_serve.py (llm_worker)",
        functions=("llm_worker",),
        file="trl/scripts/vllm_serve.py",
        weight=30,
    ),
    RoleSign(
        "trl",
        "rollout",
        "http server",
        "trl 0.24, command line",
        command=("trl vllm-serve", "trl/scripts/vllm_serve.py"),
        weight=20,
    ),
    RoleSign(
        "trl",
        "trainer",
        "trainer",
        "trl, trainer/*_trainer.py",
        functions=("GRPOTrainer._generate_and_score_completions", "GRPOTrainer.compute_loss"),
        weight=16,
    ),
)
