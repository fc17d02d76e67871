"""Ranks started by torchrun itself: its agent, its report of a failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from unstall.experiments.child import ROLE, Lab


def torchrun(lab: Lab, module: str, *, role: str = "rank", options: Sequence[str] = ()) -> None:
    """Become ``torchrun`` with as many ranks as the run has; does not return.

    Args:
        lab: the run.
        module: of the scenario, below ``scenarios``.
        role: the ranks' role.
        options: more options of torchrun.
    """
    os.environ[ROLE] = role
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={lab.settings.ranks}",
        *(options or ("--master-port", os.environ["MASTER_PORT"])),
        "-m",
        "unstall.experiments.program",
        f"unstall.experiments.scenarios.{module}",
    ]
    os.execv(sys.executable, command)  # noqa: S606 - a list, no shell
