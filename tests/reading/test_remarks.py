"""People's notes, and the language they are in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.remarks import Tongue, remarks


@pytest.mark.parametrize(
    ("line", "topic", "values"),
    [
        ("# --- no more output for 3 h; all GPUs 0 % util ---", "no-output", {"hours": "3"}),
        ("There is no further log for about 90 minutes", "no-output", {"hours": "1.5"}),
        ("the job hangs at step 5 for more than 2 hours", "no-output", {"hours": "2"}),
        ("It was stuck for 1.5 days.", "no-output", {"hours": "36"}),
        ("Then it hangs forever", "no-output", {}),
        ("训练卡住了快 3 个小时", "no-output", {"hours": "3"}),
        ("没有任何输出，等了很久", "no-output", {}),
        ("等了30分钟都没有日志", "no-output", {"hours": "0.5"}),
        ("nvidia-smi: all GPUs 0 % util, memory allocated", "gpu-idle", {}),
        ("GPU utilization drops to 0%", "gpu-idle", {}),
        ("GPU利用率一直是0", "gpu-idle", {}),
        ("all GPUs stay at 100% util", "gpu-busy", {}),
        ("a multi-turn rollout takes more than 10 min", "slow-rollout", {}),
        ("一次 rollout 时间超过 20 分钟", "slow-rollout", {}),
        ("then an NCCL watchdog timeout error is raised", "collective-timeout", {}),
        ("# Weight sync with a fixed source causes a deadlock", "stuck", {}),
        ("It stays at 0/64 forever", "stuck", {}),
        ("GPU 利用率 100%，功耗很低", "gpu-busy", {}),
        ("这两张卡的显存占用一直都不高", "memory-low", {}),
        ("I use GPU 6,7 as vLLM inference cards", "devices", {"devices": "6,7", "use": "vllm"}),
        ("我使用的gpu6和7作为vllm推理卡", "devices", {"devices": "6,7", "use": "vllm"}),
        ("GPUs 0,1,2,3 for training", "devices", {"devices": "0,1,2,3", "use": "training"}),
        ("用的8卡H100：", "devices", {"count": "8", "model": "H100"}),
        ("2 nodes with 16 x A100", "devices", {"count": "16", "model": "A100"}),
        ("It works fine with a single GPU", "worked-before", {"gpus": "1"}),
        ("两个小时没有任何输出", "no-output", {"hours": "2"}),
        ("卡住半小时了", "no-output", {"hours": "0.5"}),
        ("about 9% of the rows are text-only samples", "mixed-data", {}),
        ("数据是图文混合的，另有少量纯文本", "mixed-data", {}),
        ("some experts see no tokens in a step", "mixed-data", {}),
        ("runs well on one node", "worked-before", {"nodes": "1"}),
        ("单卡训练正常", "worked-before", {"gpus": "1"}),
        ("之前一直正常，升级后才出现", "worked-before", {}),
        ("The server hangs during graph capture when TP is 2", "stuck", {}),
        ("Rollout gets stuck in the weight update", "stuck", {}),
        ("卡在 ray.get 这一行", "stuck", {}),
        ("第一次请求就卡住", "stuck", {}),
    ],
)
def test_notes(line: str, topic: str, values: dict[str, str]) -> None:
    assert dict(remarks(line)).get(topic) == values


@pytest.mark.parametrize(
    "line",
    [
        "GPU KV cache usage: 0.0%", "GPU utilization is 50%", "lr 0.0 %", "the output is fine",
        "I have no logs of the second node", "利用率 90%", "显存占用 70G", "step 3 took 2 hours",
        "", "This can potentially cause a hang if the mapping is wrong", "to avoid deadlocks",
        "processes are hanging or doing some work", "it no longer hangs up", "升级后不再卡住",
        "I set a timeout so that it won't hang",
    ],
)  # fmt: skip
def test_nothing_is_read_into_other_words(line: str) -> None:
    assert list(remarks(line)) == []


def language(*lines: str) -> str:
    tongue = Tongue()
    for line in lines:
        tongue.hear(line)
    return tongue.language


def test_language() -> None:
    assert language() == "en"
    assert language("The job hangs after some steps") == "en"
    assert language("训练到一定步数后卡住，报错如下", "Describe the bug") == "zh"
    assert language("I asked about 训练 in the forum and nobody could tell me why it stops") == "en"
    other = Tongue()
    other.hear("训练到一定步数后卡住，报错如下")
    tongue = Tongue()
    tongue.add(other)
    assert tongue.language == "zh"


@given(st.text(max_size=300))
def test_any_line(line: str) -> None:
    topics = [topic for topic, _ in remarks(line)]
    assert len(topics) == len(set(topics))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("With NCCL_P2P_DISABLE=1 it works, only slower", True),
        ("If p2p disabled, things all going well.", True),
        ("设置 NCCL_P2P_DISABLE=1 后正常", True),
        ("NCCL_P2P_DISABLE=1 does not help, it still hangs", False),
        ("I set NCCL_P2P_DISABLE=1 but nothing works", False),
        ("设置了 NCCL_P2P_DISABLE=1 也没有解决", False),
        ("export NCCL_P2P_DISABLE=1", False),
    ],
)
def test_that_it_runs_without_p2p(line: str, told: bool) -> None:
    """Only where a person says that it helped."""
    assert ("p2p-off-works" in dict(remarks(line))) is told
