"""gloo on the CPU or NCCL on GPUs: which of them a scenario's processes use."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from unstall.experiments.nurse import LabError
from unstall.experiments.scenario import Scenario
from unstall.model.text import say

#: Devices of the drivers with which torch offers NCCL (or RCCL under its name).
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_COUNT = (
    "import torch, torch.distributed as d; "
    "print(torch.cuda.device_count() if d.is_available() and d.is_nccl_available() else 0)"
)


@lru_cache(maxsize=1)
def gpus() -> int:
    """GPUs that torch sees and NCCL can use; asks a process, and none where there is no driver."""
    if not any(Path(driver).exists() for driver in _DRIVERS):
        return 0
    with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _COUNT],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return int(done.stdout.strip() or 0)
    return 0


def backend_for(scenario: Scenario, wanted: str, ranks: int) -> str:
    """The back end of a scenario's process groups.

    NCCL takes one GPU for each rank: it refuses two ranks on one.

    Args:
        scenario: what is to run.
        wanted: ``auto`` takes NCCL only where the scenario says that it is its default there and
            there are enough GPUs; ``nccl`` insists on it.
        ranks: number of ranks.

    Raises:
        LabError: NCCL was asked for, and the scenario or this machine cannot.
    """
    if wanted == "gloo" or (wanted == "auto" and scenario.cuda != "auto"):
        return "gloo"
    if scenario.cuda == "no":
        raise LabError(
            say("{name} runs with gloo on the CPU only, not with NCCL.", name=scenario.name)
        )
    found = gpus()
    if found >= ranks:
        return "nccl"
    if wanted == "auto":
        return "gloo"
    raise LabError(
        say(
            "NCCL needs a GPU for each rank: {ranks} ranks, {gpus} GPUs that torch can use here. "
            "--backend gloo runs on the CPU.",
            ranks=ranks,
            gpus=found,
        )
    )
