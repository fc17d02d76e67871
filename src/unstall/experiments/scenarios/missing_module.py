"""FSDP2: a rank whose batch has no image skips the vision tower."""

from __future__ import annotations

from typing import Any

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Scenario, Waits
from unstall.experiments.scenarios._training import log_step
from unstall.model.text import say

SCENARIO = Scenario(
    name="skipped-module",
    causes=("data-dependent-graph",),
    title=say("a rank without an image in its batch skips the vision tower"),
    about=say(
        "The model is sharded, so a module's parameters are gathered when it runs. From the "
        "third step on rank 1 has a batch of text only and skips the vision tower: it gathers "
        "the language model while the others gather the tower."
    ),
    module="missing_module",
    changes=(
        Change("dummy-input", say("a batch without images runs a blank image, weighted with zero")),
        Change("leaf-module", say("tower and language model are gathered together, as one unit")),
    ),
    fingerprint=(Waits("trainer rank", "forward"),),
    expect="failure",
    steps=10,
    by=3,
    gather=2.0,
)


def build(torch: Any) -> Any:
    """A vision tower and a language model of different sizes."""
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
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (lab.world,))
    model = build(torch)
    if not lab.changed("leaf-module"):
        fully_shard(model.vision_tower, mesh=mesh)
        fully_shard(model.language_model, mesh=mesh)
    fully_shard(model, mesh=mesh)
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
