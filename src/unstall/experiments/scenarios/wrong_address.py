"""A rank looks for the rendezvous at a name that does not resolve."""

from __future__ import annotations

import os

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="wrong-rendezvous",
    causes=("rendezvous-environment",),
    title=say("MASTER_ADDR names a host that does not resolve"),
    about=say(
        "The launch script takes MASTER_ADDR from a host list; on the other node the name does "
        "not resolve, and the ranks there never reach the store."
    ),
    module="wrong_address",
    changes=(Change("right-address", say("an address that every node can reach")),),
    fingerprint=(Says("trainer", "node-0.cluster.invalid"),),
    expect="failure",
    steps=6,
    by=0,
    stall=40.0,
    gather=4.0,
)


def main(lab: Lab) -> None:
    """Join by the environment, then train."""
    from datetime import timedelta

    lab.torch()
    import torch.distributed as dist

    if lab.rank and lab.faulty:
        os.environ["MASTER_ADDR"] = "node-0.cluster.invalid"
    dist.init_process_group("gloo", timeout=timedelta(seconds=lab.settings.timeout))
    lab.dump_on_request()
    loop(lab, lambda _step: None)
