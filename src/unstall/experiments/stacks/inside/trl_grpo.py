"""A GRPO training script as users of TRL write it: ``torchrun … trl_grpo.py --dataset … FLAGS``.

Flags are those of ``trl.GRPOConfig`` and the two of :class:`Data`. The reward differs among the
completions of a prompt, so that there is something to learn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Data:
    """What is trained on what.

    Attributes:
        model_name_or_path: folder of the model.
        dataset: a file with a row ``{"messages": […]}`` on each line.
    """

    model_name_or_path: str
    dataset: str


def length_reward(completions: list[Any], **_: Any) -> list[float]:
    """The completion's length, modulo a small number."""
    return [float(len(one[0]["content"]) % 7) for one in completions]


def main() -> None:
    """Train for as many steps as asked."""
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer, TrlParser

    data, config = TrlParser((Data, GRPOConfig)).parse_args_and_config()
    rows = load_dataset("json", data_files=data.dataset, split="train")
    trainer = GRPOTrainer(
        model=data.model_name_or_path,
        args=config,
        reward_funcs=length_reward,
        train_dataset=rows.rename_column("messages", "prompt"),
    )
    trainer.train()


if __name__ == "__main__":
    main()
