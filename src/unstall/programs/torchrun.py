"""torchrun and ``python -m torch.distributed.run`` / ``launch``.

Sources: PyTorch 2.13 ``torch/distributed/run.py`` (flags, defaults), ``argparse_util.py`` (``PET_``
variables), ``elastic/agent/server/local_elastic_agent.py`` (MASTER_ADDR, MASTER_PORT of the workers
are overwritten), ``elastic/rendezvous/static_tcp_rendezvous.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unstall.model.plan import Port, Value
from unstall.model.text import say
from unstall.programs.base import Launch, default, number, parse_flags, picked

NAME = "torchrun"
C10D_PORT = 29400
"""``elastic/rendezvous/c10d_rendezvous_backend.py``: taken where the endpoint names none."""
_SWITCHES = frozenset(
    [
        "standalone",
        "module",
        "no_python",
        "run_path",
        "virtual_local_rank",
        "use_env",
        "tee_logs",
        "help",
    ]
)
_SHORT = {"-m": "module", "-r": "redirects", "-t": "tee"}
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_SCRIPTS = ("torch/distributed/run.py", "torch/distributed/launch.py")
_LONG = ("nproc_per_node", "nnodes", "node_rank", "master_addr", "master_port")


def _is_module(word: Value) -> bool:
    """The launcher as a module's name, or as the path of its file."""
    return word.text in _MODULES or word.text.endswith(_SCRIPTS)


def _spelled_out(flags: dict[str, Value]) -> dict[str, Value]:
    """Flags under their whole names: argparse takes any beginning that fits one of them only."""
    found: dict[str, Value] = {}
    for name, value in flags.items():
        fitting = [long for long in _LONG if len(name) >= 3 and long.startswith(name)]
        found.setdefault(fitting[0] if len(fitting) == 1 else name, value)
    return found


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is torchrun."""
    name = words[0].text.rsplit("/", 1)[-1]
    if name == "torchrun":
        return True
    return name.startswith("python") and any(_is_module(w) for w in words[1:7])


def peel(launch: Launch, origins: dict[str, str]) -> None:
    """Take torchrun off; what is left are the words of one worker."""
    words = launch.words
    if not words[0].text.endswith("torchrun"):
        at = next(n for n, w in enumerate(words) if _is_module(w))
        words = words[at:]
    flags, rest = parse_flags(words[1:], switches=_SWITCHES, short=_SHORT, stop=True)
    flags = _spelled_out(flags)
    for name in (
        "nproc_per_node",
        "nnodes",
        "node_rank",
        "master_addr",
        "master_port",
        "rdzv_backend",
        "rdzv_endpoint",
        "rdzv_id",
        "standalone",
        "max_restarts",
    ):
        variable = launch.variable(f"PET_{name.upper()}")
        if name not in flags and variable is not None:
            flags[name] = variable
    apply(launch, flags, origins, NAME)
    # `--module` is a switch of torchrun: the operand that follows is a module's name
    start = rest
    if "module" in flags and rest:
        start = [Value("python"), Value("-m"), *rest]
    elif "no_python" not in flags and rest:
        start = [Value("python"), *rest]
    launch.words = tuple(start)


def _endpoint(text: str) -> tuple[str, str]:
    """Host and port of ``--rdzv_endpoint``, the port empty where none is given.

    A colon inside of an expression such as ``${PORT:-29500}`` separates nothing.
    """
    depth, at = 0, None
    for n, letter in enumerate(text):
        if letter in "({[":
            depth += 1
        elif letter in ")}]":
            depth -= 1
        elif letter == ":" and depth == 0:
            at = n
    return (text, "") if at is None else (text[:at], text[at + 1 :])


def apply(launch: Launch, flags: dict[str, Value], origins: dict[str, str], launcher: str) -> None:
    """What torchrun makes of its flags; also used by frameworks that call it themselves."""
    launch.launchers.append(launcher)
    launch.flags.update({k: v for k, v in flags.items() if k not in launch.flags})
    per_node = flags.get("nproc_per_node", default(1))
    nodes_value = flags.get("nnodes", default(1))
    nodes_text = nodes_value.text.rsplit(":", 1)[-1]
    nodes = number(msgspec.structs.replace(nodes_value, text=nodes_text))
    launch.nodes = nodes
    if per_node.text in ("gpu", "auto"):
        launch.per_node = launch.visible
    else:
        launch.per_node = number(per_node)
    both = launch.per_node is not None and nodes is not None
    # the tasks of srun in front of it are agents, not ranks
    launch.processes = (launch.per_node or 0) * (nodes or 0) if both else None
    launch.settings["processes per node"] = per_node
    if nodes != 1 or "nnodes" in flags:
        launch.settings["nodes"] = nodes_value
    launch.node_rank = flags.get("node_rank")
    endpoint = flags.get("rdzv_endpoint")
    backend = flags.get("rdzv_backend", default("static")).text
    if "standalone" in flags:
        launch.ports.append(
            Port("rendezvous", default("0"), host=default("localhost"), picked="free")
        )
    elif endpoint is not None and (backend != "static" or "master_port" not in flags):
        host, port = _endpoint(endpoint.text)
        value = msgspec.structs.replace(endpoint, text=port) if port else default(C10D_PORT)
        if not endpoint.known and port.isdigit():
            value = Value(port, place=endpoint.place)
        launch.ports.append(
            Port(
                "rendezvous",
                value,
                host=msgspec.structs.replace(endpoint, text=host),
                picked="free" if value.text == "0" else picked(value, origins),
            )
        )
        launch.job = f"{host}:{port}"
    else:
        port_value = flags.get("master_port", default(29500))
        host_value = flags.get("master_addr", default("127.0.0.1"))
        launch.ports.append(
            Port(
                "rendezvous",
                port_value,
                host=host_value,
                picked="free" if port_value.text == "0" else picked(port_value, origins),
            )
        )
        if nodes != 1:
            launch.job = (
                f"{host_value.token or host_value.text}:{port_value.token or port_value.text}"
            )
    reads = launch.reads
    reads.setdefault("CUDA_VISIBLE_DEVICES", say("the workers see only these devices"))
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name in reads:
            continue
        launch.ignores[name] = say(
            "torchrun takes --{flag} (or PET_{name}), not {name}, and overwrites {name} for its "
            "workers",
            flag=name.lower(),
            name=name,
        )
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        if name in reads:
            continue
        launch.ignores[name] = say("torchrun sets {name} for each of its workers itself", name=name)
    for name, flag in (
        ("NODE_RANK", "node_rank"),
        ("NNODES", "nnodes"),
        ("NPROC_PER_NODE", "nproc_per_node"),
    ):
        if name not in reads:
            launch.ignores[name] = say(
                "torchrun takes --{flag} (or PET_{name}), not {name}", flag=flag, name=name
            )
