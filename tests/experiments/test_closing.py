"""Marks of the fingerprint, on small evidence written by hand."""

import pytest

from unstall.experiments.closing import close, judged, verdict_of
from unstall.experiments.outcome import End, Run
from unstall.experiments.scenario import Ended, Says, Scenario, Waits
from unstall.model.findings import Collective, Diagnosis, Finding, Ranked
from unstall.model.text import say, verbatim

STACKS = """Process 41: python x --rank=0
Python v3.11.7 (/usr/bin/python3.11)

Thread 41 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:1)
    Trainer.step (train.py:3)
Thread 42 (idle): "Helper"
    helper_only (train.py:9)

Process 43: VLLM::EngineCore_DP1
Python v3.11.7 (/usr/bin/python3.11)

Thread 43 (idle): "MainThread"
    Queue.get (queue.py:171)
"""


def marks_of(tmp_path, *marks):
    place = tmp_path / "evidence"
    place.mkdir()
    (place / "stacks.txt").write_text(STACKS)
    (place / "trainer.log").write_text("one\nthe word is here\n")
    scenario = Scenario(
        name="made-up", causes=("unknown",), title=say("made-up"), about=say("made-up"),
        module="none", fingerprint=marks,
    )  # fmt: skip
    done = Run(
        name="A1", outcome="hung", step=1, seconds=1.0, folder=str(tmp_path),
        ends=(End("trainer", 1, -9),), pids={41: "trainer rank 0"},
    )  # fmt: skip
    return [mark.found for mark in close(scenario, done).marks]


def test_frames_of_main_threads_count(tmp_path):
    found = marks_of(
        tmp_path,
        Waits("trainer rank 0", "step"),
        Waits("EngineCore_DP1", "get"),
        Waits("trainer rank 0", "helper_only"),
        Waits("EngineCore_DP1", "all_reduce"),
    )
    assert found == [True, True, False, False]


def test_logs_and_exit_codes(tmp_path):
    found = marks_of(
        tmp_path,
        Says("trainer", "the word"),
        Says("rollout", "the word"),
        Ended("trainer", -9, 1),
        Ended("trainer", 0),
    )
    assert found == [True, False, True, False]


@pytest.mark.parametrize(
    ("op", "seq", "told"),
    [("ALLREDUCE", 66, "ALLREDUCE 66"), ("barrier", None, "barrier"), ("unknown", None, "")],
)
def test_an_operation_that_is_not_known_is_not_told(op, seq, told):
    finding = Finding(
        cause="x",
        summary=verbatim("x"),
        support=(),
        collective=Collective(op, seq, None, None, None),
    )
    diagnosis = Diagnosis(verdict="failure", causes=(Ranked(finding, 0.9),))
    found = verdict_of(diagnosis)
    assert found is not None
    assert found.operation == told


def test_evidence_that_cannot_be_diagnosed_costs_its_verdict_alone(tmp_path, monkeypatch, capsys):
    def broken(_paths):
        raise RuntimeError("a defect")

    monkeypatch.setattr("unstall.diagnosis.diagnose", broken)
    run = Run(name="A1", outcome="hung", step=3, seconds=1.0, folder=str(tmp_path))
    assert judged(run) == run
    assert "a defect" in capsys.readouterr().err
