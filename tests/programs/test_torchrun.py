"""The launcher's own spellings: the path of its file, abbreviated flags."""

from __future__ import annotations

from tests.launch.plans import only, plan


def test_the_path_of_the_launchers_file_and_abbreviated_flags() -> None:
    """Any beginning of a flag that fits only one is taken: ``--nnode``, ``--nproc``."""
    found = plan(
        "python3 /usr/lib/python3/site-packages/torch/distributed/launch.py --nnode=2 "
        "--node_rank=1 --nproc=4 --master_addr=10.9.1.4 train.py --lr 1e-4\n"
    )
    program = only(found)
    assert (program.nodes, program.processes) == (2, 8)
    assert "lr" in program.flags
