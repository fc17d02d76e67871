from __future__ import annotations

from unstall.reading.writers.dataloader import LoaderDeaths


def test_a_killed_worker_is_told_once(read, sample):
    (end,) = read(LoaderDeaths, sample("ends/dl.log"))
    assert (end.reporter, end.pid, end.exit_code, end.signal) == (
        "dataloader",
        16491,
        -9,
        "SIGKILL",
    )
    assert end.place.line == 22


def test_a_bus_error_means_shared_memory(read, sample):
    facts = read(LoaderDeaths, sample("ends/dlbus.log"))
    assert [type(fact).__name__ for fact in facts] == [
        "ResourceLimit",
        "ProcessEnd",
        "ResourceLimit",
    ]
    assert (facts[1].pid, facts[1].exit_code) == (17148, -7)
    assert {fact.kind for fact in facts if hasattr(fact, "kind")} == {"shm"}


def test_an_exit_code(read):
    (end,) = read(
        LoaderDeaths,
        "RuntimeError: DataLoader worker (pid 32) exited unexpectedly with exit code 1. Details\n",
    )
    assert (end.pid, end.exit_code) == (32, 1)


def test_an_end_without_a_reason(read):
    (end,) = read(
        LoaderDeaths, "RuntimeError: DataLoader worker (pid(s) 5, 6) exited unexpectedly\n"
    )
    assert (end.pid, end.exit_code, end.signal) == (5, None, None)
