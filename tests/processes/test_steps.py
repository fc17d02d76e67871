"""What counts as a training step in a job's output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.processes.steps import Steps, bars_of, step_of


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("{'loss': 0.3, 'global_step/max_steps': '17/500', 'epoch': 0.1}", 17),
        ("step 12 loss 0.31", 12),
        (
            "[2026-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] step=40, skipped=0",
            40,
        ),
        ("step:12 - actor/entropy:0.31 - critic/score/mean:0.5", 12),
        ("[rank0]:[titan] - root - INFO - step: 10  loss:  7.2  memory: 3.1GiB", 10),
        (" [2026-01-02] iteration       90/     500 | consumed samples: 720 |", 90),
        ("iter 250: loss 3.1, time 91ms", 250),
        ("Epoch [1/3], Step [300/600], Loss: 0.2", 300),
        ("Step 45/900 loss=1.3", 45),
        ("Step 8 | loss 2.1", 8),
        ("Iteration 31, loss 0.5", 31),
        ("global_step 1024", 1024),
        ("Step 1: preparing the data", None),
        ("Step 2", None),
        ("this takes one step at a time", None),
        ("Iteration complete", None),
        ("footstep 5x", None),
        ("", None),
    ],
)
def test_steps_of_lines(line: str, step: int | None) -> None:
    assert step_of(line) == step


def test_bars() -> None:
    line = "\rTrain:  2%|2   | 12/500 [00:10<06:00, 1.2it/s]\rTrain:  3%|3   | 13/500 [00:11<06:00]"
    assert bars_of(line) == [("12", "500"), ("13", "500")]
    assert bars_of("no bar 3/4") == []


def test_metrics_count_more_than_bars() -> None:
    steps = Steps()
    steps.look(["  5%|5  | 25/500 [00:10<06:00]"])
    assert (steps.step, steps.started) == (25, True)
    steps.look(["step 3 loss 1.0"])
    assert steps.step == 3
    steps.look(["  9%|9  | 45/500 [00:10<06:00]"])
    assert steps.step == 3


def test_steps_of_a_metrics_line_win_over_bars() -> None:
    steps = Steps()
    steps.look(["  50%|#####     | 40/80 [00:01<00:01, 9.1it/s]"])
    assert steps.step == 40
    steps.look(["{'loss': 1.0, 'global_step/max_steps': '7/150'}"])
    assert steps.step == 7


def test_the_bar_with_most_steps_counts() -> None:
    steps = Steps()
    steps.look(["3/100 [00:01<00:30, 3.0it/s]", "8/8 [00:01<00:00, 8.0it/s]"])
    assert steps.step == 3


def test_a_bar_that_only_returns_the_carriage_is_progress() -> None:
    steps = Steps()
    steps.look([], "\r 1/80 [00:01<00:01]")
    steps.since = 0.0
    steps.look([], "\r 1/80 [00:01<00:01]\r 2/80 [00:01<00:01]")
    assert steps.step == 2
    assert steps.since > 0
    steps.since = 0.0
    steps.look([], "\r 1/80 [00:01<00:01]\r 2/80 [00:01<00:01]\r 2/80 [00:09<00:01]")
    assert steps.since == 0.0  # the bar is drawn again: the step has not moved


@given(st.text(max_size=300))
def test_whatever_a_line_holds(line: str) -> None:
    step = step_of(line)
    assert step is None or 0 <= step < 10**9
    assert all(int(done) >= 0 and int(total) >= 0 for done, total in bars_of(line))
