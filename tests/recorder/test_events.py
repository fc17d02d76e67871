"""Pairs of events and small databases that a matcher of dumps must get right.

The situations are those of PyTorch's own tests of its analyzer, told anew: pairs of events that
match or differ in operation, sizes, state or type; coalesced batches; batches only some ranks have.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from unstall.recorder import RecorderVerdict, analyse, load


def event(
    name: str,
    inputs: list[list[int]],
    outputs: list[list[int]],
    *,
    seq: int = 1,
    state: str = "scheduled",
    types: tuple[Any, Any] = ("float32", "float32"),
    group: tuple[str, str] = ("0", "default"),
    number: int = 0,
    backend: str = "nccl",
) -> dict[str, Any]:
    """As the analyzer's tests write them: types as bare strings, numbers as digits."""
    return {
        "record_id": number, "profiling_name": f"{backend}:{name}", "state": state,
        "process_group": group, "input_sizes": inputs, "output_sizes": outputs,
        "input_dtypes": types[0], "output_dtypes": types[1], "collective_seq_id": str(seq),
        "p2p_seq_id": "0", "time_created_ns": 0, "frames": [], "is_p2p": False,
    }  # fmt: skip


def compare(*ranks: list[dict[str, Any]]) -> RecorderVerdict:
    members = str(list(range(len(ranks))))
    files = []
    for rank, entries in enumerate(ranks):
        config = {"0": {"name": "0", "desc": "default", "ranks": members}}
        raw = {"version": "2.8", "pg_config": config, "entries": entries}
        files.append((f"trace_{rank}", pickle.dumps(raw, 2)))
    return analyse(load(files))


def kinds(verdict: RecorderVerdict) -> list[tuple[int, str]]:
    return [(s.rank, s.kind) for s in verdict.suspects]


SQUARE = [[4, 4]]
REDUCE = event("all_reduce", SQUARE, SQUARE)
GATHERED = event("gather", SQUARE, [[4, 4], [4, 4]])


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (REDUCE, event("all_gather", SQUARE, SQUARE), "other-operation"),
        (REDUCE, event("all_reduce", [[5, 4]], SQUARE), "other-size"),
        (REDUCE, event("all_reduce", SQUARE, [[5, 4]]), "other-size"),
        (REDUCE, event("all_reduce", SQUARE, SQUARE, types=("float32", "float16")), "other-type"),
    ],
)
def test_two_events_that_differ_are_told_with_both_ranks(
    one: dict[str, Any], other: dict[str, Any], kind: str
) -> None:
    verdict = compare([one], [other])
    assert kinds(verdict) == [(0, kind), (1, kind)]
    assert all(suspect.tie for suspect in verdict.suspects)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (REDUCE, REDUCE),
        # an all-to-all's sizes may differ by rank as long as their sum fits
        (event("all_to_all", [[4]], [[6]]), event("all_to_all", [[8]], [[6]])),
        # only the destination of a gather has outputs
        (GATHERED, event("gather", SQUARE, [[]], types=("float32", ""))),
        (GATHERED, event("gather", SQUARE, SQUARE, types=("float32", ""))),
    ],
)
def test_two_events_that_match_accuse_nobody(one: dict[str, Any], other: dict[str, Any]) -> None:
    verdict = compare([one], [other])
    assert kinds(verdict) == []
    assert "the ranks agree" in " ".join(map(str, verdict.undecided))


def test_an_event_that_contradicts_itself_is_told() -> None:
    wrong = event("all_reduce", SQUARE, [[5, 4]])
    assert kinds(compare([wrong], [wrong])) == [(0, "other-size"), (1, "other-size")]


def test_an_event_that_ended_on_one_rank_only_leaves_the_other_stuck() -> None:
    verdict = compare([{**REDUCE, "state": "completed"}], [REDUCE])
    assert kinds(verdict) == [(1, "stuck")]


