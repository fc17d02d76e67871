from __future__ import annotations

import pytest

from unstall.reading.writers.training import TrainingSteps


@pytest.mark.parametrize(
    ("line", "step", "metrics"),
    [
        (
            "{'loss': 1.1043, 'learning_rate': 1.9981e-05, 'epoch': 0.07}",
            None,
            {"loss": 1.1043, "learning_rate": 1.9981e-05, "epoch": 0.07},
        ),
        (
            "{'loss': '0.5', 'global_step/max_steps': '20/100', 'percentage': '20.00%'}",
            20,
            {"loss": 0.5, "percentage": 20.0},
        ),
        (
            "step:6 - critic/score/mean:0.412 - timing_s/gen:402.1",
            6,
            {"critic/score/mean": 0.412, "timing_s/gen": 402.1},
        ),
        (
            " [2026-03-04 10:00:00] iteration   12/ 100 | consumed samples: 96 | lm loss:"
            " 1.25E+01 | skipped iterations:   0 |",
            12,
            {"consumed samples": 96.0, "lm loss": 12.5, "skipped iterations": 0.0},
        ),
        (
            "[titan] 2026-03-04 10:00:00,1 - root - INFO - step: 10  loss:  5.9  grad_norm:  1.25"
            "  tps: 1,234",
            10,
            {"loss": 5.9, "grad_norm": 1.25, "tps": 1234.0},
        ),
        (
            "[INFO] [logging.py:96:log_dist] [Rank 0] step=40, skipped=0, lr=[1e-05]",
            40,
            {"skipped": 0.0, "lr": 1e-05},
        ),
        ("1|412|Loss: 0.7713: 100%|", 412, {"loss": 0.7713}),
        (
            "Training epoch 0, iteration 12/99 | lr: 1.2e-06 | reduced_train_loss: 11.0",
            12,
            {"lr": 1.2e-06, "reduced_train_loss": 11.0},
        ),
        ("step 7: {'loss': 0.25}", 7, {"loss": 0.25}),
        (
            "{'loss': np.float64(0.5), 'grad_norm': tensor(1.5, device='cuda:0')}",
            None,
            {"loss": 0.5, "grad_norm": 1.5},
        ),
    ],
)
def test_writers(read, line, step, metrics):
    (fact,) = read(TrainingSteps, line + "\n")
    assert (fact.step, fact.metrics) == (step, metrics)


def test_prose_is_no_step(read):
    text = "At step 5 the loss was 3\nstep: one\nmy iteration 3\nuse {'loss': x}\n"
    assert read(TrainingSteps, text) == []
