"""Launch scripts of stacks: what is started, and what a change changes."""

import platform
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.commands.running import unstall
from unstall.experiments.choose import settings_for
from unstall.experiments.nurse import LabError
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import level_for
from unstall.experiments.stacks.recipe import recipe_for

STACKS = {"engines": "vllm==0.11.0", "grpo": "ms-swift==3.10.3,vllm==0.11.0"}
PLACE = Environment(place=Path("/p"), python=Path("/p/venv/bin/python"), versions={})


def level(stack: str):
    return level_for("grpo-rollout-server", recipe_for(STACKS[stack]))


def script(stack: str, **changes) -> str:
    one = level(stack)
    return one.script(PLACE, settings_for(one.scenario, **changes), Path("/p/tiny model"))


@pytest.mark.parametrize("stack", STACKS)
def test_every_script_is_bash_and_quotes_its_words(stack, tmp_path):
    names = ["", *(change.name for change in level(stack).scenario.changes)]
    for name in names:
        path = tmp_path / "launch.sh"
        path.write_text(script(stack, changes=(name,) if name else ()))
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
        assert "'/p/tiny model'" in path.read_text()


def test_a_stack_that_does_not_run_a_scenario_is_told():
    with pytest.raises(LabError, match=r"grpo-rollout-server \(vllm\)"):
        level_for("late-tokenizing", recipe_for(STACKS["engines"]))


def test_a_cause_names_its_scenario():
    assert level_for("engine-desync", recipe_for(STACKS["engines"])) is level("engines")


def test_sizes_steps_and_seed_reach_the_engines():
    text = script("engines", sizes=["prompts=3"], steps=7, seed=5)
    assert "--prompts 3" in text
    assert "--steps 7" in text
    assert "--seed 5" in text
    assert "--change" not in text


def test_independent_engines_are_several_servers_without_data_parallel():
    as_reported = script("grpo")
    assert as_reported.count("swift rollout") == 1
    assert "--vllm_data_parallel_size 2" in as_reported
    changed = script("grpo", changes=("independent-engines",))
    assert changed.count("swift rollout") == 2
    assert "data_parallel" not in changed
    ports = changed.split("--vllm_server_port ")[1].split(" \\")[0].split()
    assert len(set(ports)) == 2
    assert all(f"--port {port} &" in changed for port in ports)
    assert "--vllm_server_host 127.0.0.1 127.0.0.1" in changed


def test_the_upstream_fix_is_the_same_script_with_the_other_version():
    one = level("grpo")
    fix = one.scenario.change("upstream-fix")
    assert recipe_for(fix.stack).versions["ms-swift"] == "4.3.0"
    mine, theirs = recipe_for(STACKS["grpo"]).versions, recipe_for(fix.stack).versions
    assert {name for name in mine if mine[name] != theirs[name]} == {"ms-swift", "trl"}
    assert set(mine) == set(theirs)

    def lines(versions: dict[str, str], changes: tuple[str, ...]) -> set[str]:
        settings = msgspec.structs.replace(settings_for(one.scenario), changes=changes)
        place = msgspec.structs.replace(PLACE, versions=versions)
        text = one.script(place, settings, Path("/p/tiny model"))
        return {
            line
            for line in text.splitlines()
            if "port" not in line.lower() and "/dev/tcp/" not in line
        }

    changed = lines(mine, ()) ^ lines(theirs, ("upstream-fix",))
    assert changed == {"  --train_type full \\", "  --tuner_type full \\"}


def test_in_process_is_a_variable_of_the_server_alone():
    text = script("grpo", changes=("in-process",))
    assert text.count("VLLM_ENABLE_V1_MULTIPROCESSING=0") == 1
    server = text.split("swift rollout")[0].splitlines()[-1]
    assert "VLLM_ENABLE_V1_MULTIPROCESSING=0" in server


def test_the_trainers_step_asks_for_as_many_completions_as_reported():
    # 96 over two engines: bars of 48
    text = script("grpo")
    assert "--per_device_train_batch_size 48" in text
    assert "NPROC_PER_NODE=2" in text


@pytest.mark.skipif(
    f"{platform.system()}-{platform.machine()}" != "Linux-x86_64", reason="no builds for others"
)
def test_a_stack_is_not_exported(tmp_path):
    target = tmp_path / "x.py"
    done = unstall(
        "reproduce", "grpo-rollout-server", "--stack", "vllm==0.11.0", "--export", target
    )
    assert done.returncode == 2
    assert b"its evidence" in done.stderr
    assert not target.exists()