def test_all_to_all_whose_sums_do_not_fit_names_no_rank_and_says_so() -> None:
    one, other = event("all_to_all", [[4]], [[6]]), event("all_to_all", [[8]], [[7]])
    verdict = compare([one], [other])
    assert kinds(verdict) == []
    assert "send 12 elements in all and expect 13" in str(verdict.undecided[0])


COLLECTIVES = (
    "broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "all_gather", "all_reduce",
    "_all_gather_base", "all_gather_into_tensor_coalesced", "reduce_scatter",
    "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "gather", "scatter", "all_to_all",
    "all_reduce_barrier", "allreduce_coalesced", "barrier", "never_heard_of_it",
)  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("backend", ["nccl", "gloo", "xccl", "unknown_backend", "nccl2"])
def test_every_operation_of_every_back_end_matches_itself(name: str, backend: str) -> None:
    inputs, outputs = SQUARE, SQUARE
    if "gather" in name and name != "gather":
        outputs = [[math.prod(inputs[0]) * 2]]
    if "scatter" in name and name != "scatter":
        inputs = [[math.prod(outputs[0]) * 2]]
    one = event(name, inputs, outputs, state="completed", backend=backend)
    assert compare([one], [one]).verdict == "benign"


def test_an_unknown_operation_may_have_other_sizes_but_not_another_name() -> None:
    one = event("exotic_v", [[3]], [[9]], backend="odd")
    assert kinds(compare([one], [event("exotic_v", [[6]], [[9]], backend="odd")])) == []
    assert kinds(compare([one], [REDUCE])) == [(0, "other-operation"), (1, "other-operation")]


# --- databases: matched, coalesced, uneven, empty ------------------------------------------------


def done(name: str, size: list[list[int]], seq: int, number: int, **more: Any) -> dict[str, Any]:
    return event(name, size, size, seq=seq, number=number, state="completed", **more)


def test_matched_operations_in_two_groups() -> None:
    own = [done("all_reduce", [[5, 5]], 1, 1, group=("1", "sub"))]
    first = [done("all_reduce", SQUARE, 1, 0)]
    assert compare(first + own, first + own).verdict == "benign"


def test_matched_coalesced_all_reduce() -> None:
    first = [done("allreduce_coalesced", SQUARE, 1, 0)]
    assert compare(first, first).verdict == "benign"


def batch(closing: str, sizes: list[int], state: str, member: str) -> list[dict[str, Any]]:
    """Members share the sequence number of the entry that ends them."""
    members = [event(member, [[n]], [[n]], seq=1, number=at) for at, n in enumerate(sizes)]
    return [*members, event(closing, [[]], [[]], seq=1, number=len(sizes), state=state)]


@pytest.mark.parametrize(
    ("closing", "member"),
    [("coalesced", "broadcast"), ("REDUCE_SCATTER_coalesced", "_reduce_oop"),
     ("ALLGATHER_coalesced", "_broadcast_oop")],
)  # fmt: skip
def test_matched_batches(closing: str, member: str) -> None:
    one = batch(closing, [16, 16], "completed", member)
    assert compare(one, one).verdict == "benign"


def test_batches_with_other_sizes_differ() -> None:
    one = batch("ALLGATHER_coalesced", [16, 25], "scheduled", "_broadcast_oop")
    other = batch("ALLGATHER_coalesced", [16, 16], "scheduled", "_broadcast_oop")
    verdict = compare(one, one, other)
    assert kinds(verdict) == [(2, "other-size")]
    assert "_broadcast_oop [25]" in str(verdict.suspects[0].evidence[0].text)


def test_a_batch_that_one_rank_never_began() -> None:
    first = done("all_reduce", SQUARE, 0, 9)
    one = batch("REDUCE_SCATTER_coalesced", [16, 16], "scheduled", "_reduce_oop")
    verdict = compare([first], [first, *one], [first, *one])
    assert kinds(verdict) == [(0, "absent")]
