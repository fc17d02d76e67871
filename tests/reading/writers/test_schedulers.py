# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

from datetime import datetime

import pytest

from unstall.reading.writers.schedulers import SchedulerLog, TaskEnds


def test_each_task_of_a_range(read):
    ends = read(TaskEnds, "srun: error: node01: tasks 0-2,4: Exited with exit code 134\n")
    assert [end.rank for end in ends] == [0, 1, 2, 4]
    assert {(end.exit_code, end.signal, end.host, end.reporter) for end in ends} == {
        (-6, "SIGABRT", "node01", "slurm")
    }


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("Aborted (core dumped)", -6),
        ("Killed", -9),
        ("Segmentation fault", -11),
        ("Terminated", -15),
        ("Exited with exit code 1", 1),
    ],
)
def test_a_tasks_end_in_words(read, words, code):
    (end,) = read(TaskEnds, f"srun: error: gpu-7: task 13: {words}\n")
    assert (end.rank, end.exit_code) == (13, code)


@pytest.mark.parametrize(
    ("line", "kind", "node"),
    [
        (
            "slurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-11-30T10:00:00 DUE TO TIME"
            " LIMIT ***",
            "time-limit",
            "n1",
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON n[08-11] CANCELLED AT 2026-11-30T10:00:00 DUE TO"
            " PREEMPTION ***",
            "preempted",
            "n[08-11]",
        ),
        (
            "slurmstepd: error: *** JOB 9 ON n2 CANCELLED AT 2026-11-30T10:00:00 DUE TO NODE"
            " FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
            "node-failure",
            "n2",
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON n3 CANCELLED AT 2026-11-30T10:00:00 ***",
            "cancelled",
            "n3",
        ),
    ],
)
def test_slurm_cancels(read, line, kind, node):
    (fact,) = read(SchedulerLog, line + "\n")
    assert (fact.kind, fact.node, fact.scheduler) == (kind, node, "slurm")
    assert fact.moment.stamp == datetime(2026, 11, 30, 10)


def test_other_events(read):
    facts = read(
        SchedulerLog,
        """\
srun: error: Node failure on node03
slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.
    Reason:       OOMKilled
    Exit Code:    137
command terminated with exit code 143
  Warning  Evicted  3m  kubelet  The node was low on resource: memory.
  Normal  NodeNotReady  node-controller
""",
    )
    assert [type(fact).__name__ for fact in facts] == [
        "SchedulerEvent",
        "MemoryKill",
        "MemoryKill",
        "ProcessEnd",
        "ProcessEnd",
        "SchedulerEvent",
        "SchedulerEvent",
    ]
    assert (facts[0].kind, facts[0].node) == ("node-failure", "node03")
    assert (facts[1].by, facts[2].by) == ("slurm", "kubernetes")
    assert (facts[3].exit_code, facts[4].exit_code) == (-9, -15)
    assert [(fact.kind, fact.scheduler) for fact in facts[5:]] == [
        ("evicted", "kubernetes"),
        ("node-failure", "kubernetes"),
    ]
