"""A change that changes nothing proves nothing."""

import pytest

from unstall.experiments.no_change import changing, same
from unstall.experiments.nurse import LabError

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
