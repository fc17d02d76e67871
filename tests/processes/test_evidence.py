"""What evidence says of living processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from unstall.processes.evidence import rank_of, stacks

pytest.importorskip("psutil")

CHILD = (
    "import subprocess, sys, time\n"
    "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(one.pid, flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, 5),
        ({"RANK": "3"}, None),  # a platform's number of the node
        ({"RANK": "three", "LOCAL_RANK": "1"}, None),
        ({}, None),
    ],
)
def test_a_rank_is_a_process_that_a_launcher_gave_one(variables, rank):
    own = {name: value for name, value in os.environ.items() if "RANK" not in name}
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD], env={**own, **variables}, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert rank_of(process.pid) == rank
        # what it starts has the same variables and is no rank of its own
        assert rank_of(child) is None
    finally:
        os.kill(child, 9)
        process.kill()
        process.wait()


def test_a_process_that_has_gone_has_neither_rank_nor_stack(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert rank_of(process.pid) is None
    assert not stacks([process.pid], tmp_path / "stacks.txt")
    assert list(tmp_path.iterdir()) == []


def test_stacks_stand_in_the_order_of_the_processes(tmp_path):
    processes = [
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(600 + {number})"])
        for number in range(3)
    ]
    try:
        time.sleep(2)
        path = tmp_path / "stacks.txt"
        if not stacks([one.pid for one in processes], path):
            pytest.skip("py-spy may not look at processes here")
        seen = [line for line in path.read_text().splitlines() if line.startswith("Process ")]
        assert [int(line.split()[1].rstrip(":")) for line in seen] == [one.pid for one in processes]
    finally:
        for one in processes:
            one.kill()
            one.wait()
