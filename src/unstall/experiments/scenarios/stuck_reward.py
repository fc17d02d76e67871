"""A reward function waits for ever on one sample."""

from __future__ import annotations

import subprocess
import sys

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import log_step, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="stuck-reward",
    causes=("driver-stall",),
    title=say("a reward function runs generated code that never ends"),
    about=say(
        "The driver runs a generated program to judge it, without a limit. One of them never "
        "ends: no collective runs and no watchdog speaks."
    ),
    module="stuck_reward",
    changes=(Change("per-sample-timeout", say("each program is stopped after a limit")),),
    fingerprint=(Waits("trainer rank 0", "compute_reward"),),
    ranks=1,
    least=1,
    most=1,
    steps=6,
    by=3,
    stall=6.0,
    timeout=1800.0,
)


def compute_reward(program: str, seconds: float | None) -> float:
    """1 where a generated program prints 4."""
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", program],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        say_line(f"verifier: sample stopped after {seconds} s, reward 0")
        return 0.0
    return float(done.stdout.strip() == "4")


def main(lab: Lab) -> None:
    """Train on rewards."""
    torch = lab.torch()
    dist = lab.join()
    model = torch.nn.parallel.DistributedDataParallel(tiny_model(torch))
    for step in range(1, lab.settings.steps + 1):
        reward = torch.zeros(1)
        if lab.rank == 0:
            endless = lab.settings.fault and step == 3
            program = "n = 0\nwhile n < 5: n = 0" if endless else "print(2 + 2)"
            say_line("Computing rewards")
            limit = 2.0 if lab.changed("per-sample-timeout") else None
            reward += compute_reward(program, limit)
        dist.broadcast(reward, src=0)
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        log_step(lab, step, loss.item(), reward=float(reward))
    lab.leave(dist)
