"""Real gloo jobs that hang on purpose, dumped while they do."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unstall.recorder import RecorderVerdict, analyse, findings, load

WORKER = Path(__file__).with_name("gloo_worker.py")
Hang = Callable[[str], RecorderVerdict]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is only there with the test extra"
)


@pytest.fixture(scope="module")
def hang(tmp_path_factory: pytest.TempPathFactory) -> Hang:
    """Run all scenarios to their hang; gives the verdict on one scenario's dumps."""
    folder = tmp_path_factory.mktemp("gloo")
    subprocess.run(
        [sys.executable, str(WORKER), str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stderr=subprocess.DEVNULL, timeout=120, check=True,
    )  # fmt: skip

    def verdict(name: str) -> RecorderVerdict:
        files = sorted((folder / name).glob("gloo_trace_rank_*"))
        assert len(files) == 3
        return analyse(load(files))

    return verdict


def test_an_absent_rank(hang: Hang) -> None:
    verdict = hang("absent")
    (suspect,) = verdict.suspects
    assert (suspect.rank, suspect.kind, suspect.waiting) == (1, "absent", (0, 2))
    assert suspect.operation.frames[0][0] == "wait_here"
    assert suspect.own.op == "barrier"
    assert suspect.operation.seq == suspect.own.seq + 1


def test_another_operation(hang: Hang) -> None:
    verdict = hang("operation")
    (suspect,) = verdict.suspects
    assert (suspect.rank, suspect.kind) == (2, "other-operation")
    assert (suspect.own.op, suspect.operation.op) == ("broadcast", "all_reduce")
    assert suspect.own.frames[0][0] == "elsewhere"
    assert findings(verdict)[0].cause == "rank-dependent-branch"


def test_another_order_over_two_groups(hang: Hang) -> None:
    verdict = hang("order")
    (suspect,) = verdict.suspects
    assert (suspect.rank, suspect.kind) == (2, "order-deadlock")
    names = {step.operation.group.name for step in verdict.cycles[0].steps}
    assert names == {"first", "second"}


def test_an_early_exception(hang: Hang) -> None:
    verdict = hang("exception")
    (suspect,) = verdict.suspects
    assert (suspect.rank, suspect.kind, suspect.waiting) == (0, "absent", (1, 2))
