"""What is offered against engines of trl vllm-serve that fell out of step."""

from tests.launch.plans import plan
from unstall.programs.remedies import remedies

TRAINER = "torchrun --nproc_per_node 2 fit.py --use_vllm true --vllm_mode server\n"


def fixes(server: str, cause: str = "engine-desync", trainer: str = ""):
    found = plan(f"trl vllm-serve --model m {server} &\n{trainer}")
    rollout = next(one for one in found.programs if one.role == "rollout")
    return remedies(cause, rollout, found.programs, {"vllm": "0.11.0"})


def changes(server: str) -> list[tuple[dict[str, str], tuple[str, ...]]]:
    return [(fix.change.set, fix.change.unset) for fix in fixes(server) if fix.change is not None]


def test_one_engine_or_one_over_the_same_devices_or_without_engine_processes():
    assert changes("--data_parallel_size 4 --tensor_parallel_size 2") == [
        ({}, ("data_parallel_size",)),
        ({"tensor_parallel_size": "8"}, ("data_parallel_size",)),
        ({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}, ()),
    ]


def test_a_flag_with_hyphens_is_the_same_flag():
    assert changes("--data-parallel-size 2")[0] == ({}, ("data_parallel_size",))


def test_only_where_a_trainer_runs_may_it_hold_the_engine():
    def texts(trainer: str) -> str:
        return " ".join(str(fix.text) for fix in fixes("--data_parallel_size 2", trainer=trainer))

    assert "colocate" in texts(TRAINER)
    assert "colocate" not in texts("")


def test_one_engine_has_no_partner_and_other_causes_no_such_remedy():
    assert not any(fix.change for fix in fixes("--data_parallel_size 1"))
    assert fixes("--data_parallel_size 2", cause="slow-rollout") == []
