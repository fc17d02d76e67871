"""Declarations of all scenarios, without running them."""

import re
import subprocess
import sys

import pytest

from unstall.causes import all_causes
from unstall.experiments.library import all_scenarios, beside, find, near

NAMES = [one.name for one in all_scenarios()]


def test_there_is_a_scenario_for_each_kind_that_needs_no_gpu():
    covered = {cause for one in all_scenarios() for cause in one.causes}
    assert covered >= {
        "slow-preprocessing",
        "slow-checkpoint-or-eval",
        "slow-rollout",
        "driver-stall",
        "rank-dependent-branch",
        "uneven-batches",
        "data-dependent-graph",
        "size-mismatch",
        "pipeline-order",
        "python-exception",
        "host-oom",
        "process-limit",
        "port-collision",
        "rendezvous-environment",
        "shm-too-small",
        "network-interface",
        "engine-desync",
        "weight-sync-failure",
    }


@pytest.mark.parametrize("scenario", all_scenarios(), ids=NAMES)
def test_a_declaration_is_complete(scenario):
    known = {cause.id for cause in all_causes()} | {"unknown"}
    assert set(scenario.causes) <= known
    assert scenario.changes, "a scenario without a cure proves nothing"
    assert scenario.expect in ("hang", "failure")
    assert scenario.least <= scenario.ranks <= scenario.most
    assert set(scenario.size_texts) == set(scenario.sizes)
    names = [one.name for one in (*scenario.changes, *scenario.controls)]
    assert len(names) == len(set(names))
    assert "step" in re.compile(scenario.progress).groupindex


def test_names_are_unique():
    assert len(NAMES) == len(set(NAMES))


def test_a_cause_leads_to_its_scenario():
    assert find("engine-desync")[0].name == "grpo-rollout-server"


def test_near_names():
    assert "grpo-rollout-server" in near("grpo-rollout")
    assert near("qqqqqq") == []


def test_declaring_does_not_load_torch():
    code = (
        "import sys; from unstall.experiments.library import all_scenarios; all_scenarios(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_cause_with_several_scenarios_tells_the_others():
    told = beside("slow-checkpoint-or-eval")
    assert told is not None
    assert {"late-saving", "late-evaluating"} <= set(re.split(r"[:;,] ", told.render()))
    assert beside("Slow_Checkpoint_Or_Eval") == told
    assert beside("late-saving") is None
    assert beside("engine-desync") is None
    assert beside("nothing") is None
