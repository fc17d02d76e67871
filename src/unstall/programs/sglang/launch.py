"""SGLang: ``python -m sglang.launch_server``, ``sglang serve`` and its router.

Sources, read in SGLang 0.4.5 to 0.5.19: ``srt/server_args.py`` (host 127.0.0.1, port 30000; flags
and their other spellings, which argparse also lets users cut short: ``--tp``, ``--dp``;
``--dist-init-addr``, also ``--nccl-init-addr``; ``--nccl-port``, else a port near the HTTP port or,
from 0.5.9 on, one asked of the system; ``--dist-timeout`` in seconds, none by default, then NCCL's;
``--watchdog-timeout`` 300 s; ``--base-gpu-id``; with ``--enable-dp-attention`` the data-parallel
ranks share the tensor-parallel ones), ``srt/environ.py`` (MASTER_ADDR and MASTER_PORT count only
with ``SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE=env://``, from 0.5.9 on), ``cli/main.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Parallel, Port, Timeout, Value
from unstall.model.text import say
from unstall.programs import training
from unstall.programs.base import Launch, default, parse_flags, picked, seconds
from unstall.programs.sglang.switches import SWITCHES

NAME = "sglang"
_ALIASES = {
    "--tp": "tp_size",
    "--tensor-parallel-size": "tp_size",
    "--dp": "dp_size",
    "--data-parallel-size": "dp_size",
    "--pp": "pp_size",
    "--pipeline-parallel-size": "pp_size",
    "--ep": "ep_size",
    "--expert-parallel-size": "ep_size",
    "--attention-context-parallel-size": "attn_cp_size",
    "--moe-data-parallel-size": "moe_dp_size",
    "--decode-context-parallel-size": "dcp_size",
    "--nccl-init-addr": "dist_init_addr",
    "--dist-init": "dist_init_addr",
    "--model": "model_path",
}


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is SGLang's server."""
    texts = [w.text for w in words[:6]]
    name = texts[0].rsplit("/", 1)[-1]
    if name == "sglang":
        return "serve" in texts[1:2]
    return name.startswith("python") and any(
        t in ("sglang.launch_server", "sglang_router.launch_server") for t in texts
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, ports and sizes."""
    texts = [w.text for w in launch.words]
    start = next((n + 1 for n, t in enumerate(texts) if t.endswith(".launch_server")), 2)
    flags, operands = parse_flags(launch.words[start:], short=_ALIASES, switches=SWITCHES)
    if operands and "model_path" not in flags:
        flags["model_path"] = operands[0]
    launch.flags.update(flags)
    launch.software = NAME
    launch.engine = NAME
    launch.role = "inference"
    launch.server = True
    tensor = launch.number("tp_size", default=1)
    data = launch.number("dp_size", default=1)
    pipeline = launch.number("pp_size", default=1)
    attention = launch.flag("enable_dp_attention") is not None
    launch.parallel = Parallel(
        tensor=tensor,
        data=data,
        pipeline=pipeline,
        expert=launch.number("ep_size", default=1),
        extra={"dp attention": 1} if attention else {},
    )
    nodes = launch.number("nnodes", default=1)
    launch.nodes = nodes
    launch.node_rank = launch.flag("node_rank")
    launch.processes = launch.per_node = None  # a launcher's tasks are not the engine's workers
    if tensor is not None and data is not None and pipeline is not None:
        launch.processes = tensor * pipeline * (1 if attention else data)
        if nodes:
            launch.per_node = -(-launch.processes // nodes)
    launch.settings["tensor parallel size"] = launch.flag("tp_size") or default(1)
    launch.settings["data parallel size"] = launch.flag("dp_size") or default(1)
    port = launch.flag("port") or default(30000)
    launch.ports.append(
        Port(
            "http",
            port,
            host=launch.flag("host") or default("127.0.0.1"),
            picked=picked(port, origins),
        )
    )
    address = launch.flag("dist_init_addr")
    if address is not None:
        host, _, digits = address.text.rpartition(":")
        launch.ports.append(
            Port(
                "rendezvous",
                Value(digits, place=address.place, known=digits.isdigit(), token=address.token),
                host=Value(host, place=address.place, known=address.known, token=address.token),
            )
        )
        if nodes != 1:
            launch.job = address.token or address.text
    nccl = launch.flag("nccl_port")
    if nccl is not None:
        launch.ports.append(Port("process groups", nccl, picked=picked(nccl, origins)))
    given = launch.flag("dist_timeout")
    if given is not None:
        launch.timeouts.append(Timeout("dist_timeout", seconds(given), "process groups", given))
    else:
        training.nccl_default(launch)
    watchdog = launch.flag("watchdog_timeout") or default(300)
    launch.timeouts.append(Timeout("watchdog_timeout", seconds(watchdog), "engine", watchdog))
    method = launch.variable("SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE")
    own = ("MASTER_ADDR", "MASTER_PORT") if method is None or method.text != "env://" else ()
    for name in (*own, "RANK", "WORLD_SIZE", "NODE_RANK", "NNODES"):
        launch.ignores[name] = say(
            "SGLang takes --dist-init-addr, --nnodes and --node-rank, not {name}", name=name
        )
    launch.reads["CUDA_VISIBLE_DEVICES"] = say("the engine's workers see only these devices")
