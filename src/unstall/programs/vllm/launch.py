"""``vllm serve`` and its older entry points.

Sources, read in vLLM 0.8.0 to 0.33.0: ``engine/arg_utils.py`` (flags; short forms since 0.9,
``-n`` and ``-r`` since 0.11.1), ``entrypoints/*/cli_args.py`` (port 8000, every address),
``config/parallel.py`` (the data-parallel rendezvous is a port asked for at start, since 0.9, where
a data-parallel size is given, else ``VLLM_DP_MASTER_PORT``; ``data_parallel_rpc_port`` 29550 since
0.9, bound only where engines are elsewhere: ``v1/engine/utils.py``; ``nnodes``, ``master_addr``
127.0.0.1 and ``master_port`` 29501 since 0.11.1; ``distributed_timeout_seconds`` since 0.18, for
more than the world group since 0.25, none by default, so that NCCL's holds;
``cpu_distributed_timeout_seconds`` since 0.22), ``envs.py``
(VLLM_PORT is the first internal port, not the HTTP port). MASTER_ADDR and MASTER_PORT are not read
by the multiprocessing executor, which makes its own init method.
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
from unstall.programs.vllm.switches import SWITCHES

NAME = "vllm"
_SHORT = {
    "-tp": "tensor_parallel_size",
    "-dp": "data_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dpl": "data_parallel_size_local",
    "-dpa": "data_parallel_address",
    "-dpp": "data_parallel_rpc_port",
    "-dpn": "data_parallel_rank",
    "-dpr": "data_parallel_start_rank",
    "-dpb": "data_parallel_backend",
    "-dph": "data_parallel_hybrid_lb",
    "-dpe": "data_parallel_external_lb",
    "-dpm": "data_parallel_multi_port_external_lb",
    "-dcp": "decode_context_parallel_size",
    "-pcp": "prefill_context_parallel_size",
    "-ep": "enable_expert_parallel",
    "-n": "nnodes",
    "-r": "node_rank",
    "-q": "quantization",
    "-asc": "api_server_count",
    "-O": "compilation_config",
    "-cc": "compilation_config",
    "-ac": "attention_config",
    "-sc": "speculative_config",
    "-dc": "diffusion_config",
}
_NO_VALUE = SWITCHES | {f"no_{name}" for name in SWITCHES}
MESSAGING = 29550
RENDEZVOUS = 29501
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
    flags, operands = parse_flags(launch.words[start:], short=_SHORT, switches=_NO_VALUE)
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
    launch.nodes = launch.number("nnodes", default=1)
    launch.node_rank = launch.node_rank or launch.flag("node_rank")
    launch.processes = launch.per_node = None  # a launcher's tasks are not the engine's workers
    if tensor is not None and data is not None and pipeline is not None:
        local = launch.number(prefix + "data_parallel_size_local")
        if launch.flag("data_parallel_rank", "data_parallel_external_lb") is not None:
            local = local or 1  # each server is one engine of them all
        launch.processes = tensor * data * pipeline
        launch.per_node = tensor * pipeline * (local if local is not None else data)
        if launch.nodes is not None and launch.nodes > 1 and local is None:
            launch.per_node = -(-launch.per_node // launch.nodes)
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
        if master is not None or launch.nodes != 1:
            host = launch.flag("master_addr") or default("127.0.0.1")
            value = master or default(RENDEZVOUS)
            launch.ports.append(Port("rendezvous", value, host=host, picked="fixed"))
            launch.job = f"{host.token or host.text}:{value.token or value.text}"
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
    """The front end's port for engines elsewhere, and the rendezvous of all engines."""
    rpc = launch.flag("data_parallel_rpc_port")
    address = launch.flag("data_parallel_address")
    local = launch.number("data_parallel_size_local")
    rank = launch.number("data_parallel_rank", default=0)
    elsewhere = local is not None and local != launch.parallel.data
    if rpc is not None or address is not None or elsewhere:
        value = rpc or default(MESSAGING)
        launch.ports.append(
            Port(
                "data-parallel messaging",
                value,
                listens=rank == 0 and launch.flag("headless") is None,
                host=address,
                picked=picked(value, origins),
            )
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
    processor = launch.flag("cpu_distributed_timeout_seconds")
    if processor is not None:
        launch.timeouts.append(
            Timeout("cpu_distributed_timeout_seconds", seconds(processor), "gloo groups", processor)
        )
    execute = launch.variable("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS")
    if execute is not None:
        launch.timeouts.append(
            Timeout("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", seconds(execute), "engine", execute)
        )
    rpc = launch.variable("VLLM_RPC_TIMEOUT")
    if rpc is not None:
        launch.timeouts.append(Timeout("VLLM_RPC_TIMEOUT", seconds(rpc, 1), "engine", rpc))
