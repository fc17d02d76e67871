"""TRL's stack: its recipe, its launch script, what a change changes."""

import ast
import subprocess
from pathlib import Path

import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import inside, level_for
from unstall.experiments.stacks.recipe import recipe_for, recipes
from unstall.experiments.stacks.trl import TRL

STACK = "trl==0.24.0,vllm==0.11.0"
PLACE = Environment(place=Path("/p"), python=Path("/p/venv/bin/python"), versions={})


def script(**changes) -> str:
    return TRL.script(PLACE, settings_for(TRL.scenario, **changes), Path("/p/tiny model"))


def command(text: str, start: str) -> str:
    """The command that starts so, with its continued lines."""
    lines = text.split(start, 1)[1].splitlines()
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return " ".join(line.rstrip("\\").strip() for line in lines[: last + 1])


def test_its_packages_choose_the_level():
    assert level_for("grpo-rollout-server", recipe_for(STACK)) is TRL
    assert level_for("engine-desync", recipe_for("vllm==0.11.0,trl==0.24.0")) is TRL


def test_its_versions_are_those_of_a_larger_stack_so_that_one_environment_serves_both():
    larger = recipe_for("ms-swift==3.10.3,vllm==0.11.0")
    mine = recipe_for(STACK)
    assert mine.versions.items() < larger.versions.items()
    assert mine.versions["trl"] == mine.asked["trl"] == "0.24.0"
    assert mine in recipes()


@pytest.mark.parametrize("change", [None, *(one.name for one in TRL.scenario.changes)])
def test_the_script_is_bash_and_quotes_its_words(change, tmp_path):
    path = tmp_path / "launch.sh"
    path.write_text(script(changes=(change,) if change else ()))
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    assert "--model '/p/tiny model'" in path.read_text()


def test_server_and_trainer_meet_at_one_port_and_share_no_other():
    text = script()
    server, trainer = command(text, "trl vllm-serve"), command(text, "torchrun")
    port = server.split("--port ")[1].split()[0]
    master = trainer.split("--master_port=")[1].split()[0]
    group = text.split("UNSTALL_GROUP_PORT=")[1].split()[0]
    assert f"--vllm_server_port {port}" in trainer
    assert f"/dev/tcp/127.0.0.1/{port})" in text
    assert len({port, master, group}) == 3


def test_sizes_steps_ranks_and_seed_reach_the_programs():
    text = script(sizes=["engines=3", "batch=16", "tokens=9"], steps=7, seed=5, ranks=4)
    server, trainer = command(text, "trl vllm-serve"), command(text, "torchrun")
    assert "--data_parallel_size 3" in server
    assert "--nproc_per_node=4" in trainer
    for flag in (
        "--per_device_train_batch_size 16",
        "--max_completion_length 9",
        "--max_steps 7",
        "--seed 5",
    ):
        assert flag in trainer
    assert "VLLM_CPU_OMP_THREADS_BIND='0|1|0'" in text
    assert "UNSTALL_SEED=5" in text


def test_a_change_changes_the_server_alone():
    def shape(text: str) -> tuple[list[str], list[str]]:
        server, trainer = command(text, "trl vllm-serve"), command(text, "torchrun")
        numbers = [word for word in server.split() if word in ("1", "2", "3")]
        ports = ("--master_port", "--vllm_server_port")
        words = [word for word in trainer.split() if not word.isdigit() and word[:1] == "-"]
        return numbers, [word for word in words if not word.startswith(ports)]

    reported, trainer = shape(script())
    assert reported == ["1", "2"]  # tensor parallel, data parallel
    assert shape(script(changes=("single-engine",))) == (["1", "1"], trainer)
    assert shape(script(changes=("tensor-parallel",))) == (["2", "1"], trainer)
    inner = script(changes=("in-process",))
    assert shape(inner) == (reported, trainer)
    assert "VLLM_ENABLE_V1_MULTIPROCESSING=0 UNSTALL_IMAGES=" in inner
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" not in script()


def test_the_trainers_script_uses_trl_and_nothing_of_ours():
    tree = ast.parse(inside("trl_grpo.py").read_text(encoding="utf-8"))
    names = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    assert names == {"__future__", "dataclasses", "typing", "datasets", "trl"}
