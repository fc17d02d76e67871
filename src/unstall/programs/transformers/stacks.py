"""Stacks of transformers' Trainer (4.57, ``trainer.py``)."""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

_TRAINER = "transformers/trainer.py"
_ANY = (
    "collective",
    "disk",
    "queue",
    "lock",
    "store",
    "http",
    "gpu",
    "process",
    "pipe",
    "computing",
    "unknown",
)

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "checkpoint",
        ("Trainer._save_checkpoint", "Trainer.save_model", "Trainer._push_from_checkpoint"),
        _TRAINER,
        _ANY,
        say("the rank is saving a checkpoint"),
        "transformers 4.57, trainer.py (_save_checkpoint)",
    ),
    Circumstance(
        "evaluation",
        ("Trainer.evaluate", "Trainer.evaluation_loop", "Trainer.prediction_loop"),
        _TRAINER,
        _ANY,
        say("the rank is evaluating"),
        "transformers 4.57, trainer.py (evaluation_loop)",
    ),
    Circumstance(
        "end-of-step",
        ("Trainer._maybe_log_save_evaluate", "Trainer._nested_gather"),
        _TRAINER,
        ("collective",),
        say("the rank is logging at the end of a step, where every rank gathers the loss"),
        "transformers 4.57, trainer.py (_maybe_log_save_evaluate)",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "transformers",
        "trainer",
        "trainer",
        "transformers 4.57, trainer.py (train)",
        functions=("Trainer.train", "Trainer._inner_training_loop"),
        file=_TRAINER,
        weight=14,
    ),
)
