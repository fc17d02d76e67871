"""The stack of torch alone: which environment, which script, and one run of it by the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from tests.commands.running import unstall
from unstall.experiments.choose import settings_for
from unstall.experiments.nurse import LabError
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.here import running
from unstall.experiments.stacks.levels import level_for
from unstall.experiments.stacks.recipe import any_version, recipe_for
from unstall.experiments.stacks.torchrun import BATCH, EPOCHS, TORCHRUN, samples

PLACE = Environment(
    place=Path("/p"), python=Path("/p q/bin/python"), versions={"torch": "2.13.0+cpu"}
)


def batches(total: int, rank: int, ranks: int, drop: bool = False) -> int:
    """Batches that a rank gets, counted as the script's documentation says."""
    if drop:
        total -= total % (BATCH * ranks)
    own = len(range(rank, total, ranks))
    return -(-own // BATCH)


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_one_rank_has_a_batch_more_and_with_the_change_none_has(ranks, steps):
    settings = settings_for(TORCHRUN.scenario, ranks=ranks, steps=steps)
    total = samples(settings)
    first, *rest = [batches(total, rank, ranks) for rank in range(ranks)]
    assert set(rest) == {first - 1}
    assert {batches(total, rank, ranks, drop=True) for rank in range(ranks)} == {first - 1}
    equal = samples(
        settings_for(TORCHRUN.scenario, ranks=ranks, steps=steps, control="equal-shards")
    )
    assert {batches(equal, rank, ranks) for rank in range(ranks)} == {max(1, steps // EPOCHS)}


def test_the_script_is_bash_and_quotes_its_folders(tmp_path):
    path = tmp_path / "launch.sh"
    for changes in ((), ("drop-last",), ("agree-on-the-end",)):
        path.write_text(
            TORCHRUN.script(PLACE, settings_for(TORCHRUN.scenario, changes=changes), PLACE.place)
        )
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
        text = path.read_text()
        assert "export PATH='/p q/bin':$PATH" in text
        assert ("--drop-last" in text, "--agree" in text) == (
            "drop-last" in changes,
            "agree-on-the-end" in changes,
        )
    assert "torchrun --standalone --nproc-per-node 2 \\\n" in text


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("2.7.1", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
        ("2.8.0", "TORCH_FR_BUFFER_SIZE"),
        ("2.13.0+cpu", "TORCH_FR_BUFFER_SIZE"),
        ("", "TORCH_FR_BUFFER_SIZE"),
    ],
)
def test_the_recorder_is_turned_on_by_its_name_in_that_version(version, name):
    place = msgspec.structs.replace(PLACE, versions={"torch": version})
    assert f"export {name}=2000\n" in TORCHRUN.script(
        place, settings_for(TORCHRUN.scenario), PLACE.place
    )


# --- which torch -----------------------------------------------------------------------------


def test_any_version_of_torch_is_a_stack():
    recipe = recipe_for("torch==99.0.1")
    assert recipe.versions == {"torch": "99.0.1"}
    assert level_for("uneven-fsdp", recipe) is level_for("uneven-batches", recipe) is TORCHRUN


def test_a_version_that_was_tried_has_its_dependencies_pinned():
    for version, pins in any_version()["torch"].tried.items():
        recipe = recipe_for(f"torch=={version}")
        assert recipe.versions == {**pins, "torch": version}
        assert len(pins) > 5


@pytest.mark.parametrize("version", ["2.6.0", "1.13.1", "2.6"])
def test_a_torch_that_is_too_old_is_told(version):
    with pytest.raises(LabError, match=r"too old: 2\.7 or later"):
        recipe_for(f"torch=={version}")


@pytest.mark.parametrize("text", ["torch==main", "torch==2.9.0,numpy==2.0.0"])
def test_what_is_no_release_of_torch_alone_is_no_stack(text):
    with pytest.raises(LabError, match=r"Stacks: .*torch==…"):
        recipe_for(text)


def test_the_running_environment_is_used_where_it_has_the_version(monkeypatch):
    own = {"torch": "2.9.1+cu128"}

    def version(name: str) -> str:
        if name not in own:
            raise metadata.PackageNotFoundError(name)
        return own[name]

    monkeypatch.setattr(metadata, "version", version)
    found = running(recipe_for("torch==2.9.1"))
    assert found is not None
    assert found.python == Path(sys.executable)
    assert found.versions["msgspec"] == msgspec.__version__
    assert running(recipe_for("torch==2.9.1+cu128")) is not None
    assert running(recipe_for("torch==2.9.1+cpu")) is None
    assert running(recipe_for("torch==2.9.0")) is None
    own.clear()
    assert running(recipe_for("torch==2.9.1")) is None


# --- a run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stack() -> str:
    if not (find_spec("torch") and find_spec("psutil")):  # not imported: that takes seconds
        pytest.skip("torch or psutil is not installed")
    version = metadata.version("torch").partition("+")[0]
    if tuple(map(int, version.split(".")[:2])) < (2, 8):
        pytest.skip("its recorder leaves groups of gloo out")
    return f"torch=={version}"


def test_the_script_hangs_is_diagnosed_and_leaves_nothing_running(stack, tmp_path):
    done = unstall(
        "reproduce", "uneven-fsdp", "--stack", stack, "--steps", 4, "--json", "-o", tmp_path
    )
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert (told["run"]["outcome"], told["run"]["step"]) == ("hung", 2)
    evidence = tmp_path / "evidence"
    assert {entry.name for entry in evidence.iterdir()} >= {
        "launch.sh", "run.log", "stacks.txt", "trainer-dumps", "versions.txt",
    }  # fmt: skip
    assert len(list((evidence / "trainer-dumps").iterdir())) == 2
    assert "##### rank 1, pid " in (evidence / "stacks.txt").read_text()
    diagnosed = unstall("diagnose", "--json", evidence)
    answer = json.loads(diagnosed.stdout)
    assert answer["causes"][0]["id"] == "uneven-batches"
    assert (answer["origin"]["ranks"], answer["waiting_ranks"]) == ([1], [0])
    # of the processes in the stacks none is alive
    for line in (evidence / "stacks.txt").read_text().splitlines():
        if line.startswith("Process "):
            with pytest.raises(ProcessLookupError):
                os.kill(int(line.split()[1].rstrip(":")), signal.SIG_DFL)


def test_with_the_change_it_runs_to_its_end(stack, tmp_path):
    done = unstall(
        "confirm", "uneven-fsdp", "--stack", stack, "-n", 1, "--steps", 4, "--json", "-o", tmp_path
    )
    told = json.loads(done.stdout)
    assert [run["outcome"] for run in told["a"]["runs"]] == ["hung"]
    log = (tmp_path / "B1" / "evidence" / "run.log").read_text()
    changed = [(run["outcome"], run["step"]) for run in told["b"]["runs"]]
    assert changed == [("finished", 4)], log
    assert "saved checkpoint.pt" in log
