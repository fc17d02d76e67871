"""Stacks of SGLang's processes.

Sources: sglang 0.5, ``srt/managers/scheduler.py``, ``srt/utils``; process titles are set
with setproctitle: ``sglang::scheduler_DP0_TP1``, ``sglang::detokenizer``.
"""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "request-broadcast",
        ("recv_requests",),
        "",
        ("collective", "point-to-point", "queue", "computing", "unknown"),
        say(
            "the scheduler waits for the requests of its next step, which its first rank hands "
            "to the others"
        ),
        "sglang 0.5, srt/managers/scheduler.py (recv_requests, broadcast_pyobj)",
    ),
    Circumstance(
        "data-parallel-sync",
        (
            "prepare_mlp_sync_batch_raw",
            "prepare_mlp_sync_batch",
            "maybe_prepare_mlp_sync_batch",
            "prepare_dp_attn_batch_raw",
            "prepare_dp_attn_batch",
        ),
        "",
        ("collective",),
        say(
            "the engine is in a step and waits in the all-reduce that every data-parallel engine "
            "makes once in each step"
        ),
        "sglang 0.5, srt/managers/scheduler_dp_attn_mixin.py; the last two names are of 0.4",
    ),
    Circumstance(
        "pipeline-exchange",
        ("_pp_recv_proxy_tensors", "_pp_recv_pyobj_from_prev_stage", "_pp_send_dict_to_next_stage"),
        "",
        ("point-to-point", "collective"),
        say("the stage waits for the pipeline stage before or after it"),
        "sglang 0.5, srt/managers/scheduler_pp_mixin.py",
    ),
    Circumstance(
        "result-of-step",
        ("process_batch_result",),
        "",
        ("gpu", "lock"),
        say("the scheduler waits for the GPU to finish a step"),
        "sglang 0.5, srt/managers/scheduler_output_processor_mixin.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "sglang",
        "inference",
        "engine",
        "sglang 0.5, srt/managers/scheduler.py (run_scheduler_process)",
        functions=("run_scheduler_process",),
        weight=40,
    ),
    RoleSign(
        "sglang",
        "inference",
        "engine",
        "sglang, process title",
        command=("sglang::scheduler",),
        weight=39,
    ),
    RoleSign(
        "sglang",
        "inference",
        "front end",
        "sglang, srt/managers/detokenizer_manager.py and data_parallel_controller.py",
        functions=("run_detokenizer_process", "run_data_parallel_controller_process"),
        weight=38,
    ),
    RoleSign(
        "sglang",
        "inference",
        "front end",
        "sglang, process title",
        command=("sglang::detokenizer", "sglang::data_parallel_controller"),
        weight=37,
    ),
    RoleSign(
        "sglang",
        "inference",
        "http server",
        "sglang, srt/entrypoints/http_server.py (launch_server)",
        functions=("launch_server",),
        file="sglang/srt/entrypoints/http_server.py",
        weight=20,
    ),
    RoleSign(
        "sglang",
        "inference",
        "http server",
        "sglang, command line",
        command=("sglang.launch_server", "sglang::http_server", "sglang serve"),
        weight=19,
    ),
)
