"""PyTorch Lightning: ``lightning run``, ``fabric run`` and scripts with Trainer flags.

Source: Lightning 2.5 ``fabric/plugins/environments/lightning.py`` (MASTER_ADDR 127.0.0.1,
MASTER_PORT
else a free port, NODE_RANK; processes are started by the script itself), ``slurm.py`` (under Slurm
the port follows from the job's number), ``strategies/ddp.py`` (time-out 30 minutes by default),
``fabric/cli.py`` (``--devices``, ``--num-nodes``, ``--node-rank``, ``--main-port`` 29400).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Port, Timeout, Value
from unstall.model.text import say
from unstall.programs.base import OTHER_DEFAULT_MS, Launch, default, number, parse_flags, picked

NAME = "lightning"


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is Lightning's, by name or by its Trainer's flags."""
    texts = [w.text for w in words]
    name = texts[0].rsplit("/", 1)[-1]
    if name in ("lightning", "fabric") and texts[1:2] == ["run"]:
        return True
    if not name.startswith("python"):
        return False
    flags = {t.split("=", 1)[0] for t in texts if t.startswith("--")}
    if any(t.startswith("--trainer.") for t in texts):
        return True
    return bool(flags & {"--devices", "--num_nodes", "--gpus"}) and bool(
        flags & {"--strategy", "--accelerator"}
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, processes and ports."""
    flags, _ = parse_flags(launch.words[1:])
    launch.flags.update(
        {(k.removeprefix("trainer.")): v for k, v in flags.items() if k not in launch.flags}
    )
    launch.software = NAME
    launch.role = "trainer"
    devices = launch.flag("devices", "gpus")
    nodes = launch.number("num_nodes", default=1)
    if not launch.launchers:
        launch.nodes = nodes
        launch.per_node = _count(devices) if devices is not None else launch.visible
        if launch.per_node == -1:
            launch.per_node = launch.visible
        if launch.per_node is not None and nodes is not None:
            launch.processes = launch.per_node * nodes
        port = launch.variable("MASTER_PORT") or launch.flag("main_port") or default(0)
        launch.ports.append(
            Port(
                "rendezvous",
                port,
                host=launch.variable("MASTER_ADDR") or default("127.0.0.1"),
                picked="reserved-late" if port.text == "0" else picked(port, origins),
            )
        )
        for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
            launch.reads[name] = say("Lightning reads it for the rendezvous of its processes")
    if devices is not None:
        launch.settings["processes per node"] = devices
    launch.timeouts.append(
        Timeout("DDPStrategy timeout", OTHER_DEFAULT_MS, "process groups", default("1800 s"))
    )


def _count(devices: Value) -> int | None:
    text = devices.text.strip("[]")
    if "," in text:
        return len([t for t in text.split(",") if t.strip()])
    return number(devices)
