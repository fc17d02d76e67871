"""ms-swift: ``swift rollout | rlhf | sft | pt | infer | deploy`` and ``megatron …``.

Sources, ms-swift 3.10.3 (time-outs, ports and ``cli/main.py`` the same in 4.6.0):
``swift/cli/main.py``: torchrun is used for pt, sft, rlhf and infer (Megatron: always) when
NPROC_PER_NODE or NNODES is set, and gets NPROC_PER_NODE, MASTER_PORT, NNODES, NODE_RANK and
MASTER_ADDR
from the environment; rollout and deploy are plain Python and read none of them.
``swift/llm/argument/deploy_args.py``: port 8000 by default; ``find_free_port(port)`` takes the next
free one when it is in use, without a word; rollout's synchronous engine is the default; tensor ×
data
parallel size must not exceed the devices.
``swift/llm/infer/rollout.py``: one process for each data-parallel rank, with VLLM_DP_MASTER_PORT
from vLLM's ``get_open_port``.
``swift/llm/argument/base_args/base_args.py``: ``ddp_timeout`` 18000000 s.
``swift/trainers/rlhf_trainer/vllm_client.py``: the weight exchange listens in the server on 51216
+ i
for the i-th server; ``vllm_server_group_port`` exists from 3.12 on (pull request 6876).
``swift/trainers/arguments.py``: ``vllm_server_port`` [8000], ``vllm_server_timeout`` 240 s.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unstall.model.plan import Parallel, Port, Timeout, Value
from unstall.model.text import say
from unstall.programs import torchrun, training
from unstall.programs.base import (
    Launch,
    default,
    number,
    parse_flags,
    picked,
    seconds,
    truth,
)
from unstall.programs.vllm import launch as vllm

NAME = "ms-swift"
DDP_TIMEOUT = 18_000_000
GROUP_PORT = 51216
SERVER_SECONDS = 240
_TRAINS = ("pt", "sft", "rlhf", "infer")
#: The trainer's flags whose value is a list of words, one for each server (3.10.3,
#: ``swift/trainers/arguments.py``).
SERVER_LISTS = frozenset(("vllm_server_host", "vllm_server_port", "vllm_server_base_url"))
#: The server's flag for the number of its engines (3.10.3, ``swift/llm/argument/deploy_args.py``).
DATA_PARALLEL = "vllm_data_parallel_size"
_ENGINE_FLAGS = ("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size",
                 "use_async_engine")  # fmt: skip
_ENVIRONMENT = ("NPROC_PER_NODE", "MASTER_PORT", "NNODES", "NODE_RANK", "MASTER_ADDR")


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is ms-swift's."""
    texts = [w.text for w in words[:6]]
    name = texts[0].rsplit("/", 1)[-1]
    if name == "swift":
        return len(texts) > 1
    if name == "megatron":
        return len(texts) > 1 and texts[1] in ("pt", "sft", "rlhf", "export")
    script = texts[1] if name.startswith("python") and len(texts) > 1 else ""
    if script == "-m" and len(texts) > 2:
        return texts[2].startswith("swift.cli.")
    return "swift/cli/" in script and script.endswith(".py")


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, processes, ports and sizes."""
    texts = [w.text for w in launch.words]
    first = texts[0].rsplit("/", 1)[-1]
    megatron = first == "megatron" or any("_megatron" in t for t in texts[1:3])
    if first in ("swift", "megatron"):
        method, start = texts[1].replace("_", "-"), 2
    else:
        at = 2 if texts[1] == "-m" else 1
        method = texts[at].removesuffix(".py").replace("/", ".").rsplit(".", 1)[-1]
        start = at + 1
    flags, _ = parse_flags(launch.words[start:], many=True)
    launch.flags.update(flags)
    launch.take_config()
    launch.software = NAME
    launch.label = f"swift {method}" if first != "megatron" else f"megatron {method}"
    if method in ("rollout", "deploy"):
        _server(launch, origins, method)
    elif method in ("app", "web-ui", "eval", "export", "merge-lora", "sample"):
        launch.role = "node"
        launch.distributed = False
    else:
        _trainer(launch, origins, method, megatron)


def _server(launch: Launch, origins: dict[str, str], method: str) -> None:
    launch.role = "rollout" if method == "rollout" else "inference"
    backend = launch.flag("infer_backend")
    launch.engine = "vllm" if method == "rollout" or backend is None else backend.text
    launch.server = True
    own_ports = list(launch.ports)
    for name in _ENGINE_FLAGS:
        # earlier 3.x releases spelt them as vLLM does (issue 5176: --data_parallel_size)
        if f"vllm_{name}" not in launch.flags and name in launch.flags:
            launch.flags[f"vllm_{name}"] = launch.flags[name]
    vllm.serve(launch, origins, "vllm_")
    launch.ports = own_ports
    port = launch.flag("port") or default(8000)
    host = launch.flag("host") or default("0.0.0.0")  # noqa: S104 - ms-swift's default
    launch.ports.append(Port("http", port, host=host, picked=picked(port, origins)))
    data = launch.parallel.data
    asynchronous = truth(launch.flag("vllm_use_async_engine"))
    if method == "deploy" and asynchronous is None:
        asynchronous = True
    if launch.flag("multi_turn_scheduler") is not None and asynchronous is None:
        asynchronous = True
    launch.settings["engine mode"] = Value(
        "asynchronous" if asynchronous else "synchronous",
        place=(found.place if (found := launch.flag("vllm_use_async_engine")) else None),
        default=launch.flag("vllm_use_async_engine") is None,
    )
    if data is not None and data > 1:
        launch.ports.append(Port("data-parallel rendezvous", default("0"), picked="reserved-late"))
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        launch.ignores[name] = say(
            "`swift {method}` is started without torchrun, and for vLLM's data-parallel rendezvous "
            "ms-swift asks the system for a port of its own, so {name} reaches nothing",
            method=method,
            name=name,
        )
    for name in ("NPROC_PER_NODE", "NNODES", "NODE_RANK"):
        launch.ignores[name] = say(
            "`swift {method}` is started without torchrun, which alone would read {name}",
            method=method,
            name=name,
        )


def _trainer(launch: Launch, origins: dict[str, str], method: str, megatron: bool) -> None:
    launch.role = "inference" if method == "infer" else "trainer"
    given = [n for n in ("NPROC_PER_NODE", "NNODES") if n in launch.environment]
    launched = launch.launchers and launch.launchers[-1] in ("torchrun", "accelerate", "deepspeed")
    if truth(launch.flag("use_ray")):
        # Ray starts the workers; how many, the device groups of its configuration say
        launch.launchers.append("ray")
        launched = True
    if not launched and (given or megatron) and (method in _TRAINS or megatron):
        flags: dict[str, Value] = {}
        for name in _ENVIRONMENT:
            value = launch.variable(name)
            if value is not None:
                flags[name.lower()] = value
                launch.reads[name] = say(
                    "`{command}` passes it to torchrun as --{flag}",
                    command=launch.label,
                    flag=name.lower(),
                )
        if "nnodes" in flags and flags["nnodes"].text != "1":
            # what the script does not set may come from outside, where a cluster sets it
            for name in ("MASTER_ADDR", "NODE_RANK"):
                outside = Value(f"${name}", known=False, token=f"env:{name}", place=None)
                flags.setdefault(name.lower(), outside)
        torchrun.apply(launch, flags, origins, "torchrun")
        for name in flags:
            launch.flags.pop(name, None)
    elif not launched:
        launch.processes = 1
        launch.per_node = 1
        for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
            launch.ignores[name] = say(
                "`swift {method}` starts torchrun only where NPROC_PER_NODE or NNODES is exported; "
                "without it {name} reaches nothing",
                method=method,
                name=name,
            )
    if megatron:
        launch.settings["framework"] = Value("megatron", default=True)
        launch.parallel = Parallel(
            tensor=launch.number("tensor_model_parallel_size", default=1),
            pipeline=launch.number("pipeline_model_parallel_size", default=1),
            context=launch.number("context_parallel_size", default=1),
            expert=launch.number("expert_model_parallel_size", default=1),
        )
        for size in ("tensor", "pipeline"):
            launch.settings[f"{size} parallel size"] = launch.flag(
                f"{size}_model_parallel_size"
            ) or default(1)
    training.ddp_timeout(launch, DDP_TIMEOUT)
    if not megatron:
        training.deepspeed_stage(launch)
    kind = launch.flag("rlhf_type")
    online = kind is not None and kind.text in ("grpo", "gkd", "ppo")
    if kind is not None:
        launch.label = f"swift {method} {kind.text}"
    training.batches(launch, 8 if kind is not None and kind.text == "grpo" else None)
    if online and truth(launch.flag("use_vllm")):
        _client(launch, origins)


def _client(launch: Launch, origins: dict[str, str]) -> None:
    """The trainer's side of the rollout server."""
    mode = launch.flag("vllm_mode")
    host = launch.flag("vllm_server_host")
    url = launch.flag("vllm_server_base_url")
    if mode is None and host is None and url is None:
        return
    if mode is not None and mode.text == "colocate":
        launch.engine = "vllm"
        launch.settings["vLLM mode"] = mode
        tensor = launch.flag("vllm_tensor_parallel_size")
        if tensor is not None:
            launch.settings["tensor parallel size"] = tensor
        return
    launch.settings["vLLM mode"] = mode or default("server")
    servers = connections(launch, host, url, launch.flag("vllm_server_port") or default(8000))
    for server_host, server_port in servers:
        launch.ports.append(
            Port(
                "http",
                server_port,
                listens=False,
                host=server_host,
                picked=picked(server_port, origins),
            )
        )
    group = launch.flag("vllm_server_group_port")
    for at in range(len(servers)):
        value = group
        numbers = group.text.split() if group is not None else []
        if group is None:
            value = default(GROUP_PORT + at)
        elif len(numbers) > at:
            value = msgspec.structs.replace(group, text=numbers[at])
        elif (base := number(group)) is not None:
            value = msgspec.structs.replace(group, text=str(base + at))
        if value is not None:
            # It listens in the server's first worker; the trainer tells it which port.
            launch.ports.append(Port("weight-exchange", value, listens=False, host=servers[at][0]))
    timeout = launch.flag("vllm_server_timeout") or default(SERVER_SECONDS)
    launch.timeouts.append(
        Timeout("vllm_server_timeout", seconds(timeout), "server start", timeout)
    )


