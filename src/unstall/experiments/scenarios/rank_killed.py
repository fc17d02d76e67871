"""A rank is killed from outside, under torchrun."""

from __future__ import annotations

import os
import signal

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Ended, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._launcher import torchrun
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="rank-killed",
    causes=("unknown", "host-oom"),
    title=say("a rank is killed with SIGKILL, without a word"),
    about=say(
        "A monitor of the host's memory kills rank 1 with SIGKILL. The rank says nothing; "
        "torchrun reports exit code -9. That alone does not tell who killed it and why: the "
        "right verdict is “undecided”, with host memory as a candidate."
    ),
    module="rank_killed",
    programs=(
        ProgramSpec("monitor", "monitor", ranks=1, service=True, own_log=True, stacks=False),
        ProgramSpec("trainer", "launcher", ranks=1, own_log=True, own_torch=True),
    ),
    changes=(Change("enough-memory", say("the rank stays below the monitor's limit")),),
    fingerprint=(Says("trainer", "exitcode  : -9"), Ended("trainer", 1)),
    expect="failure",
    steps=10,
    by=6,
    stall=30.0,
    sizes={"megabytes": 160.0},
    size_texts={"megabytes": say("growth of a rank that the monitor tolerates")},
)


def monitor(lab: Lab) -> None:
    """Kill the process that grows beyond its limit, as memory monitors do."""
    import time

    import psutil

    pid = int(lab.await_file("rank1.pid", 300))
    base = psutil.Process(pid).memory_info().rss
    limit = base + lab.size("megabytes") * 1e6
    while psutil.pid_exists(pid):
        if psutil.Process(pid).memory_info().rss > limit:
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    while True:
        time.sleep(1)


def main(lab: Lab) -> None:
    """Watch, launch, or train with a growing cache."""
    if lab.role == "launcher":
        torchrun(lab, "rank_killed")
    if lab.role == "monitor":
        monitor(lab)
    lab.torch()
    lab.join()
    if lab.rank == 1:
        lab.publish("rank1.pid", str(os.getpid()))
    cache: list[bytearray] = []

    def remember(step: int) -> None:
        import time

        if lab.rank == 1 and lab.faulty and step > 2:
            cache.append(bytearray(b"x") * 60_000_000)
            time.sleep(0.1)

    if lab.rank == 0:
        say_line("caching preprocessed samples in host memory")
    loop(lab, remember)
