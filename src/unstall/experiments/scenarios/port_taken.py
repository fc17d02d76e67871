"""MASTER_PORT is already used by another job."""

from __future__ import annotations

import os
import socket
import time

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Ended, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="port-taken",
    causes=("port-collision",),
    title=say("MASTER_PORT is used by another job"),
    about=say("Another program listens on the port on which rank 0 wants to open its store."),
    module="port_taken",
    programs=(
        ProgramSpec("other", "other", ranks=1, service=True, own_log=True, stacks=False),
        ProgramSpec("trainer", "rank"),
    ),
    changes=(Change("free-port", say("a port that the system gives, told to the other ranks")),),
    fingerprint=(Says("trainer", "EADDRINUSE"), Ended("trainer", 1, 0)),
    expect="failure",
    steps=6,
    by=0,
    stall=12.0,
)


def main(lab: Lab) -> None:
    """Hold the port, or train over it."""
    from datetime import timedelta

    if lab.role == "other":
        holder = socket.socket()
        if lab.settings.fault:
            holder.bind(("0.0.0.0", int(os.environ["MASTER_PORT"])))  # noqa: S104 - as jobs do
            holder.listen()
        lab.publish("taken", "")
        while True:
            time.sleep(1)
    lab.torch()
    lab.await_file("taken")
    if lab.changed("free-port"):
        lab.join()
    else:
        import torch.distributed as dist

        if lab.rank == 0:
            port = os.environ["MASTER_PORT"]
            say_line(f"Initializing torch distributed: MASTER_ADDR=127.0.0.1 MASTER_PORT={port}")
        dist.init_process_group("gloo", timeout=timedelta(seconds=lab.settings.timeout))
        lab.dump_on_request()
    loop(lab, lambda _step: None)
