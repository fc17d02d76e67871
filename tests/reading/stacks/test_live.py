"""Real processes that hang, seen by the real py-spy."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.reading.stacks.feeding import stacks
from unstall.model.facts import ProcessStack
from unstall.stacks import group, wait_of

PROGRAMS = Path(__file__).parent / "programs"
PY_SPY = Path(sys.executable).with_name("py-spy")


@contextlib.contextmanager
def running(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The program, once it has said that it is about to wait."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / program), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: its children too
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def say_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def dump(process: subprocess.Popen[str], *options: str) -> str:
    done = subprocess.run(
        [str(PY_SPY), "dump", "--pid", str(process.pid), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(
            "py-spy could not look into a process of this test. It needs the right to trace other "
            "processes: run as root, with SYS_PTRACE, or with kernel.yama.ptrace_scope=0. "
            f"It said: {done.stderr.strip()[:500]}"
        )
    return done.stdout


def settled(
    process: subprocess.Popen[str], kind: str, *options: str, within: str | None = None
) -> ProcessStack:
    """The dump in which the process waits; it may not be there yet when it says so."""
    one = None
    for _ in range(20):
        (one, *_) = stacks(dump(process, *options))
        there = one.within.function.rpartition(".")[2] if one.within is not None else None
        if one.waits_for == kind and within in (None, there):
            break
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("thing", "kind", "options", "within"),
    [
        ("queue", "queue", (), "Queue.get"),
        ("pipe", "pipe", ("--nonblocking",), "Connection._recv"),
        ("event", "lock", (), "Condition.wait"),
        ("process", "process", (), "Popen._try_wait"),
        ("http", "http", (), "HTTPResponse._read_status"),
        ("computing", "computing", ("--json",), "for_computing"),
    ],
)
def test_waits_seen_from_python_frames(
    thing: str, kind: str, options: tuple[str, ...], within: str
) -> None:
    with running("wait_for.py", thing) as process:
        say_ready(process)
        one = settled(process, kind, *options, within=within.rpartition(".")[2])
    assert one.pid == process.pid
    assert one.waits_for == kind
    assert one.within is not None
    # Python up to 3.10 does not give py-spy the class of a function.
    assert one.within.function in (within, within.rpartition(".")[2])
    caller = wait_of(one.threads[0]).caller
    assert kind == "computing" or (caller is not None and caller.function == f"for_{thing}")


@pytest.mark.skipif(sys.platform != "linux", reason="py-spy reads native frames on Linux only")
@pytest.mark.parametrize(
    ("thing", "kind"), [("lock", "lock"), ("sleep", "sleep"), ("disk", "disk")]
)
def test_waits_seen_from_native_frames(thing: str, kind: str) -> None:
    with running("wait_for.py", thing) as process:
        say_ready(process)
        one = settled(process, kind, "--native")
    assert (one.pid, one.waits_for) == (process.pid, kind)
    assert any(frame.function == f"for_{thing}" for frame in one.threads[0].frames)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_two_ranks_one_of_which_never_comes() -> None:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = str(asked.getsockname()[1])
    program = "wait_in_collective.py"
    with running(program, "0", port) as first, running(program, "1", port) as second:
        say_ready(first)
        say_ready(second)
        waiting = settled(first, "collective")
        absent = settled(second, "unknown")
    assert waiting.within is not None
    assert waiting.within.function == "all_reduce"
    assert waiting.within.file.endswith("torch/distributed/distributed_c10d.py")
    assert absent.waits_for == "unknown"
    # One of two is no majority.
    assert [one.standing for one in group([waiting, absent])] == ["tie", "tie"]
