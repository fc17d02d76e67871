"""PyTorch itself: its names for real groups are the ones that the layouts say."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch")

#: One process of a world: makes the groups it is told, in order, and prints their names.
WORKER = """
import json, os, sys
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

told = json.loads(sys.argv[1])
store = dist.FileStore(told["store"], told["world"])
if told["fake"]:
    from torch.testing._internal.distributed.fake_pg import FakeStore
    store = FakeStore()
backend = "fake" if told["fake"] else "gloo"
dist.init_process_group(backend, store=store, rank=told["rank"], world_size=told["world"])
names = [dist.group.WORLD.group_name]
for ranks in told["groups"]:
    group = dist.new_group(ranks, backend=backend)
    names.append(group.group_name if told["rank"] in ranks else None)
answer = {"names": names, "description": dist.group.WORLD.group_desc}
if told["mesh"]:
    mesh = init_device_mesh("cpu", told["mesh"], mesh_dim_names=told["dimensions"])
    made = [mesh.get_group(d) for d in told["dimensions"]]
    answer["mesh"] = [[g.group_name, g.group_desc] for g in made]
if told["local"]:
    if told["rank"] in told["local"]:
        group = dist.new_group(told["local"], backend=backend, use_local_synchronization=True)
        answer["local"] = group.group_name
print("ANSWER " + json.dumps(answer), flush=True)
os._exit(0)
"""


def ask(tmp_path: Any, world: int, ranks: list[int], **told: Any) -> list[dict[str, Any]]:
    """What the given ranks of a world print."""
    processes = []
    for rank in ranks:
        order = {
            "store": str(tmp_path / "store"),
            "world": world,
            "rank": rank,
            "fake": False,
            "groups": [],
            "mesh": None,
            "dimensions": None,
            "local": None,
            **told,
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, json.dumps(order)],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    answers = []
    for process in processes:
        output, _ = process.communicate(timeout=240)
        line = next(x for x in output.splitlines() if x.startswith("ANSWER "))
        answers.append(json.loads(line.removeprefix("ANSWER ")))
    return answers


def test_names_count_every_call_on_members_and_others(tmp_path: Any) -> None:
    """The groups that vLLM 0.11 makes for two engines, made by two gloo processes."""
    from unstall.programs.groups import layout
    from unstall.programs.vllm.groups import VLLM

    made = layout(VLLM, {"dp": 2, "tp": 1}, "0.11.0").groups
    answers = ask(tmp_path, 2, [0, 1], groups=[list(g.ranks) for g in made[1:]], local=[0, 1])
    for rank, answer in enumerate(answers):
        assert answer["description"] == "default_pg"
        assert answer["names"] == [g.guid if rank in g.ranks else None for g in made]
    # Rank 1 was in the default group and 12 of these: world, TP, DCP, PP, DP, EP, each twice.
    from unstall.programs.group_names import hashed_name

    assert {answer["local"] for answer in answers} == {hashed_name((0, 1), 13)}


def test_a_mesh_makes_its_dimensions_in_order(tmp_path: Any) -> None:
    """A 2 x 4 mesh seen from rank 5: replicas (1, 5) are the second list, shards (4..7) too."""
    from unstall.programs.default_group import HYBRID
    from unstall.programs.groups import layout

    (answer,) = ask(
        tmp_path,
        8,
        [5],
        fake=True,
        mesh=[2, 4],
        dimensions=["dp_replicate", "dp_shard"],
    )
    made = layout(HYBRID, {"dp_replicate": 2, "dp_shard": 4}, "2.13.0")
    mine = [g for g in made.of(5) if g.name != "default"]
    assert answer["mesh"] == [[g.guid, g.description] for g in mine]
    assert answer["mesh"] == [["2", "mesh_dp_replicate"], ["6", "mesh_dp_shard"]]


def test_a_dimension_over_all_ranks_is_the_default_group(tmp_path: Any) -> None:
    from unstall.programs.groups import layout
    from unstall.programs.openrlhf.groups import OPENRLHF

    (answer,) = ask(tmp_path, 4, [1], fake=True, mesh=[4, 1, 1], dimensions=["dp", "sp", "tp"])
    made = layout(OPENRLHF, {"world": 4}, "0.9.0")
    names = [g.guid for g in made.of(1) if g.name in ("default", "sp", "tp")]
    assert [name for name, _ in answer["mesh"]] == names == ["0", "2", "6"]
