"""``unstall reproduce`` as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.commands.running import unstall
from unstall.experiments import tree


def test_without_a_name_all_are_listed():
    done = unstall("reproduce")
    assert done.returncode == 0
    text = done.stdout.decode()
    assert "grpo-rollout-server" in text
    assert "independent-engines" in text


def test_the_list_for_programs():
    content = json.loads(unstall("reproduce", "--json").stdout)
    assert content["schema_version"] == 1
    by_name = {one["name"]: one for one in content["scenarios"]}
    assert by_name["late-tokenizing"]["causes"] == ["slow-preprocessing"]


def test_an_unknown_name_gives_near_ones():
    done = unstall("reproduce", "grpo-rolout-server")
    assert done.returncode == 2
    assert "grpo-rollout-server" in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ranks", "1"], "2 to"),
        (["--size", "seconds=1"], "is not a size"),
        (["--control", "none"], "has no control"),
    ],
)
def test_what_does_not_fit_is_told(words, told):
    done = unstall("reproduce", "late-tokenizing", *words)
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_torch_missing_names_the_command(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "from unstall.commands import main; main()", "reproduce",
         "late-tokenizing", "-o", str(tmp_path / "out")],
        env=environment, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert 'pip install "unstall[lab]"' in done.stderr.decode()


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "mine").write_text("x")
    done = unstall("reproduce", "late-tokenizing", "-o", tmp_path)
    assert done.returncode == 2
    assert "is not empty" in done.stderr.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted on Linux")
def test_control_c_stops_everything(tmp_path):
    pytest.importorskip("torch")
    tree.adopt_orphans()
    before = set(tree.below(os.getpid()))
    process = subprocess.Popen(
        [sys.executable, "-c", "from unstall.commands import main; main()", "reproduce",
         "late-tokenizing", "-o", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    tree.waited_elsewhere(process.pid)
    try:
        log = tmp_path / "out" / "raw" / "trainer-0.log"
        end = time.monotonic() + 240
        while time.monotonic() < end and not (log.exists() and log.stat().st_size):
            time.sleep(0.1)
        assert log.stat().st_size, "the ranks never started"
        assert len(set(tree.below(os.getpid())) - before) > 2
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        end = time.monotonic() + 30
        while set(tree.below(os.getpid())) - before and time.monotonic() < end:
            time.sleep(0.1)
        assert set(tree.below(os.getpid())) <= before
    finally:
        process.kill()
        process.wait()
        tree.kill_below(os.getpid(), before)
