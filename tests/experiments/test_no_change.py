"""A change that changes nothing proves nothing."""

import pytest

from unstall.experiments.library import find
from unstall.experiments.no_change import changing, same
from unstall.experiments.nurse import LabError
from unstall.experiments.sessions import Request, _changes, _is_default
from unstall.experiments.stacks.levels import level_for
from unstall.experiments.stacks.recipe import recipe_for
from unstall.experiments.stacks.sessions import Choice

SCRIPT = """\
export NCCL_DEBUG=INFO
export HOSTS=$NODES
torchrun --nproc_per_node 2 train.py --lr 1e-5 --overlap true --hosts $HOSTS
"""


def written(old, new):
    assert old in SCRIPT
    return SCRIPT.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--lr 1e-5", "--lr=1e-5"),
        ("--lr 1e-5", "--lr 0.00001"),
        ("--lr 1e-5", "--lr '1e-5'"),
        ("--lr 1e-5", "--lr 3 --lr 1e-5"),
        ("--overlap true", "--overlap True"),
        ("torchrun", "NCCL_DEBUG=INFO torchrun"),
        ("train.py", "train.py "),
    ],
)
def test_the_same_value_in_another_spelling_is_no_change(old, new):
    assert same(SCRIPT, written(old, new))
    with pytest.raises(LabError, match=r"changes nothing.*prove nothing"):
        changing(SCRIPT, [written(old, new)], ["x"], "trainer.x=1")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--lr 1e-5", "--lr 1e-6"),
        ("--lr 1e-5", ""),
        ("--overlap true", "--overlap false"),
        ("--overlap true", "--overlap 1"),
        ("NCCL_DEBUG=INFO", "NCCL_DEBUG=WARN"),
        ("torchrun", "NCCL_P2P_DISABLE=1 torchrun"),
        ("train.py", "train.py --more 1"),
        ("--nproc_per_node 2", "--nproc_per_node 3"),
        ("--hosts $HOSTS", "--hosts one"),
    ],
)
def test_another_value_is_a_change(old, new):
    assert not same(SCRIPT, written(old, new))
    assert changing(SCRIPT, [written(old, new)], ["x"], "trainer.x=1") == ["x"]


def test_of_several_those_that_change_something_are_tried():
    other = written("--lr 1e-5", "--lr 1e-6")
    assert changing(SCRIPT, [SCRIPT, other], ["first", "second"], "") == ["second"]
    with pytest.raises(LabError, match="every fix of the diagnosis already"):
        changing(SCRIPT, [SCRIPT, SCRIPT], ["first", "second"], "")


def test_another_version_that_is_the_one_in_use_is_no_change():
    """As the stack of its level is declared, without building or starting anything."""
    recipe = recipe_for("ms-swift==4.3.0,vllm==0.11.0")
    choice = Choice(recipe, level_for("grpo-rollout-server", recipe))
    asked = Request(name="grpo-rollout-server", change="upstream-fix")
    with pytest.raises(LabError, match=r"changes nothing: ms-swift==4\.3\.0"):
        _changes(choice.scenario, asked, choice)
    every = Request(name="grpo-rollout-server", until_confirmed=True)
    names = [one.name for one in _changes(choice.scenario, every, choice)]
    assert names == ["independent-engines", "async-engine", "in-process"]
    older = recipe_for("ms-swift==3.10.3,vllm==0.11.0")
    choice = Choice(older, level_for("grpo-rollout-server", older))
    assert [one.name for one in _changes(choice.scenario, asked, choice)] == ["upstream-fix"]


def test_sizes_as_they_are_anyway_are_known():
    scenario = find("grpo-rollout-server")[0]
    assert _is_default(scenario, "engines=2")
    assert not _is_default(scenario, "engines=3")


def test_a_program_that_no_rule_knows_is_looked_at_as_well():
    assert not same("python main.py --lr 1\n", "python main.py --lr 2\n")
    assert same("python main.py --lr 1\n", "python main.py --lr=1.0\n")
