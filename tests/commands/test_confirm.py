"""``unstall confirm`` as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands.running import unstall
from unstall.processes import tree

TRAIN = """
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--overlap", default="true")
parser.add_argument("--max_steps", type=int)
given = parser.parse_args()
for step in range(1, given.max_steps + 1):
    print({"loss": 1.0 / step, "global_step/max_steps": f"{step}/{given.max_steps}"}, flush=True)
    if step == 5 and given.overlap == "true":
        time.sleep(600)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    path = tmp_path / "launch.sh"
    path.write_text(f"cd {tmp_path}\n{sys.executable} train.py --overlap true --max_steps 9\n")
    return path


def confirm(script, *words):
    return unstall("confirm", "--script", script, "-o", script.parent / "out", *words)


def test_a_flag_of_a_script_is_confirmed_and_the_script_untouched(script):
    before = script.read_text()
    done = confirm(
        script, "--set", "trainer.overlap=false", "--stall", "4", "-n", "2", "--alpha", "0.2",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    content = json.loads(done.stdout)
    assert content["answer"] == "confirmed"
    assert [run["step"] for run in content["a"]["runs"]] == [5, 5]
    assert [run["outcome"] for run in content["b"]["runs"]] == ["finished", "finished"]
    assert "+" + before.splitlines()[1].replace("true", "false") in content["patch"]
    assert script.read_text() == before
    assert sorted(p.name for p in script.parent.iterdir()) == ["launch.sh", "out", "train.py"]
    evidence = {side: script.parent / "out" / side / "evidence" for side in ("A1", "B1")}
    assert (evidence["A1"] / "run.log").exists()
    assert (evidence["A1"] / "launch.sh").read_text() == before
    assert (evidence["B1"] / "launch.sh").read_text() == before.replace("true", "false")


def test_until_a_step(script):
    done = confirm(
        script, "--set", "trainer.max_steps=3", "--until", "step>=3", "--stall", "4", "-n", "1",
        "--json",
    )  # fmt: skip
    content = json.loads(done.stdout)
    assert content["a"]["finished"] == 1
    assert "-n 1 cannot confirm anything" in done.stderr.decode()
    assert "-n 3 or more" in done.stderr.decode()
    assert content["answer"] == "not-reproduced"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "server.port=1"], "names no program"),
        (["--unset", "trainer.lr"], "is not given the flag"),
        (["--set", "trainer.max_steps"], "is not PROGRAM.FLAG=VALUE"),
        (["--env", "X"], "is not NAME=VALUE"),
        ([], "Say what to change"),
        (["--set", "trainer.overlap=false", "--until", "["], "no regular expression"),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_runs(script, words, told):
    done = confirm(script, *words)
    assert done.returncode == 2
    assert told in done.stderr.decode()
    assert not (script.parent / "out").exists()


@pytest.mark.parametrize(
    "line", ["{} train_missing.py --lr 1", "{} train_missing.py --lr 1 | tee l"]
)
def test_a_script_that_never_starts(tmp_path, line):
    """A pipe's exit code is that of its last part: 0."""
    path = tmp_path / "launch.sh"
    (tmp_path / "train_missing.py").write_text("import time\nraise ValueError('no data')\n")
    path.write_text(f"cd {tmp_path}\n{line.format(sys.executable)}\n")
    done = unstall("confirm", "--script", path, "--set", "trainer.lr=2", "-o", tmp_path / "out")
    assert done.returncode == 2
    told = done.stdout.decode()
    assert "The same failure with and without the change: the program did not run" in told
    assert told.count("ValueError: no data") >= 2  # the last lines of A's log and of B's
    assert "by hand" in told
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_dir()) == ["A1", "B1"]


def test_the_end_of_the_log_of_a_change_that_fails_is_shown(script):
    done = confirm(script, "--set", "trainer.overlop=false", "--stall", "4", "-n", "3")
    assert done.returncode == 1
    told = done.stdout.decode()
    assert "error: unrecognized arguments: --overlop false" in told
    assert "the program refused its arguments" in told
    assert "Nothing is shown about the hang" in told
    # it is not tried a third time
    assert not (script.parent / "out" / "B3").exists()


def test_a_is_measured_once_for_all_changes(script, monkeypatch):
    """Of three changes the last one cures: A runs as often as for one."""
    import io

    from unstall.experiments.scripts import changes, session
    from unstall.model.text import verbatim

    def tried(_request, plan):
        return [
            session.Candidate(
                verbatim(flag), tuple(changes.parse_edits(plan, [f"trainer.{flag}"], (), ()))
            )
            for flag in ("max_steps=8", "max_steps=7", "overlap=false")
        ]

    monkeypatch.setattr(session, "_candidates", tried)
    out, page = script.parent / "out", io.StringIO()
    code = session.confirm_script(
        session.Request(
            script=script, until_confirmed=True, stall=2, runs=2, alpha=0.9, output=out
        ),
        page,
    )
    assert code == 0
    assert sorted(str(p.parent.relative_to(out)) for p in out.rglob("run.json")) == [
        "A1", "A2", *(f"change-{change}/B{n}" for change in (1, 2, 3) for n in (1, 2)),
    ]  # fmt: skip
    assert page.getvalue().count("2 of A's runs had been made") == 2


