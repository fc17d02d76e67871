"""Real processes: faults show and are diagnosed as their causes, changes let runs finish.

A shortened set; ``python -m unstall.experiments.prove -n 10`` runs all of it.
"""

import os
import tempfile

import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.closing import close
from unstall.experiments.library import find
from unstall.experiments.nurse import Nurse
from unstall.experiments.runner import run_scenario
from unstall.processes import tree

pytest.importorskip("torch")
pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def nurse():
    with Nurse() as one:
        yield one


def run(nurse, folder, name, **more):
    scenario = find(name)[0]
    settings = settings_for(scenario, **more)
    return scenario, run_scenario(scenario, settings, folder, nurse)


@pytest.mark.parametrize(
    "name",
    ["late-tokenizing", "pipeline-order", "port-taken", "two-group-order", "wrong-interface"],
)
def test_a_fault_shows_and_its_evidence_is_diagnosed_as_its_cause(nurse, tmp_path, name):
    for attempt in range(3):
        scenario, done = run(nurse, tmp_path / str(attempt), name)
        assert done.outcome in ("hung", "failed")
        closing = close(scenario, done)
        if closing.closed:
            break
    # on a busy machine stacks can come too late to be taken; then the run is made again
    assert closing.verdict == scenario.causes[0]
    assert [mark.text.render() for mark in closing.marks if not mark.found] == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("two-group-order", "same-order"),
        ("size-mismatch", "pad"),
        ("late-tokenizing", "share-the-work"),
    ],
)
def test_a_change_lets_it_finish(nurse, tmp_path, name, change):
    _, done = run(nurse, tmp_path, name, changes=(change,))
    assert done.outcome == "finished"


def test_engines_fall_out_of_step_by_themselves(nurse, tmp_path):
    """Nothing waits on purpose: larger images only make the race come sooner.

    A race is a matter of luck: a run that ends without it is followed by another.
    """
    for seed in range(4):
        scenario, done = run(
            nurse,
            tmp_path / str(seed),
            "grpo-rollout-server",
            steps=800,
            seed=seed,
            sizes=["kilopixels=150"],
        )
        assert done.outcome in ("hung", "finished")
        if done.outcome == "hung":
            break
    assert done.outcome == "hung"
    closing = close(scenario, done)
    assert closing.verdict == "engine-desync"
    assert [mark.text.render() for mark in closing.marks if not mark.found] == []


def test_independent_engines_do_not(nurse, tmp_path):
    _, done = run(
        nurse, tmp_path, "grpo-rollout-server", changes=("independent-engines",), steps=60,
        sizes=["kilopixels=120"],
    )  # fmt: skip
    assert done.outcome == "finished"
    assert done.step == 60


def test_nothing_is_left_behind(nurse, tmp_path, monkeypatch):
    """Processes, shared-memory segments and temporary folders of a run are gone after it."""
    # a folder of its own: other runs of these tests use the common one at the same time
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    used = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *a, **k: used.append(1) or make(*a, **k))
    segments = tree.segments()
    _, done = run(nurse, tmp_path, "size-mismatch")
    assert used  # else the folder below says nothing
    assert done.survivors == ()
    assert tree.below(nurse.pid) == []
    assert list(temporary.iterdir()) == []
    assert not any(f"_{pid}_" in name for pid in done.pids for name in tree.segments() - segments)


def test_a_closed_nurse_leaves_no_process(tmp_path):
    own = set(tree.below(os.getpid()))
    with Nurse() as one:
        run(one, tmp_path, "wrong-interface")
        assert set(tree.below(os.getpid())) - own
    assert set(tree.below(os.getpid())) <= own
