from __future__ import annotations

import pytest

from tests.reading.stacks.feeding import sample, stacks
from unstall.model.facts import Frame, Place, ProcessStack, Speaker, ThreadStack
from unstall.stacks import identify


def process(command: str | None = None, *frames: str, speaker: Speaker = Speaker()) -> ProcessStack:  # noqa: B008
    made = tuple(Frame(*text.rsplit(" ", 1)) for text in frames)
    return ProcessStack(
        place=Place("x", 1),
        quote="",
        speaker=speaker,
        command=command,
        threads=(ThreadStack("MainThread", made),),
    )


def test_rollout_server() -> None:
    told = [
        (one.software, one.role, one.process, one.engine_index)
        for one in map(identify, stacks(sample("rollout_server_pyspy.txt")))
    ]
    assert told == [
        ("ms-swift", "rollout", "launcher", None),
        ("ms-swift", "rollout", "http server", None),
        ("ms-swift", "rollout", "front end", None),
        ("ms-swift", "rollout", "front end", None),
        ("vllm", "inference", "engine", 1),
        ("vllm", "inference", "engine", 0),
    ]


@pytest.mark.parametrize(
    ("command", "software", "process_kind", "index"),
    [
        ("VLLM::EngineCore_DP3", "vllm", "engine", 3),
        ("VLLM::EngineCore", "vllm", "engine", None),
        ("VLLM::Worker_DP2_TP5_EP9", "vllm", "worker", 2),
        ("/usr/bin/python3 /usr/bin/vllm serve some/model --port 80", "vllm", "http server", None),
        ("sglang::scheduler_DP4_TP1", "sglang", "engine", 4),
        ("sglang::detokenizer", "sglang", "front end", None),
        ("ray::WorkerDict.actor_rollout_update_actor", "verl", "worker", None),
        ("ray::TaskRunner.run", "verl", "driver", None),
        ("VLLM::DPCoordinator", "vllm", "coordinator", None),
        ("ray::AgentLoopWorker.generate", "verl", "worker", None),
        ("ray::IDLE", "ray", "coordinator", None),
        ("ray::Something.step", "ray", "worker", None),
        ("python -m torch.distributed.run --nproc_per_node 8 t.py", "torchrun", "launcher", None),
        ("python train.py", "unknown", "unknown", None),
    ],
)
def test_titles(command: str, software: str, process_kind: str, index: int | None) -> None:
    told = identify(process(command))
    assert (told.software, told.process, told.engine_index) == (software, process_kind, index)


def test_parts_of_a_title() -> None:
    assert identify(process("VLLM::Worker_DP2_TP5_EP9")).parts == {"DP": 2, "TP": 5, "EP": 9}


def test_frames_decide_where_the_title_does_not() -> None:
    engine = process(
        "python -c spawn_main",
        "EngineCoreProc.run_engine_core vllm/v1/engine/core.py",
    )
    assert identify(engine).process == "engine"
    coordinator = process(None, "DPCoordinatorProc.run_coordinator vllm/v1/engine/coordinator.py")
    assert identify(coordinator).process == "coordinator"
    loader = process("python train.py", "_worker_loop torch/utils/data/_utils/worker.py")
    assert identify(loader).process == "loader"
    trainer = process("python train.py", "train transformers/trainer.py")
    assert identify(trainer).software == "transformers"


def test_rank_of_prefix_and_flag() -> None:
    assert identify(process("python t.py", speaker=Speaker(rank=6))).rank == 6
    assert identify(process("python t.py --rank 4")).rank == 4
    assert identify(process("python t.py --local_rank=4")).rank is None


def test_a_speakers_name_is_a_title() -> None:
    told = identify(process(None, speaker=Speaker(name="EngineCore_DP1", pid=3)))
    assert (told.software, told.engine_index) == ("vllm", 1)
