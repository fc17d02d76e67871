"""How many tasks srun starts inside of a job, worked out from Slurm 24.05.8's srun/opt.c."""

from __future__ import annotations

import pytest

from tests.launch.plans import only, plan
from unstall.programs.mpi import srun_tasks


def options(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split())


@pytest.mark.parametrize(
    ("job", "own", "expected"),
    [
        ("", "", (None, None, None)),
        ("nodes=2", "", (2, 2, 1)),
        ("nodes=2 ntasks-per-node=8", "", (2, 16, 8)),
        ("ntasks=16 ntasks-per-node=8", "", (2, 16, 8)),
        ("nodes=2 ntasks=16", "", (2, 16, 8)),
        # SLURM_NTASKS=16 wins over the step's number for each node, which is then ignored
        ("nodes=2 ntasks-per-node=8", "ntasks-per-node=1", (2, 16, 8)),
        # with the step's own number of nodes it does not
        ("nodes=2 ntasks-per-node=8", "nodes=2 ntasks-per-node=1", (2, 2, 1)),
        ("nodes=2 ntasks-per-node=8", "nodes=1", (1, 8, 8)),
        ("nodes=4 ntasks-per-node=1", "nodes=1 ntasks=1", (1, 1, 1)),
        # fewer tasks than nodes: fewer nodes
        ("nodes=4", "ntasks=2", (2, 2, 1)),
        ("nodes=4", "ntasks-per-node=2", (4, 8, 2)),
        ("", "nodes=2 ntasks-per-node=4", (2, 8, 4)),
        ("", "ntasks=4", (None, 4, None)),
        ("nodes=2 ntasks-per-node=4", "ntasks=$N", (None, None, None)),
    ],
)
def test_tasks(job: str, own: str, expected: tuple[int | None, ...]) -> None:
    assert srun_tasks(options(job), options(own)) == expected


@pytest.mark.parametrize(("each", "ranks"), [("4", 8), ("a100:4", None)])
def test_the_devices_of_a_node_as_slurm_tells_them(each: str, ranks: int | None) -> None:
    text = (
        f"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={each}\n"
        "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_PER_NODE "
        "--rdzv_backend c10d --rdzv_endpoint h:77 fit.py\n"
    )
    assert only(plan(text)).processes == ranks
