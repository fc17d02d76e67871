"""The limit of processes and threads is too low for the loader's workers."""

from __future__ import annotations

import os
import threading
import time

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Ended, Says, Scenario
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="thread-limit",
    causes=("process-limit",),
    title=say("the limit of processes is too low for the loader's threads"),
    about=say(
        "Each rank starts prefetching threads. The user's limit of processes (ulimit -u) counts "
        "threads too and is reached on the way."
    ),
    module="thread_limit",
    changes=(
        Change("higher-limit", say("a higher limit of processes (ulimit -u)")),
        Change("fewer-threads", say("fewer threads a rank")),
    ),
    fingerprint=(Says("trainer", "can't start new thread"), Ended("trainer", 1)),
    expect="failure",
    steps=6,
    by=0,
    stall=20.0,
    needs=("linux",),
    sizes={"threads": 24},
    size_texts={"threads": say("prefetching threads a rank")},
)
#: A user id that has no other processes: limits count all processes of a user.
USER = 61_234


def limit_processes(room: int) -> None:
    """Let this user start only so many processes and threads more."""
    import resource

    if os.geteuid() == 0:  # root is exempt: become somebody else
        os.setgid(USER)
        os.setuid(USER)
        used = 0
    else:
        import psutil

        mine = os.getuid()
        used = sum(
            process.info["num_threads"] or 1
            for process in psutil.process_iter(["uids", "num_threads"])
            if process.info["uids"] is not None and process.info["uids"].real == mine
        )
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (used + room, hard))


def start_prefetching(count: int) -> list[threading.Thread]:
    """Threads that read ahead."""
    threads = []
    for number in range(count):
        thread = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
        thread.start()
        threads.append(thread)
        say_line(f"prefetching thread {number} started")
    return threads


def main(lab: Lab) -> None:
    """Start the loader's threads, then train."""
    lab.torch()
    lab.join()
    count = int(lab.size("threads"))
    if lab.settings.fault:
        room = 12 * lab.world if not lab.changed("higher-limit") else 400 * lab.world
        limit_processes(room)
    start_prefetching(2 if lab.changed("fewer-threads") else count)
    loop(lab, lambda _step: None)
