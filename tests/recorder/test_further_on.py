"""Dumps of a script whose ranks had different numbers of batches: who left the loop."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unstall.recorder import analyse, findings, load
from unstall.recorder.claims import findings as claims

CASE = Path(__file__).parents[1] / "cases" / "s03-fsdp2-under-torchrun" / "trainer-dumps"


def verdict():
    return analyse(load(sorted(CASE.iterdir()), jobs=1))


def test_the_rank_further_down_has_left_the_loop():
    lead = findings(verdict())[0]
    assert lead.cause == "uneven-batches"
    assert (lead.origin.ranks, lead.waiting_ranks) == ((1,), (0,))
    assert "rank 1 had left the loop while rank 0 was still inside" in lead.summary.render()
    assert any("line 130) than rank 0 (line 122)" in one.text.render() for one in lead.support)


def test_code_that_saves_on_one_side_is_a_branch():
    found = verdict()
    renamed = []
    for suspect in found.suspects:
        own, theirs = (
            msgspec.structs.replace(
                sight,
                frames=tuple(
                    ("save_checkpoint", *frame[1:]) if frame[0] == "mean_loss" else frame
                    for frame in sight.frames
                ),
            )
            for sight in (suspect.own, suspect.operation)
        )
        renamed.append(msgspec.structs.replace(suspect, own=own, operation=theirs))
    saving = msgspec.structs.replace(found, suspects=tuple(renamed))
    assert claims(saving)[0].cause == "rank-dependent-branch"
