"""Operations as PyTorch prints them and as people retell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import Work
from unstall.reading.writers.tags import work


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "WorkNCCL(SeqNum=7, OpType=BROADCAST, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran",
            Work("BROADCAST", 7, 4, 4, None, 600_000),
        ),
        (
            "WorkNCCL(..., OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1200000)",
            Work("ALLREDUCE", None, 1, 1, None, 1_200_000),
        ),
        ("WorkNCCL(OpType=ALLREDUCE, SeqNum=458) ran for 1800600 ms", Work("ALLREDUCE", 458)),
        ("WorkHCCL(OpType=ALLGATHER, SeqNum=...)", Work("ALLGATHER")),
    ],
)
def test_an_operation(text: str, expected: Work) -> None:
    """Fields in any order; what is left out or dotted out stays unknown."""
    found = work(text)
    assert found is not None
    assert found[0] == expected


def test_no_operation() -> None:
    """Without a type there is nothing to tell."""
    assert work("WorkNCCL(...)") is None
    assert work("the work of NCCL") is None


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    """No text makes it fail, and where it ends lies within the text."""
    found = work("WorkNCCL(" + text)
    assert found is None or 0 < found[2] <= len(text) + 9