def test_a_scenario_or_a_script_must_be_named():
    assert unstall("confirm").returncode == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["late-saving", "--set", "trainer.lr=1"], "--script"),
        (["late-saving", "--env", "A=1"], "--script"),
        (["late-saving", "--script", "x.sh"], "not both"),
        (["late-saving", "--stall", "9"], "--stall is for a script"),
        (["late-saving", "--limit", "9", "--from", "x.log"], "--from, --limit is for a script"),
        (["--script", "x.sh", "--change", "sharded-save"], "for scenarios"),
        (["--script", "x.sh", "--ranks", "3"], "--ranks is for scenarios"),
        (["--script", "x.sh", "--size", "engines=2", "--long"], "--long, --size is for scenarios"),
        (["--script", "x.sh", "--stack", "vllm==0.11.0"], "--stack is for scenarios"),
        (["--script", "x.sh", "--set", "a.b=1", "--until-confirmed"], "--set names one"),
        (["late-saving", "--change", "sharded-save", "--until-confirmed"], "--change names one"),
        (["--script", "x.sh", "--env", "A=1", "--from", "x.log"], "with --until-confirmed"),
        (["late-saving", "--until", "step>=3", "--steps", "4"], "give one of them"),
        (["cuda-oom"], "is a cause of which nothing"),
        (["late-saving", "--seed", "9" * 30], "--seed"),
    ],
)
def test_what_belongs_to_the_other_way_is_not_passed_over(words, told):
    done = unstall("confirm", *words)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.decode().split())


def test_a_default_time_out_is_no_flag(script):
    """NCCL's default stands in the plan without a flag; nothing of it may reach the command."""
    script.write_text("torchrun --nproc_per_node 2 train.py --lr 1\n")
    done = confirm(script, "--set", "trainer.lr=2", "--timeout", "30")
    assert done.returncode == 2
    assert "has a flag for the time-out" in done.stderr.decode()


def test_a_fix_with_a_place_to_fill_is_not_run():
    """The first server's port is the user's to choose: such a fix is told, not tried."""
    from unstall.experiments.scripts.edit import plan_of
    from unstall.experiments.scripts.session import Request, _candidates

    root = Path(__file__).parents[2] / "examples" / "rollout-hang"
    request = Request(
        script=root / "launch.sh", report=(str(root / "train.log"),), until_confirmed=True
    )
    found = _candidates(request, plan_of(request.script)[1])
    assert found
    assert not any("PORT" in value for one in found for e in one.edits for value in e.set.values())


def test_an_unknown_change_names_those_there_are():
    done = unstall("confirm", "late-tokenizing", "--change", "pray")
    assert done.returncode == 2
    assert "longer-timeout" in done.stderr.decode()


def test_a_scenario_is_confirmed(tmp_path):
    pytest.importorskip("torch")
    done = unstall(
        "confirm", "size-mismatch", "--change", "pad", "-n", "2", "--alpha", "0.2",
        "-o", tmp_path / "out", "--json", limit=600,
    )  # fmt: skip
    content = json.loads(done.stdout)
    assert content["answer"] == "confirmed"
    assert content["a"]["failed"] + content["a"]["hung"] == 2
    assert content["b"]["finished"] == 2
    assert (tmp_path / "out" / "B2" / "run.json").exists()


@pytest.mark.parametrize("flag", ["--stall", "--limit", "--timeout", "--alpha"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_number_is_one(script, flag, value):
    done = confirm(script, "--set", "trainer.overlap=false", flag, value)
    assert done.returncode == 2
    assert flag in done.stderr.decode()
    assert not (script.parent / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "trainer.overlap=true"],
        ["--set", "trainer.overlap=True"],
        ["--set", "trainer.max_steps=9.0"],
        ["--set", "trainer.overlap=true", "--set", "trainer.max_steps=9"],
    ],
)
def test_a_change_that_changes_nothing_is_refused(script, words):
    done = confirm(script, *words)
    assert done.returncode == 2
    assert "changes nothing" in done.stderr.decode()
    assert "prove nothing" in done.stderr.decode()
    assert not (script.parent / "out").exists()


def test_a_variable_that_is_set_already_is_no_change(script):
    script.write_text("export NCCL_P2P_DISABLE=1\n" + script.read_text())
    done = confirm(script, "--env", "NCCL_P2P_DISABLE=1")
    assert done.returncode == 2
    assert "changes nothing" in done.stderr.decode()
    assert not (script.parent / "out").exists()


@pytest.mark.parametrize("until", ["step>=x", "steps>=3", "10m"])
def test_a_condition_that_is_none_is_no_line_to_wait_for(script, until):
    done = confirm(script, "--set", "trainer.overlap=false", "--until", until)
    assert done.returncode == 2
    assert "step>=200" in done.stderr.decode()
    assert not (script.parent / "out").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted on Linux")
def test_control_c_tells_what_was_measured_and_leaves_nothing(script):
    before = set(tree.below(os.getpid()))
    tree.adopt_orphans()
    out = script.parent / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", "from unstall.commands import main; main()", "confirm", "--script",
         str(script), "--set", "trainer.overlap=false", "--stall", "3", "-n", "9", "-o", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    tree.waited_elsewhere(process.pid)
    try:
        end = time.monotonic() + 240
        log = out / "B2" / "run.raw"
        while time.monotonic() < end and not log.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "stopped by you" in told.decode()
        text = " ".join(shown.decode().split())
        assert "hung or failed 1 of 1, at step 5" in text
        assert "Stopped by you after 1 runs of A and 1 of B" in text
        assert str(out) in "".join(shown.decode().split())
        result = json.loads((out / "result.json").read_text())
        assert result["answer"] == "stopped"
        assert [run["outcome"] for run in result["b"]["runs"]] == ["finished", "stopped"]
        assert sorted(p.name for p in script.parent.iterdir()) == ["launch.sh", "out", "train.py"]
        end = time.monotonic() + 30
        while set(tree.below(os.getpid())) - before and time.monotonic() < end:
            time.sleep(0.1)
        assert set(tree.below(os.getpid())) <= before
    finally:
        process.kill()
        process.wait()
        tree.kill_below(os.getpid(), before)
