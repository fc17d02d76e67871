"""Stacks of vLLM's processes.

Sources: vLLM 0.11, files as named in each row; 0.11.0 run with two data-parallel engines.
Process titles: ``vllm/utils`` (``set_process_title``, prefix ``VLLM::``), 0.9 and later.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, FrameSign, RoleSign

_CORE = "vllm/v1/engine/core.py"
_CLIENT = "vllm/v1/engine/core_client.py"
_SHM = "vllm/distributed/device_communicators/shm_broadcast.py"

SIGNS: tuple[FrameSign, ...] = (
    FrameSign(
        (
            "MessageQueue.acquire_read",
            "MessageQueue.dequeue",
            "MessageQueue.acquire_write",
            "MessageQueue.enqueue",
        ),
        _SHM,
        "queue",
        source="vLLM 0.11, shm_broadcast.py: waits for a block of the broadcast ring",
    ),
)

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "data-parallel-sync",
        (
            "num_tokens_across_dp",
            "coordinate_batch_across_dp",
            "_synchronize_dp_ranks",
            "_run_ar",
            "get_dp_padding_ubatch",
        ),
        "",
        ("collective", "gpu"),
        say(
            "the engine is in a step and waits in the all-reduce that every data-parallel engine "
            "makes once in each step"
        ),
        "vLLM 0.11, forward_context.py (num_tokens_across_dp); later v1/worker/dp_utils.py "
        "(coordinate_batch_across_dp)",
    ),
    Circumstance(
        "data-parallel-vote",
        ("_has_global_unfinished_reqs", "has_unfinished_dp"),
        "",
        ("collective",),
        say(
            "the engine waits for the vote on whether any data-parallel engine still has "
            "requests, held every 32 steps"
        ),
        "vLLM 0.11, v1/engine/core.py (_has_global_unfinished_reqs)",
    ),
    Circumstance(
        "dummy-step",
        ("execute_dummy_batch",),
        "",
        ("collective", "gpu", "queue"),
        say("the engine has no requests and steps along so that the others' all-reduce completes"),
        "vLLM 0.11, v1/engine/core.py (DPEngineCoreProc.run_busy_loop)",
    ),
    Circumstance(
        "engine-idle",
        ("EngineCoreProc._process_input_queue",),
        _CORE,
        ("queue",),
        say("the engine is idle: it waits for a request and is in no step"),
        "vLLM 0.11, v1/engine/core.py (_process_input_queue)",
    ),
    Circumstance(
        "awaits-engine",
        (
            "SyncMPClient.get_output",
            "AsyncMPClient.get_output_async",
            "SyncMPClient.call_utility",
        ),
        _CLIENT,
        ("queue", "lock"),
        say("the front end waits for its engine's output"),
        "vLLM 0.11, v1/engine/core_client.py",
        waits_for="queue",
    ),
    Circumstance(
        "worker-idle",
        ("WorkerProc.worker_busy_loop",),
        "vllm/v1/executor/multiproc_executor.py",
        ("queue",),
        say("the worker is idle: it waits for the engine's next instruction"),
        "vLLM 0.11, v1/executor/multiproc_executor.py (worker_busy_loop)",
    ),
    Circumstance(
        "awaits-workers",
        (
            "MultiprocExecutor.collective_rpc",
            "MultiprocExecutor.execute_model",
            "FutureWrapper.result",
        ),
        "vllm/v1/executor/multiproc_executor.py",
        ("queue", "lock"),
        say("the engine waits for its workers' answers"),
        "vLLM 0.11, v1/executor/multiproc_executor.py (collective_rpc)",
    ),
    Circumstance(
        "parallel-group",
        ("GroupCoordinator.all_reduce", "GroupCoordinator.all_gather"),
        "vllm/distributed/parallel_state.py",
        ("collective", "gpu"),
        say("the worker waits in a collective of one of its parallel groups"),
        "vLLM 0.11, distributed/parallel_state.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "vllm",
        "inference",
        "engine",
        "vLLM 0.11, v1/engine/core.py (run_engine_core); title VLLM::EngineCore_DP1",
        functions=("EngineCoreProc.run_engine_core",),
        file=_CORE,
        weight=40,
    ),
    RoleSign(
        "vllm",
        "inference",
        "engine",
        "vLLM, process title",
        command=("VLLM::EngineCore", "EngineCore_"),
        weight=39,
    ),
    RoleSign(
        "vllm",
        "inference",
        "worker",
        "vLLM 0.11, v1/executor/multiproc_executor.py (worker_main); title VLLM::Worker_TP0",
        functions=("WorkerProc.worker_main", "WorkerProc.worker_busy_loop", "_run_worker_process"),
        weight=38,
    ),
    RoleSign(
        "vllm",
        "inference",
        "worker",
        "vLLM, process title",
        command=("VLLM::Worker", "VLLM::Worker_"),
        weight=37,
    ),
    RoleSign(
        "vllm",
        "inference",
        "coordinator",
        "vLLM 0.11, v1/engine/coordinator.py (DPCoordinatorProc.run_coordinator)",
        functions=("DPCoordinatorProc.run_coordinator", "CoordinatorProc.run_coordinator"),
        file="vllm/v1/engine/coordinator.py",
        weight=36,
    ),
    RoleSign(
        "vllm",
        "inference",
        "coordinator",
        "vLLM 0.11, v1/engine/coordinator.py: process name",
        command=("VLLM::DPCoordinator", "VLLM::DP_Coordinator", "VLLM_DP_Coordinator"),
        weight=36,
    ),
    RoleSign(
        "vllm",
        "inference",
        "http server",
        "vLLM, entrypoints/openai/api_server.py; title VLLM::APIServer",
        functions=("run_server", "run_server_worker"),
        file="vllm/entrypoints/openai/api_server.py",
        weight=20,
    ),
    RoleSign(
        "vllm",
        "inference",
        "http server",
        "vLLM, command line and process title",
        command=("VLLM::APIServer", "vllm serve", "vllm.entrypoints."),
        weight=19,
    ),
    RoleSign(
        "vllm",
        "inference",
        "front end",
        "vLLM 0.11, v1/engine/core_client.py: its threads live in every front end",
        thread="MPClientEngineMonitor",
        weight=12,
    ),
    RoleSign(
        "vllm",
        "inference",
        "front end",
        "vLLM 0.11, v1/engine/core_client.py",
        functions=("SyncMPClient.get_output", "LLMEngine.step"),
        weight=11,
    ),
)
