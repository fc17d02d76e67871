"""A rank grows beyond its container's memory limit: the kernel kills it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Ended, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._launcher import torchrun
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="host-memory",
    causes=("host-oom",),
    title=say("a rank grows beyond the memory limit of its container"),
    about=say(
        "Rank 1 caches preprocessed samples until it reaches the limit of its memory cgroup. "
        "The kernel kills it; the rank says nothing, torchrun reports exit code -9, the "
        "kernel's log names the process."
    ),
    module="host_memory",
    programs=(ProgramSpec("trainer", "launcher", ranks=1, own_log=True, own_torch=True),),
    changes=(
        Change("more-memory", say("a higher memory limit")),
        Change("bounded-cache", say("the cache drops old samples")),
    ),
    fingerprint=(Says("trainer", "-9"), Says("kernel", "Killed process"), Ended("trainer", 1)),
    expect="failure",
    steps=12,
    by=8,
    stall=30.0,
    needs=("linux", "root", "memory-cgroup"),
    sizes={"megabytes": 200.0},
    size_texts={"megabytes": say("growth of a rank that the limit allows, in megabytes")},
)


def enter_cgroup(lab: Lab, megabytes: float) -> None:
    """Move this process into a memory cgroup with so much room above what it uses now."""
    import psutil

    first = Path("/sys/fs/cgroup/memory")
    root = first if first.is_dir() else Path("/sys/fs/cgroup")
    group = root / f"unstall-{lab.folder.name}"
    group.mkdir(exist_ok=True)
    with (lab.folder / "cgroups").open("a", encoding="utf-8") as file:
        file.write(f"{group}\n")
    limit = int(psutil.Process().memory_info().rss * 0.2 + megabytes * 1e6)
    name = "memory.limit_in_bytes" if root == first else "memory.max"
    (group / name).write_text(str(limit))
    swap = group / ("memory.memsw.limit_in_bytes" if root == first else "memory.swap.max")
    if swap.exists():
        swap.write_text(str(limit) if root == first else "0")
    (group / "cgroup.procs").write_text(str(os.getpid()))


def main(lab: Lab) -> None:
    """Launch, or train with a growing cache."""
    if lab.role == "launcher":
        torchrun(lab, "host_memory")
    lab.torch()
    lab.join()
    if lab.rank == 1 and lab.settings.fault:
        more = 40 if lab.changed("more-memory") else 1
        enter_cgroup(lab, lab.size("megabytes") * more)
    cache: list[bytearray] = []

    def remember(step: int) -> None:
        if lab.rank == 1 and lab.settings.fault and step > 2:
            cache.append(bytearray(b"x") * 60_000_000)
            if lab.changed("bounded-cache"):
                del cache[:-1]
            time.sleep(0.05)

    if lab.rank == 0:
        say_line("caching preprocessed samples in host memory")
    loop(lab, remember)
