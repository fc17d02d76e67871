"""What this machine adds to a plan, from made-up findings and from a port that is really taken."""

from __future__ import annotations

import socket

import pytest

from tests.launch.plans import judgements, plan, verdict
from unstall.launch.machine import Machine, listening, look, with_machine

TEXT = "CUDA_VISIBLE_DEVICES=0,3 torchrun --nproc_per_node 2 --master_port {} a.py\n"


def test_a_device_that_is_not_there() -> None:
    found = with_machine(plan(TEXT.format(29501)), Machine(devices=2))
    assert verdict(found, "devices of this machine") == "conflict"


def test_a_device_in_use() -> None:
    found = with_machine(plan(TEXT.format(29501)), Machine(devices=4, busy=(9000, 0, 0, 0)))
    assert verdict(found, "devices of this machine") == "suspicious"


def test_enough_devices() -> None:
    found = with_machine(plan(TEXT.format(29501)), Machine(devices=4, busy=(0, 0, 0, 0)))
    assert verdict(found, "devices of this machine") == "ok"


def test_small_shared_memory() -> None:
    small = with_machine(plan(TEXT.format(29501)), Machine(shm=(64 << 20, 60 << 20)))
    large = with_machine(plan(TEXT.format(29501)), Machine(shm=(64 << 30, 60 << 30)))
    assert verdict(small, "/dev/shm") == "conflict"  # noqa: S108
    assert verdict(large, "/dev/shm") == "ok"  # noqa: S108


def test_low_limits() -> None:
    found = with_machine(plan(TEXT.format(29501)), Machine(processes=512, files=1024))
    assert verdict(found, "ulimit -u") == "suspicious"
    assert verdict(found, "ulimit -n") == "suspicious"
    free = with_machine(plan(TEXT.format(29501)), Machine(processes=-1, files=1 << 20))
    assert judgements(free, "ulimit -u") == judgements(free, "ulimit -n") == []


def test_a_port_that_is_taken() -> None:
    if listening() is None:
        pytest.skip("no /proc/net/tcp here")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = with_machine(plan(TEXT.format(port)), Machine(ports=listening()))
    row = judgements(found, "ports in use")
    assert [(j.judgement, j.values) for j in row] == [("conflict", {"trainer": str(port)})]


def test_devices_from_the_drivers_listing() -> None:
    asked: list[list[str]] = []

    def run(command: list[str]) -> str:
        asked.append(command)
        return "0, 12\n1, 30500\n"

    found = look(run)
    assert (found.devices, found.busy) == (2, (12, 30500))
    assert asked[0][0] == "nvidia-smi"
    assert look(lambda _: None).devices is None
