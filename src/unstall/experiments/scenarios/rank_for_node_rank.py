"""Two nodes are both given node rank 0."""

from __future__ import annotations

import os

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, ProgramSpec, Scenario
from unstall.experiments.scenarios._launcher import torchrun
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="wrong-node-rank",
    causes=("rendezvous-environment",),
    title=say("the second node is given the first one's number"),
    about=say(
        "The script passes RANK where torchrun expects NODE_RANK; the scheduler sets only the "
        "latter, so that both nodes are number 0 and each opens a rendezvous of its own or "
        "waits for one that nobody else joins."
    ),
    module="rank_for_node_rank",
    programs=(
        ProgramSpec("node0", "launcher", ranks=1, own_log=True, own_torch=True),
        ProgramSpec("node1", "launcher", ranks=1, own_log=True, own_torch=True),
    ),
    changes=(Change("node-rank", say("--node-rank from the variable that the scheduler sets")),),
    fingerprint=(),
    expect="failure",
    ranks=1,
    least=1,
    most=1,
    steps=6,
    by=0,
    stall=45.0,
)


def main(lab: Lab) -> None:
    """Launch one node's ranks, or train."""
    if lab.role == "launcher":
        node = int(lab.program == "node1")
        node_rank = node if not lab.faulty else 0
        options = (
            "--nnodes=2",
            f"--node-rank={node_rank}",
            "--master-addr=127.0.0.1",
            f"--master-port={os.environ['MASTER_PORT']}",
            "--rdzv-conf=timeout=10,join_timeout=10",
        )
        torchrun(lab, "rank_for_node_rank", options=options)
    from datetime import timedelta

    lab.torch()
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=lab.settings.timeout))
    lab.dump_on_request()
    loop(lab, lambda _step: None)
