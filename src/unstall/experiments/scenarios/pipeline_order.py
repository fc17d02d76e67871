"""Neighbouring pipeline stages both send first."""

from __future__ import annotations

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import log_step
from unstall.model.text import say

SCENARIO = Scenario(
    name="pipeline-order",
    causes=("pipeline-order",),
    title=say("neighbouring pipeline stages both send first"),
    about=say(
        "Each stage sends activations forward and receives gradients from behind with blocking "
        "operations. At the turn from warm-up to steady state two neighbours both send and "
        "neither receives."
    ),
    module="pipeline_order",
    changes=(
        Change("alternate", say("even stages send first, odd stages receive first")),
        Change("batched", say("batched point-to-point operations (batch_isend_irecv)")),
    ),
    fingerprint=(
        Waits("trainer rank 0", "send_forward_recv_backward"),
        Waits("trainer rank 1", "send_backward_recv_forward"),
    ),
    ranks=4,
    steps=10,
    by=3,
)


def send_forward_recv_backward(lab: Lab, dist: object, receive_first: bool) -> None:
    """A stage's exchange with the next one."""
    exchange(lab, dist, lab.rank + 1, receive_first)


def send_backward_recv_forward(lab: Lab, dist: object, receive_first: bool) -> None:
    """A stage's exchange with the one before."""
    exchange(lab, dist, lab.rank - 1, receive_first)


def exchange(lab: Lab, dist: object, peer: int, receive_first: bool) -> None:
    """Send to a neighbour and receive from it."""
    import torch
    import torch.distributed as c10d

    del dist
    outgoing, incoming = torch.ones(1 << 16), torch.empty(1 << 16)
    if lab.changed("batched"):
        operations = [
            c10d.P2POp(c10d.isend, outgoing, peer),
            c10d.P2POp(c10d.irecv, incoming, peer),
        ]
        for request in c10d.batch_isend_irecv(operations):
            request.wait()
    elif receive_first:
        c10d.recv(incoming, src=peer)
        c10d.send(outgoing, dst=peer)
    else:
        c10d.send(outgoing, dst=peer)
        c10d.recv(incoming, src=peer)


def main(lab: Lab) -> None:
    """Run a pipeline of as many stages as ranks; neighbours exchange in pairs."""
    lab.torch()
    dist = lab.join()
    for step in range(1, lab.settings.steps + 1):
        careful = step < 3 or not lab.settings.fault or lab.changed("alternate")
        if lab.rank + 1 < lab.world and lab.rank % 2 == 0:
            send_forward_recv_backward(lab, dist, False)
        elif lab.rank % 2:
            send_backward_recv_forward(lab, dist, careful)
        log_step(lab, step, 1.0 / step)
    lab.leave(dist)
