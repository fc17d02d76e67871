"""Programs that a log shows without its launch script."""

from __future__ import annotations

from tests.making import place, timeout
from unstall.job.owners import Owners, implied_programs
from unstall.model.facts import Identity
from unstall.model.plan import Plan
from unstall.programs.speakers import by_path, rank_in_name


def shown(*told: tuple[str, str | None]) -> list[tuple[str, str]]:
    facts = [
        Identity(place=place(number), quote="", software=software, role=role)
        for number, (software, role) in enumerate(told, 1)
    ]
    return [(one.software, one.label) for one in implied_programs(facts, Plan())]


def test_an_engine_that_is_given_weights_is_a_rollout_server() -> None:
    """However often it shows itself as an engine: a rollout server is one, too."""
    told = [("vllm", "inference")] * 5 + [("vllm", "rollout"), ("ms-swift", "trainer")]
    assert sorted(shown(*told)) == [("ms-swift", "trainer"), ("vllm", "rollout server")]
    assert shown(*[("vllm", "inference")] * 5) == [("vllm", "inference server")]


def test_another_engine_beside_it_stays_what_it_is() -> None:
    told = [("sglang", "inference")] * 2 + [("vllm", "rollout")]
    assert sorted(shown(*told)) == [("sglang", "inference server"), ("vllm", "rollout server")]


def test_rollout_code_of_ms_swifts_trainer_is_the_trainers() -> None:
    for path, role in (
        ("/w/swift/trainers/rlhf_trainer/rollout_mixin.py", "trainer"),
        ("/w/swift/rlhf_trainers/rollout_mixin.py", "trainer"),
        ("/w/swift/llm/infer/rollout.py", "rollout"),
        ("/w/swift/pipelines/infer/rollout.py", "rollout"),
        ("/w/swift/infer_engine/grpo_vllm_engine.py", "rollout"),
    ):
        sign = by_path(path)
        assert sign is not None
        assert sign.role == role


def test_a_workers_name_tells_its_rank_where_it_counts_all() -> None:
    """Engines (vLLM, SGLang) name each kind of parallelism whose size is more than one."""
    for name, rank in (
        ("Worker_TP3", 3),
        ("VllmWorker-1", 1),
        ("TP2", 2),
        ("Worker_PP1_TP0", None),
        ("DP1 TP0", None),
        ("EngineCore_DP0", None),
        (None, None),
    ):
        assert rank_in_name(name) == rank


def test_a_file_in_which_the_one_engine_does_not_show_itself_is_not_its_own() -> None:
    """Another program's log lies beside the engine's."""
    told = [
        Identity(place=place(1, "a.log"), quote="", software="vllm", role="inference"),
        Identity(place=place(2, "a.log"), quote="", software="vllm", role="inference"),
    ]
    owners = Owners.of(told, implied_programs(told, Plan()))
    mine, other = timeout(0, 1, 3, source="a.log"), timeout(0, 1, 3, source="b.log")
    assert (owners.owner(mine) is not None, owners.owner(other)) == (True, None)
