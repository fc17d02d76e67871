"""A rank is stopped by a signal in the middle of training; the others wait for it."""

from __future__ import annotations

import os
import signal
import time

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, ProgramSpec, Scenario, Waits
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="rank-stopped",
    causes=("unknown",),
    title=say("a rank is stopped by a signal (SIGSTOP)"),
    about=say(
        "Somebody looks into rank 1 and stops it for that, as a debugger, kill -STOP, a frozen "
        "container or a suspended machine does. The rank lives, says nothing and computes nothing; "
        "the others wait in a collective until its time-out. No line of any log tells that. The "
        "list of processes does (state T): the right verdict is “undecided”, naming the "
        "stopped rank, for who stopped it and why stands nowhere."
    ),
    module="rank_stopped",
    programs=(
        ProgramSpec("operator", "operator", ranks=1, service=True, own_log=True, stacks=False),
        ProgramSpec("trainer", "rank"),
    ),
    changes=(
        Change("continue-in-time", say("SIGCONT before the group's time-out")),
        Change("look-without-stopping", say("the rank is looked at without being stopped")),
    ),
    fingerprint=(Waits("trainer rank 0", "all_reduce"), Waits("trainer rank 2", "all_reduce")),
    ranks=3,
    least=3,
    steps=10,
    by=5,
    needs=("linux",),
)


def operator(lab: Lab) -> None:
    """Look into rank 1 once it trains."""
    import psutil

    pid = int(lab.await_file("rank1.pid", 300))
    process = psutil.Process(pid)
    if lab.settings.fault and not lab.changed("look-without-stopping"):
        os.kill(pid, signal.SIGSTOP)
        if lab.changed("continue-in-time"):
            time.sleep(lab.timeouts(0.25))
            os.kill(pid, signal.SIGCONT)
    say_line(f"{process.num_threads()} threads, {process.memory_info().rss >> 20} MiB")
    while True:
        time.sleep(1)


def reduce_statistics(value: object) -> None:
    """Statistics of all ranks."""
    import torch.distributed as dist

    dist.all_reduce(value)


def main(lab: Lab) -> None:
    """Look into a rank, or train with a reduction after each step."""
    if lab.role == "operator":
        operator(lab)
    torch = lab.torch()
    lab.join()

    def reduce(step: int) -> None:
        if lab.rank == 1 and step == 5:
            lab.publish("rank1.pid", str(os.getpid()))
            time.sleep(0.5)  # the loader has nothing ready for a moment
        reduce_statistics(torch.ones(3))

    loop(lab, reduce)
