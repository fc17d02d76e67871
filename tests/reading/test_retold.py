"""Sentences of people: who is in which collective, and that something failed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.remarks import remarks
from unstall.reading.retold import apart, complains


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "After a while rank 5 is stuck in all_gather while the others are in barrier.",
            {"mine": "ALLGATHER", "other": "BARRIER", "rank": "5"},
        ),
        (
            "rank2 卡在 all_reduce，其他 rank 都在 broadcast",
            {"mine": "ALLREDUCE", "other": "BROADCAST", "rank": "2"},
        ),
        (
            "The local rank 0s wait for a reduce_scatter whereas all other ranks run an allgather",
            {"mine": "REDUCESCATTER", "other": "ALLGATHER"},
        ),
        ("rank 1 is in all_reduce while the others are in allreduce too", None),
        ("We use all_reduce for gradients while broadcast is used for parameters", None),
        ("rank 3 hangs in backward while the others are in barrier", None),
    ],
)
def test_two_parties(line: str, found: dict[str, str] | None) -> None:
    """Two parties in unlike operations; one operation, or none of a party, is no such word."""
    assert apart(line) == found


@pytest.mark.parametrize(
    ("line", "yes"),
    [
        ("then it crashes with a NCCL error", True),
        ("训练到一半报错", True),
        ("It ran through without error.", False),
        ("目前没有报错，只是想确认一下", False),
        ("How many workers should I use?", False),
    ],
)
def test_complaints(line: str, yes: bool) -> None:
    """That something failed, and not that nothing did."""
    assert complains(line) is yes


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("NCCL timeout during the data processing step", "slow-data"),
        ("tokenizer超时", "slow-data"),
        ("Tokenization runs into the timeout on big data sets", "slow-data"),
        ("the model works by setting NCCL_P2P_DISABLE=1", "p2p-off-works"),
        ("After setting NCCL_IB_DISABLE=1 everything works.", "setting-works"),
        ("it works with NCCL_SOCKET_IFNAME=eno1 on all nodes", "setting-works"),
        ("加上 export NCCL_SHM_DISABLE=1 之后就正常了", "setting-works"),
        ("on two machines it never gets past the start", "several-nodes"),
    ],
)
def test_topics(line: str, topic: str) -> None:
    """What a line of a person is about."""
    assert topic in dict(remarks(line))


def test_what_did_not_help_is_not_taken_for_help() -> None:
    """Negations before and within."""
    for line in (
        "it doesn't work with NCCL_P2P_DISABLE=1",
        "the solution is not NCCL_P2P_DISABLE=1",
    ):
        assert "p2p-off-works" not in dict(remarks(line))
    for line in (
        "With NCCL_IB_DISABLE=1 it still does not work",
        "nothing works, not even NCCL_IB_DISABLE=1",
        "设置 NCCL_IB_DISABLE=1 还是不正常",
        "export NCCL_IB_DISABLE=1",
    ):
        assert "setting-works" not in dict(remarks(line))


@given(st.text(max_size=3000))
def test_any_text(text: str) -> None:
    """No text breaks it."""
    apart(text)
    complains(text)
    list(remarks(text))


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("rank 5 ran out of data after batch 50, while other ranks still have data.", "5"),
        ("Rank 2 has no more batches and the remaining ranks wait for it.", "2"),
        ("one rank finished its epoch, the others keep waiting in all_reduce", None),
        ("rank 3 的数据先用完了，其他 rank 还在等", "3"),
    ],
)
def test_a_rank_whose_data_ended_first(line, rank):
    assert ("data-ended", {"rank": rank} if rank else {}) in list(remarks(line))


@pytest.mark.parametrize(
    "line",
    [
        "if a rank runs out of data while others still have some, it would hang",
        "The loader ran out of data; other settings still work.",
        "rank 0 has no more memory while other ranks still have some",
    ],
)
def test_no_rank_whose_data_ended(line):
    assert "data-ended" not in [topic for topic, _ in remarks(line)]


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("after adding", "after-adding"),
        ("After I set these variables:", "after-adding"),
        ("加上以下环境变量后：", "after-adding"),
        ("it works.", "works-now"),
        ("Then it works now!", "works-now"),
        ("就正常了", "works-now"),
    ],
)
def test_what_stands_around_a_block_of_settings(line, topic):
    assert (topic, {}) in list(remarks(line))


@pytest.mark.parametrize(
    "line",
    ["it works on one node", "it never works", "after adding more GPUs it hangs", "跑不起来"],
)
def test_what_tells_nothing_of_a_block(line):
    assert not {"after-adding", "works-now"} & {topic for topic, _ in remarks(line)}
