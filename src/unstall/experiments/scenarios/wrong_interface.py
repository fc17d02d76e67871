"""Gloo is given an interface in a form that only NCCL understands."""

from __future__ import annotations

import os
import sys

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Ended, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="wrong-interface",
    causes=("network-interface",),
    title=say("gloo is given NCCL's way to exclude an interface"),
    about=say(
        "GLOO_SOCKET_IFNAME is set to “^docker0,lo”, as one may write for NCCL. Gloo takes it "
        "for an interface's name and finds no address."
    ),
    module="wrong_interface",
    changes=(Change("interface-name", say("the name of an interface that exists")),),
    fingerprint=(Says("trainer", "^docker0"), Ended("trainer", 1)),
    expect="failure",
    steps=6,
    by=0,
    stall=20.0,
)


def main(lab: Lab) -> None:
    """Join over the interface that the environment names, then train."""
    lab.torch()
    if lab.faulty:
        os.environ["GLOO_SOCKET_IFNAME"] = "^docker0,lo"
    elif lab.settings.fault:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    lab.join()
    loop(lab, lambda _step: None)
