"""WORLD_SIZE counts ranks that are never started."""

from __future__ import annotations

import os

from unstall.experiments.child import Lab, distributed
from unstall.experiments.scenario import Change, Ended, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="wrong-world-size",
    causes=("rendezvous-environment",),
    title=say("WORLD_SIZE counts ranks that are never started"),
    about=say(
        "The script multiplies nodes by devices, but a node starts fewer ranks. Those that are "
        "there wait at the store for the others until its time-out."
    ),
    module="wrong_world_size",
    changes=(Change("right-size", say("WORLD_SIZE is the number of ranks that are started")),),
    fingerprint=(Says("trainer", "clients joined"), Ended("trainer", 1)),
    expect="failure",
    steps=6,
    by=0,
    stall=40.0,
    gather=3.0,
    timeout=6.0,
)


def main(lab: Lab) -> None:
    """Join by the environment, then train."""
    from datetime import timedelta

    lab.torch()
    dist = distributed()
    size = 2 * lab.world if lab.faulty else lab.world
    wait = timedelta(seconds=lab.settings.timeout)
    # as torchrun's static rendezvous and many trainers do: the store itself waits for all clients
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, size, lab.rank == 0, wait, wait_for_workers=True)
    dist.init_process_group("gloo", store=store, rank=lab.rank, world_size=size, timeout=wait)
    lab.dump_on_request()
    loop(lab, lambda _step: None)
