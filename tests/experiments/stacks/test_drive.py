"""A stack of torch alone: its script is followed, found hanging, and its evidence gathered."""

import sys
from pathlib import Path

import msgspec
import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.scenario import Scenario, Settings
from unstall.experiments.stacks.drive import run_stack
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import Level, inside
from unstall.model.text import verbatim
from unstall.recorder import load

pytest.importorskip("torch")

WORKER = """
import os, queue, sys, threading
import sitecustomize
import torch, torch.distributed as dist
rank, steps, hang = map(int, sys.argv[1:])
threading.Thread(
    target=sitecustomize._serve_dumps, args=(os.environ["UNSTALL_STATE_FOLDER"], rank), daemon=True
).start()
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=rank,
                        world_size=2)
for step in range(1, steps + 1):
    if hang and rank == 1 and step == 3:
        queue.Queue().get()
    dist.all_reduce(torch.ones(2))
    if rank == 0:
        print(f"step {step}/{steps}: done", flush=True)
os._exit(0)
"""


def script(environment: Environment, settings: Settings, _model: Path) -> str:
    hang = 0 if settings.changes else 1
    lines = [f"cd {environment.place}", f"export PYTHONPATH={inside('bridges')}"]
    lines += ["export TORCH_FR_BUFFER_SIZE=100"]
    lines += [f"{environment.python} worker.py {rank} {settings.steps} {hang} &" for rank in (0, 1)]
    return "\n".join([*lines, "wait"])


LEVEL = Level(
    packages=("torch",),
    scenario=Scenario(
        name="one-left", causes=("unknown",), title=verbatim("x"), about=verbatim("x"), module="",
        programs=(), stall=4.0, steps=8,
    ),
    script=script,
)  # fmt: skip


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "tiny-model").mkdir()
    (tmp_path / "worker.py").write_text(WORKER)
    return Environment(place=tmp_path, python=Path(sys.executable), versions={"torch": "9.9"})


def run(environment: Environment, folder: Path, changes: tuple[str, ...] = ()):
    settings = msgspec.structs.replace(settings_for(LEVEL.scenario), changes=changes)
    return run_stack(LEVEL, environment, settings, folder, name="A1", tell=lambda *_: None)


def test_a_hang_is_found_and_its_evidence_kept(environment, tmp_path):
    found = run(environment, tmp_path / "A1")
    assert (found.outcome, found.step) == ("hung", 2)
    evidence = tmp_path / "A1" / "evidence"
    stacks = (evidence / "stacks.txt").read_text()
    assert "all_reduce" in stacks
    assert "queue.py" in stacks
    assert (evidence / "versions.txt").read_text() == "torch==9.9\n"
    assert "worker.py 0 8 1 &" in (evidence / "launch.sh").read_text()
    assert found.dumps == {"rollout": 2}
    first, second = load(sorted((evidence / "rollout-dumps").iterdir()), jobs=1).dumps
    assert [max(group.last for group in dump.groups) for dump in (first, second)] == [3, 2]


def test_a_run_to_its_last_step_is_finished(environment, tmp_path):
    found = run(environment, tmp_path / "B1", changes=("all-stay",))
    assert (found.outcome, found.step) == ("finished", 8)
    assert not found.stacks
