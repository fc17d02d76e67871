"""A reward for the trainer: something that differs among completions of the same prompt."""

from __future__ import annotations

from typing import Any

try:
    from swift.rewards import ORM, orms  # ms-swift 4
except ImportError:
    from swift.plugin import ORM, orms


class LengthReward(ORM):  # type: ignore[misc]
    """The completion's length, modulo a small number."""

    def __call__(self, completions: list[str], **_: Any) -> list[float]:
        """One number a completion."""
        return [float(len(text) % 7) for text in completions]


orms["length"] = LengthReward
