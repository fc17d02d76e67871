"""Nothing of a run outlives it, however the process that started it ends."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstall.experiments.nurse import Nurse
from unstall.experiments.outcome import End
from unstall.experiments.scripts.run import run_script
from unstall.experiments.until import Until
from unstall.processes import tree

psutil = pytest.importorskip("psutil")
linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")

SCRIPT = """
echo $$ >> pids
setsid nohup sleep 600 >/dev/null 2>&1 &
echo $! >> pids
(trap '' TERM HUP INT; echo $BASHPID >> pids; sleep 600; sleep 600) &
python3 -c '
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("pids", "a").write(f"{os.getpid()}\\n")
time.sleep(600)'
kill -STOP %1
echo ready >> pids
sleep 600
"""
RUN_SCRIPT = """
import sys
from pathlib import Path
from unstall.experiments.interrupts import stop_once
from unstall.experiments.scripts.run import run_script
from unstall.experiments.until import Until
stop_once()
run_script(
    Path("copy.sh"), Path("out"), name="A1", until=Until(), stall=600, limit=600, environment={},
    tell=lambda *_: None, remove=[Path("private")],
)
"""
RUN_SCENARIO = """
from pathlib import Path
from unstall.experiments.choose import settings_for
from unstall.experiments.interrupts import stop_once
from unstall.experiments.library import find
from unstall.experiments.nurse import Nurse
from unstall.experiments.runner import run_scenario
stop_once()
scenario = find("late-tokenizing")[0]
with Nurse() as nurse:
    run_scenario(scenario, settings_for(scenario), Path("out"), nurse)
"""


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def end_by(process: subprocess.Popen, signals) -> None:
    for one in signals:
        process.send_signal(one)
        time.sleep(0.1)
    process.wait(120)


ENDS = [
    [signal.SIGKILL],
    [signal.SIGHUP],
    [signal.SIGTERM, signal.SIGTERM, signal.SIGINT],
    [signal.SIGINT, signal.SIGINT, signal.SIGHUP],
]


@linux
@pytest.mark.parametrize("signals", ENDS, ids=str)
def test_no_process_of_a_script_outlives_the_call(tmp_path, signals):
    (tmp_path / "copy.sh").write_text(SCRIPT)
    (tmp_path / "private").mkdir()
    pids = tmp_path / "pids"
    call = subprocess.Popen([sys.executable, "-c", RUN_SCRIPT], cwd=tmp_path)
    try:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 5)
        started = [int(line) for line in pids.read_text().split() if line.isdigit()]
        end_by(call, signals)
        until(lambda: not any(tree.alive(pid) for pid in started))
        if signals == [signal.SIGKILL]:  # in the other cases the caller still can
            until(lambda: sorted(os.listdir(tmp_path)) == ["out", "pids"])
            assert os.listdir(tmp_path / "out") == ["evidence"]
    finally:
        call.kill()
        call.wait()


@linux
@pytest.mark.parametrize("signals", [ENDS[0], ENDS[3]], ids=str)
def test_no_process_or_folder_of_a_scenario_outlives_the_call(tmp_path, signals):
    pytest.importorskip("torch")
    private = tmp_path / "tmp"
    private.mkdir()
    call = subprocess.Popen(
        [sys.executable, "-c", RUN_SCENARIO],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(private)},
    )
    try:
        until(lambda: len(tree.below(call.pid)) >= 3 and list(private.glob("unstall-*/*")))
        started = tree.below(call.pid)
        end_by(call, signals)
        until(lambda: not any(tree.alive(pid) for pid in started))
        until(lambda: not list(private.iterdir()))
    finally:
        call.kill()
        call.wait()


@pytest.mark.parametrize(
    ("line", "code"), [("exit 3", 3), ("kill -9 $$", -9), ("kill -SEGV $$", -11), ("true", 0)]
)
def test_the_end_of_a_script_is_told_as_it_was(tmp_path, line, code):
    (tmp_path / "own.sh").write_text(line + "\n")
    done = run_script(
        tmp_path / "own.sh", tmp_path, name="A1", until=Until(), stall=60, limit=60,
        environment={}, tell=lambda *_: None,
    )  # fmt: skip
    assert (done.ends, done.outcome) == (
        (End("script", 0, code),),
        "failed" if code else "finished",
    )


def test_modules_in_the_users_folder_are_not_taken_for_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("json", "psutil", "unstall", "select", "torch", "random"):
        Path(f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    Path("own.sh").write_text("echo step 1\n")
    with Nurse() as nurse:  # its process loads torch: the one that is installed
        if importlib.util.find_spec("torch") is not None:
            nurse.open()
    done = run_script(
        Path("own.sh"), tmp_path, name="A1", until=Until(), stall=60, limit=60,
        environment={}, tell=lambda *_: None,
    )  # fmt: skip
    assert (done.outcome, done.step) == ("finished", 1)
