"""Two samples of a job's stacks, written as py-spy writes them, and what they show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstall.guard.look import Look, Sample, compare, look, read_sample

COLLECTIVE = """    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:81)
    train (run_it.py:{line})
    <module> (run_it.py:90)"""
WORK = """    tokenize (corpus.py:{line})
    train (run_it.py:40)
    <module> (run_it.py:90)"""
LAUNCHER = """    poll (multiprocessing/popen_fork.py:27)
    _invoke_run (torch/distributed/elastic/agent/server/api.py:{line})
    run (torch/distributed/run.py:883)
    <module> (torchrun:8)"""


def one(pid: int, rank: int | None, frames: str, line: int = 1, state: str = "idle") -> str:
    heading = f"##### rank {rank}, pid {pid}\n" if rank is not None else ""
    command = "python -u run_it.py" if rank is not None else "python /opt/bin/torchrun run_it.py"
    return (
        f"{heading}Process {pid}: {command}\nPython v3.11.7 (/opt/bin/python3.11)\n\n"
        f'Thread {pid} ({state}): "MainThread"\n{frames.format(line=line)}\n'
    )


def sampled(
    folder: Path, *texts: str, cpu: dict[int, float] | None = None, at: float = 0
) -> Sample:
    path = folder / "stacks.txt"
    path.write_text("\n".join(texts))
    return read_sample(path, cpu or {}, at)


def test_one_waits_and_the_other_does_not_move(tmp_path: Path) -> None:
    texts = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7), one(13, 2, COLLECTIVE))
    found = compare(sampled(tmp_path, *texts), sampled(tmp_path, *texts, at=3))
    assert found.kind == "stuck"
    said = found.said.render()
    assert "ranks 0, 2 in a collective" in said
    assert "rank 1 elsewhere" in said
    assert "tokenize (corpus.py:7)" in said


def test_all_wait(tmp_path: Path) -> None:
    texts = (one(11, 0, COLLECTIVE), one(12, 1, COLLECTIVE, 3))
    found = compare(sampled(tmp_path, *texts), sampled(tmp_path, *texts, at=3))
    assert (found.kind, "all of ranks 0, 1" in found.said.render()) == ("stuck", True)


def test_whom_they_wait_for_is_at_work(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    after = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK, 9), at=3)
    found = compare(before, after)
    assert found.kind == "late"
    assert "rank 1 still at work (tokenize (corpus.py:9))" in found.said.render()


def test_the_same_frames_and_a_busy_processor(tmp_path: Path) -> None:
    texts = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    before = sampled(tmp_path, *texts, cpu={11: 5.0, 12: 5.0})
    assert compare(before, sampled(tmp_path, *texts, cpu={11: 5.0, 12: 7.5}, at=3)).kind == "late"
    # a library that spins while it waits is not at work
    assert compare(before, sampled(tmp_path, *texts, cpu={11: 8.0, 12: 5.1}, at=3)).kind == "stuck"


def test_the_waiting_ones_moved_on(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE, 4), one(12, 1, COLLECTIVE, 4))
    after = sampled(tmp_path, one(11, 0, COLLECTIVE, 5), one(12, 1, COLLECTIVE, 4), at=3)
    assert compare(before, after).kind == "moving"


def test_a_launcher_that_looks_around_does_no_work(tmp_path: Path) -> None:
    ranks = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    before = sampled(tmp_path, one(10, None, LAUNCHER, 1), *ranks)
    after = sampled(tmp_path, one(10, None, LAUNCHER, 2), *ranks, at=3)
    assert compare(before, after).kind == "stuck"


def test_nobody_in_a_collective(tmp_path: Path) -> None:
    texts = (one(11, 0, WORK, 5), one(12, 1, WORK, 5))
    before = sampled(tmp_path, *texts)
    assert compare(before, sampled(tmp_path, *texts, at=3)).kind == "still"
    assert compare(before, sampled(tmp_path, texts[0], one(12, 1, WORK, 6), at=3)).kind == "moving"


def test_a_process_that_was_not_there_before(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE))
    after = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK), at=3)
    assert compare(before, after).kind == "late"


def test_no_stacks() -> None:
    nothing = Sample({}, (), {}, 0.0)
    assert compare(nothing, nothing).kind == "unseen"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import time\ndef idle():\n    time.sleep(600)\nidle()", "still"),
        ("def busy():\n    while True:\n        sum(range(1000))\nbusy()", "moving"),
    ],
)
def test_a_living_process(code: str, kind: str) -> None:
    pytest.importorskip("psutil")
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        found: Look | None = None
        for _ in range(20):  # until it has come to its loop
            time.sleep(0.5)
            found = look(lambda: [process.pid], gap=1.0)
            if found.kind == kind:
                break
        assert found is not None
        if found.kind == "unseen":
            pytest.skip("py-spy may not look at processes here")
        assert found.kind == kind
        assert len(found.texts) == 2
        assert f"Process {process.pid}" in found.texts[1]
    finally:
        process.kill()
        process.wait()


def test_a_look_that_is_no_longer_wanted() -> None:
    assert look(lambda: [os.getpid()], gap=60.0, wait=lambda _: True).kind == "moving"