def connections(
    launch: Launch, host: Value | None, url: Value | None, port: Value
) -> list[tuple[Value, Value]]:
    """Host and port of each server that the trainer is told of."""
    del launch
    if url is not None:
        found: list[tuple[Value, Value]] = []
        for text in url.text.split():
            rest = text.partition("://")[2] or text
            address = rest.split("/", 1)[0]
            name, colon, digits = address.rpartition(":")
            place = url.place
            found.append(
                (
                    Value(name if colon else address, place=place),
                    Value(
                        digits if colon else "80",
                        place=place,
                        known=url.known or digits.isdigit(),
                        token=None if url.known or digits.isdigit() else _port_token(url),
                    ),
                )
            )
        return found
    hosts = ["0.0.0.0"]  # noqa: S104 - the default of both trainers
    if host is not None:
        hosts = host.text.split() if host.known else [host.text]
    ports = port.text.split() if port.known else [port.text]
    pairs: list[tuple[Value, Value]] = []
    for at, name in enumerate(hosts):
        chosen = ports[at] if at < len(ports) else ports[-1]
        pairs.append(
            (
                Value(
                    name,
                    place=host.place if host else None,
                    known=host.known if host else True,
                    token=host.token if host else None,
                    default=host is None,
                ),
                port
                if len(ports) == 1 and not port.known
                else msgspec.structs.replace(port, text=chosen),
            )
        )
    return pairs


def _port_token(url: Value) -> str | None:
    token = url.token or ""
    parts = [p for p in token.split("\x1f") if p and not p.startswith(("http", ":", "/"))]
    return parts[-1] if parts else None
