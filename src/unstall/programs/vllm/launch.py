"""``vllm serve`` and its older entry points.

Sources: vLLM 0.11 ``engine/arg_utils.py`` (flags and short forms), ``config/parallel.py``
(``data_parallel_master_port``: an open port asked for at start unless ``VLLM_DP_SIZE`` is used;
``data_parallel_rpc_port`` 29550), ``entrypoints/openai/cli_args.py`` (port 8000), ``envs.py``
(VLLM_PORT is the first internal port, not the HTTP port), ``utils/get_open_port``. No time-out is
given to ``init_process_group``: NCCL's default holds. MASTER_ADDR and MASTER_PORT are not read by
the multiprocessing executor, which makes its own init method.
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Parallel, Port, Timeout, Value
from unstall.model.text import say
from unstall.programs.base import (
    NCCL_DEFAULT_MS,
    Launch,
    default,
    parse_flags,
    picked,
    seconds,
)

NAME = "vllm"
_SHORT = {
    "-tp": "tensor_parallel_size",
    "-dp": "data_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dpl": "data_parallel_size_local",
    "-dpa": "data_parallel_address",
    "-dpp": "data_parallel_rpc_port",
    "-dpr": "data_parallel_start_rank",
    "-dpb": "data_parallel_backend",
    "-dcp": "decode_context_parallel_size",
    "-n": "nnodes",
    "-r": "node_rank",
    "-q": "quantization",
    "-asc": "api_server_count",
    "-O": "compilation_config",
    "-dpn": "data_parallel_rank",
}
_SWITCHES = frozenset(
    [
        "enforce_eager",
        "trust_remote_code",
        "enable_expert_parallel",
        "disable_custom_all_reduce",
        "headless",
        "enable_prefix_caching",
        "no_enable_prefix_caching",
        "enable_chunked_prefill",
        "disable_log_requests",
        "disable_log_stats",
        "enable_lora",
        "enable_auto_tool_choice",
        "enable_reasoning",
        "enable_sleep_mode",
        "data_parallel_hybrid_lb",
        "data_parallel_external_lb",
        "async_scheduling",
        "enable_log_requests",
        "disable_frontend_multiprocessing",
        "skip_mm_profiling",
    ]
)
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")


def claims(words: Sequence[Value]) -> bool:
    """Whether the command starts a vLLM server."""
    texts = [w.text for w in words[:8]]
    name = texts[0].rsplit("/", 1)[-1]
    if name == "vllm":
        return "serve" in texts[1:2]
    return name.startswith("python") and any(t in _MODULES for t in texts)


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, ports and sizes."""
    texts = [w.text for w in launch.words]
    start = next((n + 1 for n, t in enumerate(texts) if t in _MODULES), 2)
    flags, operands = parse_flags(launch.words[start:], short=_SHORT, switches=_SWITCHES)
    if operands and "model" not in flags and start == 2:
        flags["model"] = operands[0]
    launch.flags.update(flags)
    launch.take_config()
    launch.software = NAME
    launch.engine = NAME
    launch.role = "inference"
    launch.server = True
    serve(launch, origins)


def serve(launch: Launch, origins: dict[str, str], prefix: str = "") -> None:
    """What a vLLM engine makes of its flags; ``prefix`` as another program spells them."""
    tensor = launch.number(prefix + "tensor_parallel_size", default=1)
    data = launch.number(prefix + "data_parallel_size", default=1)
    pipeline = launch.number(prefix + "pipeline_parallel_size", default=1)
    launch.parallel = Parallel(
        tensor=tensor,
        data=data,
        pipeline=pipeline,
        decode_context=launch.number(prefix + "decode_context_parallel_size", default=1),
        expert_enabled=(
            (found := launch.flag(prefix + "enable_expert_parallel")) is not None
            and found.text.lower() not in ("false", "0")
        ),
    )
    if tensor is not None and data is not None and pipeline is not None:
        local = launch.number(prefix + "data_parallel_size_local")
        launch.processes = tensor * data * pipeline
        launch.per_node = tensor * pipeline * (local if local is not None else data)
    launch.nodes = launch.number("nnodes", default=1)
    for name, fallback in (("tensor_parallel_size", 1), ("data_parallel_size", 1)):
        launch.settings[name.replace("_", " ")] = launch.flag(prefix + name) or default(fallback)
    if launch.flag(prefix + "pipeline_parallel_size") is not None:
        launch.settings["pipeline parallel size"] = launch.flags[prefix + "pipeline_parallel_size"]
    if not prefix:
        port = launch.flag("port") or default(8000)
        headless = launch.flag("headless") is not None
        if not headless:
            launch.ports.append(
                Port(
                    "http",
                    port,
                    host=launch.flag("host") or default("0.0.0.0"),  # noqa: S104 - vLLM's default
                    picked=picked(port, origins),
                )
            )
        if data is not None and data > 1:
            _data_parallel_ports(launch, origins)
        master = launch.flag("master_port")
        if master is not None:
            launch.ports.append(
                Port("rendezvous", master, host=launch.flag("master_addr"), picked="fixed")
            )
    limits(launch)
    what = say("vLLM makes its own rendezvous and asks the system for the port")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        launch.ignores[name] = what
    for name in ("RANK", "WORLD_SIZE", "NODE_RANK", "NNODES", "NPROC_PER_NODE"):
        launch.ignores[name] = say("vLLM sets {name} for its workers itself", name=name)
    if launch.flag(prefix + "data_parallel_size") is not None and (data or 0) > 1:
        for name in ("VLLM_DP_MASTER_PORT", "VLLM_DP_MASTER_IP", "VLLM_DP_SIZE", "VLLM_DP_RANK"):
            launch.ignores[name] = say(
                "vLLM reads {name} only where no data-parallel size is given as a flag", name=name
            )
    launch.reads["VLLM_PORT"] = say("first of vLLM's internal ports, not its HTTP port")
    launch.reads["VLLM_HOST_IP"] = say("address that vLLM uses internally, not its HTTP address")
    launch.reads["CUDA_VISIBLE_DEVICES"] = say("the engine's workers see only these devices")


def _data_parallel_ports(launch: Launch, origins: dict[str, str]) -> None:
    rpc = launch.flag("data_parallel_rpc_port")
    address = launch.flag("data_parallel_address")
    local = launch.number("data_parallel_size_local")
    if rpc is not None or address is not None or local is not None:
        value = rpc or default(29550)
        launch.ports.append(
            Port("data-parallel messaging", value, host=address, picked=picked(value, origins))
        )
    launch.ports.append(
        Port("data-parallel rendezvous", default("0"), host=address, picked="reserved-late")
    )


def limits(launch: Launch) -> None:
    """VLLM's time-outs."""
    given = launch.flag("distributed_timeout_seconds")
    if given is not None:
        launch.timeouts.append(
            Timeout("distributed_timeout_seconds", seconds(given), "process groups", given)
        )
    else:
        launch.timeouts.append(
            Timeout("NCCL default", NCCL_DEFAULT_MS, "process groups", default("600 s"))
        )
    execute = launch.variable("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS")
    if execute is not None:
        launch.timeouts.append(
            Timeout("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", seconds(execute), "engine", execute)
        )
    rpc = launch.variable("VLLM_RPC_TIMEOUT")
    if rpc is not None:
        launch.timeouts.append(Timeout("VLLM_RPC_TIMEOUT", seconds(rpc, 1), "engine", rpc))
