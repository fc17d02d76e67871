"""The scheduler of ``preempted``: what it says and does to its tasks, and what it leaves."""

import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.closing import close
from unstall.experiments.library import find
from unstall.experiments.nurse import Nurse
from unstall.experiments.runner import run_scenario
from unstall.experiments.scenarios import preempted
from unstall.processes import tree

pytest.importorskip("psutil")
linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")

RUN = """
from pathlib import Path
from unstall.experiments.choose import settings_for
from unstall.experiments.library import find
from unstall.experiments.nurse import Nurse
from unstall.experiments.runner import run_scenario
scenario = find("preempted")[0]
with Nurse() as nurse:
    run_scenario(scenario, settings_for(scenario), Path("out"), nurse)
"""


def lab(folder, grace=0.3):
    """What a scheduler knows of its run: three ranks, a grace time in seconds."""
    return SimpleNamespace(
        folder=folder,
        settings=SimpleNamespace(ranks=3, steps=24, fault=True, control=""),
        timeouts=lambda count: count * grace,
        size=lambda _: 0.1,
    )


def tasks(monkeypatch, program):
    """Let each task run this instead of training; its rank is given."""
    monkeypatch.setattr(preempted, "Lab", lambda: SimpleNamespace(rank=int(os.environ["RANK"])))
    monkeypatch.setattr(preempted, "train", lambda own: program(own.rank))


@pytest.mark.parametrize(
    ("numbers", "text"), [([0], "0"), ([0, 1], "0-1"), ([0, 1, 2, 4, 6, 7], "0-2,4,6-7")]
)
def test_tasks_are_named_as_srun_names_them(numbers, text):
    assert preempted._ranges(numbers) == text


def test_a_task_that_does_not_end_at_sigterm_is_killed(tmp_path, monkeypatch, capfd):
    def train(rank):
        if rank == 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / f"ready{rank}").touch()
        time.sleep(600)

    tasks(monkeypatch, train)
    job = preempted.Job(lab(tmp_path))
    pids = list(job.running)
    while len(list(tmp_path.glob("ready*"))) < 3:
        assert not job.wait(0.02)
    job.preempt()
    assert job.codes == {0: -15, 1: -9, 2: -15}
    assert not any(tree.alive(pid) for pid in pids)
    assert job.report() == 143
    lines = capfd.readouterr().out.splitlines()
    assert [re.sub("AT .* DUE", "AT X DUE", line) for line in lines] == [
        "slurmstepd: error: *** STEP 4711.0 ON node01 CANCELLED AT X DUE TO PREEMPTION ***",
        "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT X DUE TO PREEMPTION ***",
        "srun: error: node01: tasks 0,2: Terminated",
        "srun: error: node01: task 1: Killed",
    ]


def test_a_job_that_fails_by_itself_is_not_put_back(tmp_path, monkeypatch, capfd):
    def train(rank):
        (tmp_path / f"start{os.getpid()}").touch()
        if rank == 2:
            raise ValueError

    tasks(monkeypatch, train)
    assert preempted.schedule(lab(tmp_path)) == 1
    assert len(list(tmp_path.glob("start*"))) == 3
    assert capfd.readouterr().out == "srun: error: node01: task 2: Exited with exit code 1\n"


def test_a_preempted_job_is_put_back_so_often_and_no_more(tmp_path, monkeypatch, capfd):
    def train(_rank):
        (tmp_path / "training").touch()
        time.sleep(600)

    tasks(monkeypatch, train)
    assert preempted.schedule(lab(tmp_path, grace=5)) == 143
    assert capfd.readouterr().out.count("STEP 4711.0") == 3  # 24 steps: put back twice


def test_the_newest_checkpoint_is_the_one_with_the_highest_number(tmp_path):
    assert preempted.last_checkpoint(tmp_path / "output") is None
    for name in ("checkpoint-5", "checkpoint-10", "tmp-checkpoint-15"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.pt").touch()
    (tmp_path / "checkpoint-20").mkdir()  # was cut off before anything was in it
    assert preempted.last_checkpoint(tmp_path) == tmp_path / "checkpoint-10" / "state.pt"


# --- real runs -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nurse():
    pytest.importorskip("torch")
    with Nurse() as one:
        yield one


def run(nurse, folder, **more):
    scenario = find("preempted")[0]
    return scenario, run_scenario(scenario, settings_for(scenario, **more), folder, nurse)


def test_each_allocation_begins_at_the_first_step_and_that_is_diagnosed(nurse, tmp_path):
    scenario, done = run(nurse, tmp_path, steps=36, sizes=["times=0.1"])
    assert done.outcome == "failed"
    assert done.step < 36
    log = (tmp_path / "evidence" / "trainer.log").read_text()
    assert log.count("STEP 4711.0") == 4
    assert log.count("': '1/36'") > 1
    assert "Continuing training" not in log
    closing = close(scenario, done)
    assert closing.verdict == "preempted"
    assert [mark.text.render() for mark in closing.marks if not mark.found] == []
    assert tree.below(nurse.pid) == []


def test_what_was_saved_at_sigterm_is_resumed_from(nurse, tmp_path):
    _, done = run(nurse, tmp_path, changes=("save-and-resume",))
    assert (done.outcome, done.step) == ("finished", 60)
    log = (tmp_path / "evidence" / "trainer.log").read_text()
    assert log.count("STEP 4711.0") >= 1
    assert "srun: error" not in log  # every rank ended well within the grace time
    resumed = [int(step) for step in re.findall(r"global step (\d+)", log)]
    assert len(resumed) == log.count("STEP 4711.0")
    steps = [int(step) for step in re.findall(r"': '(\d+)/60'", log)]
    assert steps == list(range(1, 61))  # none lost, none twice
    saved = [int(step) for step in re.findall(r"output/checkpoint-(\d+)", log)]
    assert set(resumed) <= set(saved)
    assert done.survivors == ()


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=str)
def test_no_task_outlives_the_call(tmp_path, number):
    pytest.importorskip("torch")
    private = tmp_path / "tmp"
    private.mkdir()
    call = subprocess.Popen(
        [sys.executable, "-c", RUN], cwd=tmp_path, env={**os.environ, "TMPDIR": str(private)}
    )
    try:
        until(lambda: list(private.glob("unstall-*/training")))
        started = tree.below(call.pid)
        assert len(started) == 4  # what loads torch, the scheduler, two tasks
        call.send_signal(number)
        call.wait(120)
        until(lambda: not any(tree.alive(pid) for pid in started))
        until(lambda: not list(private.iterdir()))
    finally:
        call.kill()
        call.wait()


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
