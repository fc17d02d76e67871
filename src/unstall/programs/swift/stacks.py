"""Stacks of ms-swift's processes.

Sources: ms-swift 3.10: ``llm/infer/rollout.py`` (4: ``pipelines/infer/rollout.py``), the
trainers' ``vllm_client.py``; 3.10.3 run with a rollout server of two engines.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "worker-idle",
        ("llm_worker", "async_llm_worker"),
        "infer/rollout.py",
        ("pipe",),
        say("the front end is idle: it has returned its answer and waits for the next command"),
        "ms-swift 3.10, infer/rollout.py (llm_worker: connection.recv)",
    ),
    Circumstance(
        "awaits-front-ends",
        ("SwiftRolloutDeploy.infer",),
        "infer/rollout.py",
        ("pipe",),
        say("the HTTP server waits for the answers of its data-parallel front ends"),
        "ms-swift 3.10, infer/rollout.py (SwiftRolloutDeploy.infer)",
    ),
    Circumstance(
        "awaits-rollout",
        ("VLLMClient.infer",),
        "vllm_client.py",
        ("http", "lock"),
        say("the trainer waits for the rollout server's answer"),
        "ms-swift 3.10, rlhf_trainer/vllm_client.py (infer)",
        waits_for="http",
    ),
    Circumstance(
        "weight-sync",
        (
            "VLLMClient.update_named_param",
            "VLLMClient.update_flattened_params",
            "VLLMClient.init_communicator",
            "VLLMClient.reset_prefix_cache",
        ),
        "vllm_client.py",
        ("http", "lock", "collective", "gpu", "store"),
        say("the trainer is sending its weights to the rollout server"),
        "ms-swift 3.10, rlhf_trainer/vllm_client.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "ms-swift",
        "rollout",
        "front end",
        "ms-swift 3.10, infer/rollout.py (llm_worker)",
        functions=("llm_worker", "async_llm_worker"),
        file="infer/rollout.py",
        weight=30,
    ),
    RoleSign(
        "ms-swift",
        "rollout",
        "http server",
        "ms-swift 3.10, infer/rollout.py (rollout_main)",
        functions=("rollout_main", "SwiftRolloutDeploy.run"),
        file="infer/rollout.py",
        weight=29,
    ),
    RoleSign(
        "ms-swift",
        "rollout",
        "launcher",
        "ms-swift 3.10, cli/main.py: runs the real command as a child",
        functions=("cli_main",),
        file="swift/cli/main.py",
        command=("swift rollout",),
        weight=28,
    ),
    RoleSign(
        "ms-swift",
        "rollout",
        "http server",
        "ms-swift, command line",
        command=("swift/cli/rollout.py",),
        weight=27,
    ),
    RoleSign(
        "ms-swift",
        "trainer",
        "launcher",
        "ms-swift 3.10, cli/main.py: runs the real command as a child",
        functions=("cli_main",),
        file="swift/cli/main.py",
        weight=26,
    ),
    RoleSign(
        "ms-swift",
        "trainer",
        "trainer",
        "ms-swift, command line",
        command=("swift/cli/rlhf.py", "swift/cli/sft.py", "swift/cli/pt.py"),
        weight=25,
    ),
    RoleSign(
        "ms-swift",
        "trainer",
        "trainer",
        "ms-swift 3.10, cli/rlhf.py and cli/sft.py",
        functions=("rlhf_main", "sft_main", "pt_main"),
        weight=25,
    ),
)
