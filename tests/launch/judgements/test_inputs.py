"""What a rollout server and its trainer make of one prompt."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, lines, plan, wrong

PAIR = """
    {first} CUDA_VISIBLE_DEVICES=0 swift rollout --model {model} --port 8123 {server} &
    {second} CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo \\
        --model /m/tiny-vl \\
        --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 \\
        --vllm_server_port 8123 {trainer}
    """


def pair(
    first: str = "",
    second: str = "",
    server: str = "",
    trainer: str = "",
    model: str = "/m/tiny-vl",
) -> str:
    return PAIR.format(first=first, second=second, server=server, trainer=trainer, model=model)


@pytest.mark.parametrize("name", ["MAX_PIXELS", "IMAGE_MAX_TOKEN_NUM", "FPS_MAX_FRAMES"])
class TestVariables:
    def test_two_sizes_are_suspicious_and_cite_both_lines(self, name: str) -> None:
        found = plan(pair(f"{name}=640", f"{name}=980"))
        (row,) = judgements(found, name)
        assert (row.judgement, lines(row)) == ("suspicious", [1, 2])
        assert row.values == {"rollout server": "640", "trainer": "980"}
        assert row.correction == f"{name}=980"
        assert wrong(found) == set()

    def test_one_size_for_both_is_in_order(self, name: str) -> None:
        (row,) = judgements(plan(pair(f"{name}=640", f"{name}=640")), name)
        assert row.judgement == "ok"

    def test_a_size_for_one_alone_is_suspicious(self, name: str) -> None:
        (row,) = judgements(plan(pair("", f"{name}=640")), name)
        assert row.judgement == "suspicious"
        assert "default" in str(row.why)

    def test_exported_once_it_reaches_both(self, name: str) -> None:
        (row,) = judgements(plan(f"export {name}=640" + pair()), name)
        assert row.judgement == "ok"

    def test_an_unknown_size_is_not_judged_as_different(self, name: str) -> None:
        found = plan(pair(f"{name}=$A", f"{name}=$B"))
        assert {j.judgement for j in judgements(found, name)} <= {"ok"}


class TestFlags:
    @pytest.mark.parametrize(
        ("flag", "one", "other"),
        [
            ("max_length", "3000", "5000"),
            ("template", "plain", "chatty"),
            ("truncation_strategy", "left", "delete"),
            ("max_pixels", "100", "200"),
        ],
    )
    def test_two_values_are_suspicious(self, flag: str, one: str, other: str) -> None:
        found = plan(pair(server=f"--{flag} {one}", trainer=f"--{flag} {other}"))
        (row,) = judgements(found, flag)
        assert (row.judgement, row.correction) == ("suspicious", f"--{flag} {other}")
        same = plan(pair(server=f"--{flag} {one}", trainer=f"--{flag} {one}"))
        assert [j.judgement for j in judgements(same, flag)] == ["ok"]

    def test_a_flag_of_one_side_alone_says_nothing(self) -> None:
        assert judgements(plan(pair(trainer="--max_length 5000")), "max_length") == []


class TestWeights:
    def test_another_model_is_suspicious(self) -> None:
        (row,) = judgements(plan(pair(model="/m/tiny-vl-chat")), "model")
        assert row.judgement == "suspicious"

    @pytest.mark.parametrize("model", ["/m/tiny-vl/", "owner/Tiny-VL"])
    def test_one_model_elsewhere_is_the_same(self, model: str) -> None:
        (row,) = judgements(plan(pair(model=model)), "model")
        assert row.judgement == "ok"

    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [("bfloat16", "float16", "suspicious"), ("bf16", "bfloat16", "ok")],
    )
    def test_number_types(self, one: str, other: str, expected: str) -> None:
        found = plan(pair(server=f"--torch_dtype {one}", trainer=f"--torch_dtype {other}"))
        assert [j.judgement for j in judgements(found, "dtype")] == [expected]

    def test_auto_says_nothing(self) -> None:
        found = plan(pair(server="--torch_dtype auto", trainer="--torch_dtype float16"))
        assert judgements(found, "dtype") == []


def test_two_jobs_that_do_not_talk_are_not_compared() -> None:
    text = (
        "MAX_PIXELS=10 CUDA_VISIBLE_DEVICES=0 swift deploy --model a &\n"
        "MAX_PIXELS=20 CUDA_VISIBLE_DEVICES=1 swift sft --model b\n"
    )
    assert {j.judgement for j in judgements(plan(text), "MAX_PIXELS")} <= {"ok"}
