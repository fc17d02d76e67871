"""What a report leads to, and what is said of one that leads nowhere."""

import pytest

from unstall.experiments import from_report
from unstall.experiments.from_report import choose
from unstall.experiments.nurse import LabError
from unstall.experiments.sizes import most_ranks

SAVING = """\
[rank1]:[E319 04:07:52.077 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=66, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for \
600012 milliseconds before timing out.
"""
OUT_OF_MEMORY = """\
step 3 loss 1.0
[rank1]: Traceback (most recent call last):
[rank1]:   File "/job/train.py", line 12, in <module>
[rank1]:     model(batch)
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total \
capacity of 79.11 GiB of which 1.00 GiB is free.
"""


@pytest.fixture
def diagnosed(monkeypatch):
    """Causes and sizes that a report is said to show, without one that does."""

    def say(*causes, **sizes):
        found = [type("R", (), {"finding": type("F", (), {"cause": one})}) for one in causes]
        monkeypatch.setattr(from_report, "read", lambda _report: type("D", (), {"causes": found}))
        monkeypatch.setattr(from_report, "settings_from", lambda _found: sizes)

    return say


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(LabError, match=r"nosuch\.log: there is no such file.*unstall diagnose"):
        choose([str(tmp_path / "nosuch.log")], None)


def test_one_of_several_does_not_exist(tmp_path):
    (tmp_path / "run.log").write_text(SAVING)
    with pytest.raises(LabError, match=r"nosuch\.sh: there is no such file"):
        choose([str(tmp_path / "run.log"), str(tmp_path / "nosuch.sh")], None)


@pytest.mark.parametrize("content", ["", "\0\1\2" * 100])
def test_a_file_that_cannot_be_read(tmp_path, content):
    (tmp_path / "x.log").write_text(content)
    with pytest.raises(LabError, match=r"x\.log"):
        choose([str(tmp_path / "x.log")], None)


def test_a_folder_that_is_empty(tmp_path):
    with pytest.raises(LabError):
        choose([str(tmp_path)], None)


@pytest.mark.parametrize("content", ["hello\n", "step 1 loss 3\nstep 2 loss 2\n"])
def test_a_file_that_holds_no_diagnosis(tmp_path, content):
    (tmp_path / "x.log").write_text(content)
    with pytest.raises(LabError, match=r"holds no diagnosis.*unstall diagnose .*x\.log"):
        choose([str(tmp_path / "x.log")], None)


def test_a_named_scenario_takes_sizes_from_any_report(tmp_path):
    (tmp_path / "x.log").write_text("hello\n")
    assert choose([str(tmp_path / "x.log")], "late-saving").scenario == "late-saving"
    with pytest.raises(LabError, match="late-saving"):
        choose([str(tmp_path / "x.log")], "late-savin")


def test_a_cause_without_a_scenario_says_why(tmp_path):
    (tmp_path / "x.log").write_text(OUT_OF_MEMORY)
    with pytest.raises(LabError, match=r"cuda-oom is a cause of which nothing.*GPU"):
        choose([str(tmp_path / "x.log")], None)


def test_an_undecided_report_is_not_taken_for_the_scenario_whose_answer_is_that(diagnosed):
    diagnosed("unknown")
    with pytest.raises(LabError, match="no diagnosis"):
        choose(["x"], None)
    diagnosed("unknown", "host-oom")
    assert choose(["x"], None).scenario == "host-memory"


def test_the_second_cause_is_told_as_such(diagnosed):
    diagnosed("cuda-oom", "slow-rollout")
    found = choose(["x"], None)
    assert found.scenario == "slow-rollout"
    assert "first cause is cuda-oom" in found.text.render()
    diagnosed("slow-rollout", "cuda-oom")
    assert "report's cause is slow-rollout: slow-rollout" in choose(["x"], None).text.render()


@pytest.mark.parametrize("engines", [2, 3])
def test_sizes_of_the_report_are_taken(diagnosed, engines):
    diagnosed("engine-desync", ranks=4, engines=engines)
    found = choose(["x"], None)
    assert (found.ranks, found.sizes) == (4, (f"engines={engines}",))


def test_sizes_that_this_machine_cannot_bear_are_left_and_told(diagnosed):
    diagnosed("engine-desync", ranks=most_ranks() + 1, engines=4096)
    found = choose(["x"], None)
    assert (found.ranks, found.sizes) == (None, ())
    assert f"--ranks {most_ranks() + 1}, --size engines=4096" in found.text.render()
