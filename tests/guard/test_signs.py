"""What the kernel tells of processes: real ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unstall.guard import tcp
from unstall.guard.signs import Change, Signs, signs

pytest.importorskip("psutil")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own words")


@contextmanager
def running(code: str, *words: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def twice(pid: int, seconds: float = 1.0) -> tuple[Signs, Signs]:
    first = signs([pid])
    time.sleep(seconds)
    return first, signs([pid])


IDLE = "import os\nprint(1, flush=True)\nos.read(os.pipe()[0], 1)"
BUSY = "print(1, flush=True)\nwhile True: pass"
SLEEP = "import time\nprint(1, flush=True)\ntime.sleep(600)"
WRITE = """
import sys, time
print(1, flush=True)
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        file.write(bytes(1 << 16))
        file.seek(0)
        time.sleep(0.05)
"""


def test_work_and_idleness() -> None:
    with running(IDLE) as pid:
        change = Change(*twice(pid))
        assert not change.works(pid)
        assert not change.waits(pid)
        assert not change.new(pid)
    with running(BUSY) as pid:
        change = Change(*twice(pid))
        assert change.works(pid)
        assert change.only_cpu(pid)


@linux
def test_a_file_that_is_written_and_a_sleep(tmp_path: Path) -> None:
    with running(WRITE, str(tmp_path / "file")) as pid:
        change = Change(*twice(pid))
        assert change.cpu(pid) < 0.25
        assert not change.only_cpu(pid)
    with running(SLEEP) as pid:
        change = Change(*twice(pid, 0.2))
        assert change.waits(pid)
        assert not change.works(pid)


@linux
def test_connections_and_who_is_at_their_other_ends() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        code = (
            "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
            "print(1, flush=True); s.recv(1 << 20, socket.MSG_WAITALL)"
        )
        with running(code, str(server.getsockname()[1])) as pid:
            peer, _ = server.accept()
            before = tcp.traffic([pid])
            peer.sendall(bytes(300_000))
            time.sleep(0.3)
            after = tcp.traffic([pid])
            within = tcp.traffic([pid, os.getpid()])
            peer.close()
    if before is None or after is None or within is None:
        pytest.skip("the kernel tells nothing of connections here")
    assert sum(after.carried[pid].values()) - sum(before.carried[pid].values()) >= 300_000
    assert pid in after.outward
    assert pid not in within.outward


@linux
def test_a_process_that_waits_for_a_disk(tmp_path: Path) -> None:
    # a parent of vfork waits as one does for a disk, here until somebody opens the pipe
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = (
        "import os, sys; print(1, flush=True); os.posix_spawn('/bin/true', ['true'], {},"
        " file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])"
    )
    with running(code, str(pipe)) as pid:
        end = time.monotonic() + 20
        while not signs([pid]).processes[pid].disk and time.monotonic() < end:
            time.sleep(0.05)
        change = Change(*twice(pid, 0.1))
        assert change.waits(pid)
        with pipe.open("wb"):
            pass


@linux
def test_how_many_ranks_there_are() -> None:
    code = "import os; print(1, flush=True); os.read(os.pipe()[0], 1)"
    given = {**os.environ, "WORLD_SIZE": "16", "SLURM_NTASKS": "2"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=given)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert signs([process.pid]).processes[process.pid].world == 16
    finally:
        process.kill()
        process.communicate()


def test_what_has_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert signs([process.pid]).processes == {}
    change = Change(signs([]), signs([os.getpid()]))
    assert change.new(os.getpid())
    assert (change.cpu(os.getpid()), change.bytes(os.getpid())) == (0, 0)
