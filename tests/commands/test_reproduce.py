"""``unstall reproduce`` as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.commands.running import unstall
from unstall.experiments.library import all_scenarios
from unstall.processes import tree


def test_without_a_name_all_are_listed_shortly():
    done = unstall("reproduce")
    assert done.returncode == 0
    text = done.stdout.decode()
    for one in all_scenarios():
        assert f"  {one.name}  " in text
    assert "unstall reproduce NAME --about" in text
    assert len(text.splitlines()) < 3 * len(all_scenarios())
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("name", [one.name for one in all_scenarios()])
def test_one_is_described_with_all_that_can_be_asked_of_it(name):
    done = unstall("reproduce", name, "--about")
    assert done.returncode == 0, done.stderr.decode()
    text = " ".join(done.stdout.decode().split())
    scenario = next(one for one in all_scenarios() if one.name == name)
    for one in (*scenario.changes, *scenario.controls):
        assert f"{one.name}: " in text
    for size in scenario.sizes:
        assert f"{size}=" in text
    assert f"unstall confirm {name} --change {scenario.changes[0].name}" in text
    assert unstall("reproduce", "--about", name).stdout == done.stdout


def test_a_cause_of_several_is_described_by_one_and_the_others_are_named():
    done = unstall("reproduce", "uneven-batches", "--about")
    assert done.stdout.decode().startswith("uneven-ddp: ")
    assert "of the same cause: uneven-fsdp" in done.stderr.decode()


def test_the_sizes_of_a_stack_are_described():
    done = unstall("reproduce", "engine-desync", "--about", "--stack", "vllm==0.11.0")
    assert done.returncode == 0
    text = " ".join(done.stdout.decode().split())
    assert "pause=0: seconds that one front end waits" in text
    assert "--change independent-engines --stack vllm==0.11.0" in text


def test_the_list_for_programs():
    content = json.loads(unstall("reproduce", "--json").stdout)
    assert content["schema_version"] == 1
    by_name = {one["name"]: one for one in content["scenarios"]}
    assert by_name["late-tokenizing"]["causes"] == ["slow-preprocessing"]
    one = json.loads(unstall("reproduce", "thread-limit", "--about", "--json").stdout)
    assert one["scenarios"] == [by_name["thread-limit"]]
    assert by_name["thread-limit"]["sizes"] == {"threads": 24}
    assert by_name["thread-limit"]["size_bounds"]["threads"]["whole"] is True


@pytest.mark.parametrize(
    "words",
    [
        ["--ranks", "3"], ["--seed", "1"], ["--steps", "3"], ["--timeout", "9"],
        ["--size", "engines=2"], ["--backend", "gloo"], ["--control", "x"], ["-o", "out"],
        ["--stack", "vllm==0.11.0"], ["--export", "x.py"], ["--ranks", "3", "--json"],
    ],
)  # fmt: skip
def test_an_option_of_a_run_without_a_name_is_not_passed_over(words, tmp_path):
    done = unstall("reproduce", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "is for a run" in done.stderr.decode()
    assert words[0].replace("-o", "--output") in done.stderr.decode()
    assert not done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["late-saving", "--about", "--ranks", "3"], "--ranks is for a run"),
        (["--about"], "describes one scenario"),
        (["late-saving", "--export", "x.py", "--json"], "--json is for a run"),
        (["late-saving", "--export", "x.py", "-o", "y"], "--output is for a run"),
        (["late-saving", "late-evaluating"], "One scenario at a time"),
        (["grpo-rollout-server", "--stack", "vllm==0.11.0", "--timeout", "9"], "says its own"),
        (["cuda-oom"], "is a cause of which nothing"),
        (["--from", "nosuch.log"], "nosuch.log: there is no such file"),
        (["late-saving", "--from", "nosuch.log"], "nosuch.log: there is no such file"),
    ],
)
def test_what_a_call_does_not_use_or_find_is_told(words, told, tmp_path):
    done = unstall("reproduce", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.decode().split())
    assert not list(tmp_path.iterdir())


def test_more_words_after_from_are_more_of_the_report(tmp_path):
    """As the help shows it: --from run.log launch.sh."""
    (tmp_path / "run.log").write_text("hello\n")
    (tmp_path / "launch.sh").write_text("torchrun --nproc_per_node 2 train.py\n")
    done = unstall("reproduce", "--from", "run.log", "launch.sh", cwd=tmp_path)
    assert done.returncode == 2
    assert "unstall diagnose run.log launch.sh" in done.stderr.decode()
    done = unstall("reproduce", "--from", "run.log", "nosuch.sh", cwd=tmp_path)
    assert "nosuch.sh" in done.stderr.decode()
    assert done.returncode == 2


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
    assert "pip install '.[lab]'" in done.stderr.decode()


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
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
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
        shown, told = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "stopped by you" in told.decode()
        assert "Stopped by you before its evidence was diagnosed" in shown.decode()
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert result["run"]["outcome"] == "stopped"
        assert result["closed"] is False
        end = time.monotonic() + 30
        while set(tree.below(os.getpid())) - before and time.monotonic() < end:
            time.sleep(0.1)
        assert set(tree.below(os.getpid())) <= before
    finally:
        process.kill()
        process.wait()
        tree.kill_below(os.getpid(), before)
