"""The limit of processes and threads is too low for the loader's workers."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import zlib

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
#: User ids that have no other processes: limits count all processes of a user. Each run takes one
#: of them, so that runs do not count each other's.
FIRST_USER, USERS = 61_000, 4000
_VERSION_3 = 0x20080522
_EXEMPTING = (21, 24)  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE


def become_limited(user: int) -> None:
    """Let root count as ``user``, and be limited; for files it stays root.

    Linux counts processes by the real user id, and exempts id 0 and whoever has one of two
    capabilities (kernel/fork.c, copy_process); files are opened with the effective user id.
    """
    os.setresuid(user, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "the capabilities could not be read")
    for number in _EXEMPTING:
        sets[0] &= ~(1 << number)  # the effective ones below 32
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "the capabilities could not be dropped")


def limit_processes(room: int, run: str) -> None:
    """Let this user start only so many processes and threads more."""
    import resource

    if os.geteuid() == 0:  # root is exempt: become somebody else
        become_limited(FIRST_USER + zlib.crc32(run.encode()) % USERS)
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
        limit_processes(room, lab.folder.name)
    start_prefetching(2 if lab.changed("fewer-threads") else count)
    loop(lab, lambda _step: None)
