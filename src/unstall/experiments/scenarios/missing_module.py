"""DDP: a rank whose batch has no image skips the vision tower."""

from __future__ import annotations

from typing import Any

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Ended, Says, Scenario
from unstall.experiments.scenarios._training import log_step
from unstall.model.text import say

SCENARIO = Scenario(
    name="skipped-module",
    causes=("data-dependent-graph",),
    title=say("a rank without an image in its batch skips the vision tower"),
    about=say(
        "From the third step on rank 1 has a batch of text only and skips the vision tower: its "
        "gradients never arrive, so its buckets are never reduced. The others wait for it; rank "
        "1 goes on to the next step and fails there."
    ),
    module="missing_module",
    changes=(
        Change("dummy-input", say("a batch without images runs a blank image, weighted with zero")),
        Change("find-unused", say("DDP looks for parameters that a step does not use")),
    ),
    fingerprint=(
        Says("trainer", "Expected to have finished reduction in the prior iteration"),
        Ended("trainer", 1, 1),
    ),
    expect="failure",
    steps=10,
    by=3,
)


def build(torch: Any) -> Any:
    """A vision tower and a language model."""
    nn = torch.nn

    class VisionLanguageModel(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.vision_tower = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 24))
            self.language_model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 1))

        def forward(self, text: Any, image: Any) -> Any:
            hidden = text
            if image is not None:
                hidden = hidden + self.vision_tower(image)
            return self.language_model(hidden)

    return VisionLanguageModel()


def main(lab: Lab) -> None:
    """Train on batches some of which have no image."""
    torch = lab.torch()
    dist = lab.join()
    model = torch.nn.parallel.DistributedDataParallel(
        build(torch), find_unused_parameters=lab.changed("find-unused")
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(1, lab.settings.steps + 1):
        text_only = lab.settings.fault and step >= 3 and lab.rank == 1
        image = None if text_only else torch.randn(8, 16)
        if text_only and lab.changed("dummy-input"):
            image = torch.zeros(8, 16)
        loss = (model(torch.randn(8, 24), image) - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log_step(lab, step, loss.item())
    lab.leave(dist)
