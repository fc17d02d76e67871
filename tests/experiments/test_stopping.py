"""What is kept of runs that the user stopped."""

from unstall.experiments.outcome import Run
from unstall.experiments.stopping import measured, so_far
from unstall.experiments.telling import Teller
from unstall.model.text import verbatim

LABELS = (verbatim("as it is"), verbatim("changed"))


def run(name, outcome="hung", step=7):
    return Run(name=name, outcome=outcome, step=step, seconds=3.0, folder="f")


def test_runs_that_ended_and_the_one_that_went_on_are_kept(tmp_path):
    teller = Teller()
    for one in (run("A1"), run("B1", "finished", 20)):
        teller.begin(one.name, LABELS[0])
        teller.end(one)
    teller.begin("A2", LABELS[0])
    teller("step", 5)
    (tmp_path / "A2").mkdir()
    found = so_far(teller, [tmp_path / "change", tmp_path], LABELS, 0.05)
    assert found.answer == "stopped"
    assert [one.outcome for one in found.a.runs] == ["hung", "stopped"]
    assert found.a.runs[1].step == 5
    assert found.a.runs[1].folder == str(tmp_path / "A2")
    assert [one.name for one in found.b.runs] == ["B1"]
    assert "1 runs of A and 1 of B" in measured(found).render()


def test_a_run_whose_outcome_was_clear_counts(tmp_path):
    teller = Teller()
    teller.begin("A1", LABELS[0])
    teller.diagnosing(run("A1"))
    found = so_far(teller, [tmp_path], LABELS, 0.05)
    assert [one.outcome for one in found.a.runs] == ["hung"]


def test_nothing_begun_is_nothing_measured(tmp_path):
    found = so_far(Teller(), [tmp_path], LABELS, 0.05)
    assert found.a.runs == found.b.runs == ()
    assert "nothing was measured" in measured(found).render()


def test_of_changes_tried_before_only_runs_of_a_are_of_this_one(tmp_path):
    teller = Teller()
    before = [run("A1"), run("B1")]
    for one in before:
        teller.end(one)
    teller.begin("B1", LABELS[1])
    found = so_far(teller, [tmp_path], LABELS, 0.05, before)
    assert [one.name for one in found.a.runs] == ["A1"]
    assert [one.outcome for one in found.b.runs] == ["stopped"]
