"""A dump that is compared with those before it reads as if it were alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder.generate import Op, Run, grid, training
from tests.recorder.test_scan import pickled
from unstall.recorder.alike import Alike, Known
from unstall.recorder.scan import Scan
from unstall.recorder.worker import reduce_bytes


def run_of_four() -> Run:
    run = Run(grid(2, 2), training(grid(2, 2), 40))
    run.programs[3] = run.programs[3][:-9]
    return run


def contents(run: Run) -> list[bytes]:
    done = run.simulate()
    return [pickled(done.dump(rank)) for rank in range(4)]


def alone_and_in_company(dumps: list[bytes]) -> tuple[list[Any], list[Any]]:
    known = Known()
    alone = [reduce_bytes("d_0", dump, walk=True) for dump in dumps]
    company = [reduce_bytes("d_0", dump, walk=True, known=known) for dump in dumps]
    return alone, company


def shared(data: bytes, known: Known) -> int:
    return sum(p.count for _, p in Scan(data, known).pieces if isinstance(p, Alike))


def test_most_of_a_healthy_rank_is_not_matched_again() -> None:
    dumps = contents(run_of_four())
    known = Known()
    assert shared(dumps[0], known) == 0
    assert shared(dumps[0], known) > 100
    scanned = Scan(dumps[1], known)
    assert shared(dumps[1], known) > 0.5 * scanned.count


def test_a_rank_that_stopped_early_shares_what_it_did() -> None:
    dumps = contents(run_of_four())
    alone, company = alone_and_in_company(dumps)
    assert alone == company


@pytest.mark.parametrize(
    "other",
    [
        Op(0, "all_reduce", (31,)),
        Op(0, "broadcast", (8,)),
        Op(0, "send", (8,), peer=1),
    ],
    ids=["size", "operation", "send"],
)
@pytest.mark.parametrize("place", [3, 70, 110])
def test_other_operations_in_between_are_seen(other: Op, place: int) -> None:
    run = run_of_four()
    run.programs[2].insert(place, other)
    alone, company = alone_and_in_company(contents(run))
    assert alone == company
    kinds = {str(dump.meanings) for dump in company}
    assert len(kinds) > 1


def test_equal_bytes_that_stand_for_other_words_are_looked_up() -> None:
    """The same numbers of stored texts, but another text under one of them."""
    data = contents(run_of_four())[0]
    assert b"nccl:all_reduce" in data
    changed = data.replace(b"nccl:all_reduce", b"nccl:all_gather")
    alone, company = alone_and_in_company([data, changed, data])
    assert alone == company
    assert alone[0].meanings != alone[1].meanings


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_bytes_read_the_same_alone_and_in_company(data: st.DataObject) -> None:
    first, second = contents(run_of_four())[:2]
    content = bytearray(second)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    alone, company = alone_and_in_company([first, bytes(content), second])
    assert alone == company


@pytest.mark.parametrize("share", range(5, 100, 5))
def test_a_frame_that_stands_nowhere_is_judged_alike(share: int) -> None:
    """A broken entry is not read in full only because another dump came before it."""
    first, second = contents(run_of_four())[:2]
    content = bytearray(second)
    at = content.index(b"}(h\x17](h", len(content) * share // 100)
    content[at + 7] = 250  # no text was stored under this number
    alone, company = alone_and_in_company([first, bytes(content), second])
    assert alone == company


def test_dumps_that_share_nothing_are_not_remembered_for_ever() -> None:
    known = Known()
    for length in range(1, 30):
        program = [Op(0, "all_reduce", (length, at)) for at in range(100)]
        run = Run(grid(2, 1), {0: program, 1: program})
        Scan(pickled(run.simulate().dump(0)), known)
    assert len(known._references) <= 4
