"""PyTorch Lightning: ``fabric run``, ``lightning run model`` and scripts with Trainer flags.

Sources, read in Lightning 2.0 to 2.6.5: ``fabric/cli.py`` (``fabric run SCRIPT`` since 2.3, before
``lightning run model SCRIPT``, which 2.6 no longer has; ``--devices`` 1, ``--num-nodes`` 1,
``--node-rank`` 0, ``--main-address`` 127.0.0.1, ``--main-port`` 29400; it starts torchrun with
them), ``fabric/plugins/environments``: ``lightning.py`` (MASTER_ADDR or 127.0.0.1, MASTER_PORT or a
free port, NODE_RANK or GROUP_RANK; the script starts its other processes itself unless LOCAL_RANK
is set), ``slurm.py`` (chosen where SLURM_NTASKS is set and the job is not called ``bash`` or
``interactive``: ranks are srun's tasks, the address is the first node, the port 15000 and the last
four digits of the job's number, MASTER_ADDR and MASTER_PORT win over both; ``devices`` and
``num_nodes`` have to be the job's ``--ntasks-per-node`` and ``--nodes``, since 2.1; ``--ntasks``
without ``--ntasks-per-node`` is refused), ``torchelastic.py`` (under torchrun; ``devices`` ×
``num_nodes`` have to be the world size, since 2.1), and
``pytorch/strategies/ddp.py``, ``fsdp.py`` (time-out ``default_pg_timeout``, 30 minutes, NCCL
included).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Port, Timeout, Value
from unstall.model.text import say
from unstall.programs import torchrun
from unstall.programs.base import (
    OTHER_DEFAULT_MS,
    Launch,
    default,
    number,
    overrides,
    parse_flags,
    picked,
)

NAME = "lightning"
_RUNNERS = ("lightning", "fabric")
_SLURM_PORT = Value(
    "15000 + $SLURM_JOB_ID % 10000",
    known=False,
    token="env:SLURM_JOB_ID",  # noqa: S106 - where the value comes from
    default=True,
)
_HYDRA = ("trainer.devices", "trainer.num_nodes")

_NO_RUN = frozenset(["--help", "--print_config", "--to-yaml", "--to-toml", "--to-json", "--dryrun"])
"""Nothing is trained: help, jsonargparse's and NeMo-Run's ways to write a configuration."""


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is Lightning's, by name or by its Trainer's flags."""
    texts = [w.text for w in words]
    name = texts[0].rsplit("/", 1)[-1]
    if name in _RUNNERS and texts[1:2] == ["run"]:
        return True
    if not name.startswith("python"):
        return False
    flags = {t.split("=", 1)[0] for t in texts if t.startswith("--")}
    if flags & _NO_RUN:
        return False
    if any(t.startswith("--trainer.") for t in texts):
        return True
    if all(any(t.lstrip("+").startswith(f"{key}=") for t in texts) for key in _HYDRA):
        return True
    return bool(flags & {"--devices", "--num_nodes", "--gpus"}) and bool(
        flags & {"--strategy", "--accelerator"}
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, processes and ports."""
    launch.software = NAME
    launch.role = "trainer"
    if launch.words[0].text.rsplit("/", 1)[-1] in _RUNNERS:
        _runner(launch, origins)
    else:
        _script(launch, origins)
    launch.timeouts.append(
        Timeout("DDPStrategy timeout", OTHER_DEFAULT_MS, "process groups", default("1800 s"))
    )


def _runner(launch: Launch, origins: dict[str, str]) -> None:
    """``fabric run``: torchrun with flags of other names."""
    words = launch.words[2:]
    if words and words[0].text == "model":
        words = words[1:]
    flags, _ = parse_flags(words, stop=True)
    launch.flags.update(flags)
    found = {
        "nproc_per_node": _devices(launch.flag("devices") or default(1)),
        "nnodes": launch.flag("num_nodes") or default(1),
        "node_rank": launch.flag("node_rank"),
        "master_addr": launch.flag("main_address"),
        "master_port": launch.flag("main_port") or default(29400),
    }
    given = {name: value for name, value in found.items() if value is not None}
    torchrun.apply(launch, given, origins, "torchrun")
    for name in given:
        if name != "node_rank":
            launch.flags.pop(name, None)
    for name, flag in (("MASTER_ADDR", "main-address"), ("MASTER_PORT", "main-port")):
        launch.ignores[name] = say(
            "`{command}` takes --{flag}, not {name}, and overwrites {name} for its workers",
            command="fabric run",
            flag=flag,
            name=name,
        )


def _script(launch: Launch, origins: dict[str, str]) -> None:
    """A script with a Trainer: it starts its ranks itself, or is started as one of them."""
    flags, rest = parse_flags(launch.words[1:])
    flags = {k.removeprefix("trainer."): v for k, v in flags.items()}
    keys, _ = overrides(rest)
    flags.update({k.removeprefix("trainer."): v for k, v in keys.items() if k in _HYDRA})
    launch.flags.update({k: v for k, v in flags.items() if k not in launch.flags})
    devices = launch.flag("devices", "gpus")
    nodes = launch.number("num_nodes", default=1)
    if devices is not None:
        launch.settings["processes per node"] = devices
    if "num_nodes" in launch.flags:
        launch.settings["nodes"] = launch.flags["num_nodes"]
    if launch.launchers and launch.launchers[-1] != "srun":
        return
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        launch.reads[name] = say("Lightning reads it for the rendezvous of its processes")
    if launch.launchers:
        if launch.processes is None or launch.processes > 1:
            port = launch.variable("MASTER_PORT") or _SLURM_PORT
            launch.ports.append(
                Port("rendezvous", port, host=launch.variable("MASTER_ADDR"), picked="fixed")
            )
        launch.ignores["NODE_RANK"] = say("under Slurm Lightning takes SLURM_NODEID, not NODE_RANK")
        return
    launch.nodes = nodes
    launch.per_node = _count(devices) if devices is not None else launch.visible
    if launch.per_node == -1:
        launch.per_node = launch.visible
    if launch.per_node is not None and nodes is not None:
        launch.processes = launch.per_node * nodes
    launch.node_rank = launch.variable("NODE_RANK") or launch.variable("GROUP_RANK")
    port = launch.variable("MASTER_PORT") or default(0)
    launch.ports.append(
        Port(
            "rendezvous",
            port,
            host=launch.variable("MASTER_ADDR") or default("127.0.0.1"),
            picked="reserved-late" if port.text == "0" else picked(port, origins),
        )
    )
    if nodes is not None and nodes > 1:
        host = launch.ports[-1].host
        where = (host.token or host.text) if host is not None else ""
        launch.job = f"{where}:{port.token or port.text}"
    launch.reads["NODE_RANK"] = say("Lightning reads it for the rendezvous of its processes")


def _devices(value: Value) -> Value:
    """``--devices 0,1`` names two devices: as the number of processes that torchrun is given."""
    count = _count(value)
    if count is None or not value.known or str(count) == value.text:
        return value
    return Value(str(count), place=value.place)


def _count(devices: Value) -> int | None:
    text = devices.text.strip("[]")
    if "," in text:
        return len([t for t in text.split(",") if t.strip()])
    return number(devices)
