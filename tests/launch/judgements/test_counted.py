"""Ranks that the script starts one by one, against WORLD_SIZE."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, plan

LOOP = """
    #!/bin/bash
    export MASTER_ADDR={address} MASTER_PORT=29611
    export WORLD_SIZE={size}
    for i in 0 1 2; do
      RANK=$i LOCAL_RANK=$i python fit.py &
    done
    wait
"""


def counted(text: str) -> list[tuple[str, str | None]]:
    """Judgement and correction of the rows that count ranks."""
    rows = judgements(plan(text), "WORLD_SIZE")
    return [
        (one.judgement, one.correction)
        for one in rows
        if one.judgement in ("conflict", "suspicious")
    ]


def test_fewer_are_started_and_no_other_machine_can_come() -> None:
    text = LOOP.format(address="127.0.0.1", size=6)
    assert counted(text) == [("conflict", "WORLD_SIZE=3")]
    (row,) = [one for one in judgements(plan(text), "WORLD_SIZE") if one.judgement == "conflict"]
    assert "6 ranks are counted and the script starts 3 of them" in row.why.render()
    assert row.concerns == ("rendezvous-environment",)


def test_the_others_may_be_started_elsewhere() -> None:
    assert counted(LOOP.format(address="10.3.0.7", size=6)) == [("suspicious", "WORLD_SIZE=3")]


@pytest.mark.parametrize(
    "text",
    [
        LOOP.format(address="127.0.0.1", size=3),
        LOOP.format(address="127.0.0.1", size="$WORLD"),
        LOOP.format(address="127.0.0.1", size=6).replace("RANK=$i L", "RANK=$((BASE + i)) L"),
        LOOP.format(address="127.0.0.1", size=6).replace("python", "torchrun"),
        "WORLD_SIZE=2 RANK=0 MASTER_ADDR=127.0.0.1 python fit.py\n",
        "export WORLD_SIZE=4\npython fit.py\n",
    ],
)
def test_what_fits_or_is_not_known(text: str) -> None:
    assert counted(text) == []


def test_two_branches_count_together() -> None:
    text = """
        export MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=4
        if [ "$PART" = 0 ]; then
          RANK=0 python fit.py &
          RANK=1 python fit.py &
        else
          RANK=2 python fit.py &
          RANK=3 python fit.py &
        fi
        wait
    """
    assert counted(text) == []
