"""A scenario as one file."""

import ast
import subprocess
import sys

import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.export import export_scenario, exported
from unstall.experiments.library import all_scenarios, find
from unstall.experiments.nurse import LabError

ONE_FILE = [one for one in all_scenarios() if not any(p.own_torch for p in one.programs)]


def settings_of(scenario):
    from unstall.experiments.scenario import Settings

    return Settings(ranks=scenario.ranks, steps=scenario.steps, sizes=scenario.sizes)


@pytest.mark.parametrize("scenario", ONE_FILE, ids=[one.name for one in ONE_FILE])
def test_the_file_is_python_and_imports_only_the_standard_library(scenario):
    tree = ast.parse(exported(scenario, settings_of(scenario), "repro.py"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    import sys

    assert names <= sys.stdlib_module_names


def test_the_embedded_program_holds_every_module_of_the_scenario():
    scenario = find("grpo-rollout-server")[0]
    text = exported(scenario, settings_of(scenario), "repro.py")
    for part in ("trainer", "rollout", "frontend", "vllm.v1.engine.core"):
        assert f"grpo_rollout_server.{part}'" in text


def test_what_torchrun_starts_is_refused(tmp_path):
    scenario = find("rank-exception")[0]
    with pytest.raises(LabError, match="torchrun"):
        export_scenario(scenario, settings_of(scenario), tmp_path / "x.py")


def test_nothing_is_overwritten(tmp_path):
    scenario = find("size-mismatch")[0]
    target = tmp_path / "x.py"
    target.write_text("mine")
    with pytest.raises(LabError, match="exists already"):
        export_scenario(scenario, settings_for(scenario), target)
    assert target.read_text() == "mine"


def test_a_change_of_another_name_is_refused(tmp_path):
    """It would switch the fault off and so “prove” what nobody did."""
    scenario = find("two-group-order")[0]
    export_scenario(scenario, settings_for(scenario), tmp_path / "x.py")
    done = subprocess.run(
        [sys.executable, tmp_path / "x.py", "--change", "nosuch"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "same-order" in done.stderr
