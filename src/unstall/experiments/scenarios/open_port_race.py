"""Two programs look for a free port, find the same one, and bind it later."""

from __future__ import annotations

import os
import socket

from unstall.experiments.child import Lab, distributed, say_line
from unstall.experiments.scenario import Change, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="open-port-race",
    causes=("port-collision",),
    title=say("two programs find the same free port and bind it later"),
    about=say(
        "Two jobs start together. Each looks for the first free port from a base upward, closes "
        "it, loads its model and then opens its store there: the slower one finds it taken."
    ),
    module="open_port_race",
    programs=(ProgramSpec("first", "job", ranks=1), ProgramSpec("second", "job", ranks=1)),
    changes=(Change("bind-at-once", say("the store takes a port from the system and keeps it")),),
    fingerprint=(Says("second", "EADDRINUSE"),),
    expect="failure",
    ranks=1,
    least=1,
    most=1,
    steps=6,
    by=0,
    stall=15.0,
)


def get_open_port(base: int) -> int:
    """The first port from ``base`` on that can be bound now."""
    for port in range(base, base + 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no open port")


def main(lab: Lab) -> None:
    """Find a port, load the model, open the store, train."""
    from datetime import timedelta

    lab.torch()
    dist = distributed()
    late = lab.program == "second"
    if lab.changed("bind-at-once") or not lab.settings.fault:
        lab.join()
    else:
        if late:  # a port that the other is trying at this moment would count as taken
            lab.await_file("first.looked")
        port = get_open_port(int(os.environ["MASTER_PORT"]))
        lab.publish(f"{lab.program}.looked", "")
        say_line(f"using port {port} for torch.distributed")
        if not late:
            lab.await_file("second.looked")
        say_line("Loading checkpoint shards: 100%|██████████| 2/2 [00:00<00:00, 4.00it/s]")
        if late:
            lab.await_file("first.joined")
        os.environ["MASTER_PORT"] = str(port)
        dist.init_process_group(
            "gloo", timeout=timedelta(seconds=lab.settings.timeout), rank=0, world_size=1
        )
        lab.publish(f"{lab.program}.joined", "")
    loop(lab, lambda _step: None)
