"""A data-parallel training loop that the simple scenarios share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unstall.experiments.child import Lab, say_line


def tiny_model(torch: Any) -> Any:
    """A model of a few hundred parameters."""
    nn = torch.nn
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def loop(
    lab: Lab,
    between: Callable[[int], None],
    *,
    before: Callable[[int], None] | None = None,
    module: Any = None,
) -> None:
    """Train to the last step with DistributedDataParallel, then leave the group.

    Args:
        lab: this process's run; the default group is joined.
        between: called after each step with its number, from 1.
        before: called before each step.
        module: the model; a tiny one by default.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(module if module is not None else tiny_model(torch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if lab.rank == 0:
        say_line("***** Running training *****")
    for step in range(1, lab.settings.steps + 1):
        if before is not None:
            before(step)
        inputs = torch.randn(8, 16)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log_step(lab, step, loss.item())
        between(step)
    lab.leave(dist)


def log_step(lab: Lab, step: int, loss: float, **more: float) -> None:
    """Rank 0's metrics line, as transformers' Trainer prints it."""
    if lab.rank == 0:
        rest = "".join(f", '{name}': {value:.4f}" for name, value in more.items())
        say_line(
            f"{{'loss': {loss:.4f}, 'learning_rate': 1e-05{rest}, "
            f"'global_step/max_steps': '{step}/{lab.settings.steps}'}}"
        )


def progress_bar(lab: Lab, label: str, done: int, total: int) -> None:
    """This rank's progress bar, as tqdm prints it; every fifth state and the last ones."""
    if done % 5 and done < total - 1:
        return
    share = done / total
    full = "█" * int(10 * share)
    say_line(
        f"[rank{lab.rank}]: {label}: {int(100 * share):3d}%|{full:10s}| {done}/{total} "
        "[00:01<00:00, 21.37it/s]"
    )
