"""WORLD_SIZE counts ranks that are never started."""

from __future__ import annotations

import os
import sys

from unstall.experiments.child import ROLE, Lab, distributed
from unstall.experiments.scenario import Change, Ended, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="wrong-world-size",
    causes=("rendezvous-environment",),
    title=say("WORLD_SIZE counts ranks that are never started"),
    about=say(
        "The script multiplies nodes by devices, but starts the ranks of one node only. Those "
        "that are there wait at the store for the others until its time-out. The log says how many "
        "came; the script, which is part of the evidence, says how many it starts."
    ),
    module="wrong_world_size",
    programs=(ProgramSpec("trainer", "launcher", ranks=1, own_log=True, own_torch=True),),
    changes=(Change("right-size", say("WORLD_SIZE is the number of ranks that are started")),),
    fingerprint=(Says("trainer", "clients joined"), Ended("trainer", 1)),
    expect="failure",
    steps=6,
    by=0,
    stall=40.0,
    gather=3.0,
    timeout=6.0,
    most=16,
)

SCRIPT = """#!/bin/bash
NNODES={nodes}
DEVICES={devices}
export MASTER_ADDR=127.0.0.1
export MASTER_PORT={port}
export WORLD_SIZE=$((NNODES * DEVICES))

pids=()
for i in {ranks}; do
  RANK=$i LOCAL_RANK=$i {python} -m unstall.experiments.program {module} &
  pids+=($!)
done
code=0
for pid in "${{pids[@]}}"; do
  wait "$pid" || code=1
done
exit $code
"""


def launch(lab: Lab) -> None:
    """Become a shell that runs the launch script; does not return."""
    count = lab.settings.ranks
    text = SCRIPT.format(
        nodes=2 if lab.faulty else 1,
        devices=count,
        port=os.environ["MASTER_PORT"],
        ranks=" ".join(map(str, range(count))),
        python=sys.executable,
        module="unstall.experiments.scenarios.wrong_world_size",
    )
    script = lab.hand_over("launch.sh", text)
    os.environ[ROLE] = "rank"
    os.execvp("bash", ["bash", str(script)])  # noqa: S606 - the script is the one above


def main(lab: Lab) -> None:
    """Launch, or join by the environment and train."""
    from datetime import timedelta

    if lab.role == "launcher":
        launch(lab)
    lab.torch()
    dist = distributed()
    wait = timedelta(seconds=lab.settings.timeout)
    # as torchrun's static rendezvous and many trainers do: the store itself waits for all clients
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, lab.world, lab.rank == 0, wait, wait_for_workers=True)
    dist.init_process_group("gloo", store=store, rank=lab.rank, world_size=lab.world, timeout=wait)
    lab.dump_on_request()
    loop(lab, lambda _step: None)
