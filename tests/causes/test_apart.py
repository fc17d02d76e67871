"""Stacks taken twice: the rank that the others wait for is stuck, or late."""

from __future__ import annotations

from pathlib import Path

import pytest

import unstall
from unstall.causes.activity import place_of, standing
from unstall.job import build
from unstall.model.plan import Plan
from unstall.reading import read

WAITS = (
    "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n"
    "    train (fit.py:40)\n    <module> (fit.py:90)\n"
)


def stack(pid: int, rank: int, frames: str, state: str = "idle") -> str:
    return (
        f"##### rank {rank}, pid {pid}\nProcess {pid}: python fit.py\n"
        f'Python v3.11.7 (/opt/bin/python3.11)\n\nThread {pid} ({state}): "MainThread"\n{frames}\n'
    )


def reading(line: int) -> str:
    return f"    open_shard (shards.py:{line})\n    train (fit.py:31)\n    <module> (fit.py:90)\n"


def told(folder: Path, *sets: str) -> tuple[str, list[int], str]:
    for number, text in enumerate(sets, 1):
        (folder / f"stacks-{number}.txt").write_text(text)
    found = unstall.diagnose([folder])
    finding = found.causes[0].finding
    assert finding.cause == "unknown"
    origin = list(finding.origin.ranks) if finding.origin is not None else []
    assert finding.next_step is not None
    return finding.summary.render(), origin, finding.next_step.render()


def test_one_set_does_not_tell(tmp_path: Path) -> None:
    summary, origin, step = told(tmp_path, stack(7, 0, WAITS) + stack(8, 1, reading(12)))
    assert "one set of stacks" in summary
    assert origin == []
    assert "take the stacks again" in step


def test_the_same_twice_is_where_it_hangs(tmp_path: Path) -> None:
    both = stack(7, 0, WAITS) + stack(8, 1, reading(12))
    summary, origin, step = told(tmp_path, both, both)
    assert "rank 1, which stands still in open_shard (shards.py:12)" in summary
    assert origin == [1]
    assert "open_shard (shards.py:12)" in step


def test_another_line_is_at_work(tmp_path: Path) -> None:
    first = stack(7, 0, WAITS) + stack(8, 1, reading(12))
    summary, origin, _ = told(tmp_path, first, stack(7, 0, WAITS) + stack(8, 1, reading(19)))
    assert "rank 1, which is at work and late" in summary
    assert origin == [1]


def test_the_same_line_of_a_thread_that_runs_tells_nothing(tmp_path: Path) -> None:
    both = stack(7, 0, WAITS) + stack(8, 1, reading(12), "active+gil")
    summary, origin, _ = told(tmp_path, both, both)
    assert "one set of stacks" in summary
    assert origin == []


def test_of_several_that_stand_apart_none_is_named(tmp_path: Path) -> None:
    both = stack(7, 0, WAITS) + stack(8, 1, reading(12)) + stack(9, 2, reading(14))
    _, origin, _ = told(tmp_path, both, both)
    assert origin == []


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        ("open_shard.<locals>.<genexpr>", "open_shard (shards.py:12)"),
        ("Reader.open", "Reader.open (shards.py:12)"),
        ("make.<locals>.inner", "make.<locals>.inner (shards.py:12)"),
    ],
)
def test_a_comprehension_is_its_functions(tmp_path: Path, function: str, shown: str) -> None:
    path = tmp_path / "stacks.txt"
    frames = f"    {function} (shards.py:12)\n    <module> (fit.py:90)\n"
    path.write_text(stack(7, 0, WAITS) + stack(8, 1, frames))
    (one,) = standing(build(read([path]).facts, Plan())).apart
    assert place_of(one) == shown


BACKWARD = (
    "    _engine_run_backward (torch/autograd/graph.py:1072)\n"
    "    backward (torch/autograd/__init__.py:395)\n    Tensor.backward (torch/_tensor.py:623)\n"
    "    train (fit.py:41)\n    <module> (fit.py:90)\n"
)


def test_a_backward_pass_that_never_ends_waits_for_the_rank_elsewhere(tmp_path: Path) -> None:
    """DDP's gradients are reduced inside of it, in no function of Python's."""
    both = stack(7, 0, BACKWARD) + stack(8, 1, reading(12)) + stack(9, 2, BACKWARD)
    summary, origin, step = told(tmp_path, both, both)
    assert "ranks 0, 2 stand in the backward pass" in summary
    assert "rank 1 in open_shard (shards.py:12)" in summary
    assert origin == [1]
    assert "rank 1" in step
    assert "open_shard (shards.py:12)" in step


def test_ranks_that_stand_elsewhere_are_named_by_their_places(tmp_path: Path) -> None:
    both = stack(7, 0, reading(14)) + stack(8, 1, reading(12)) + stack(9, 2, reading(14))
    summary, origin, _ = told(tmp_path, both, both)
    assert "ranks 0, 2 in open_shard (shards.py:14)" in summary
    assert "rank 1 in open_shard (shards.py:12)" in summary
    assert origin == []


def test_all_in_one_place(tmp_path: Path) -> None:
    both = stack(7, 0, reading(12)) + stack(8, 1, reading(12))
    summary, origin, _ = told(tmp_path, both, both)
    assert "ranks 0-1 in open_shard (shards.py:12)" in summary
    assert origin == []


@pytest.mark.parametrize("state", ["idle", "active"])
def test_what_moves_or_may_compute_stands_nowhere(tmp_path: Path, state: str) -> None:
    first = stack(7, 0, BACKWARD) + stack(8, 1, reading(12), state)
    second = first if state == "active" else stack(7, 0, BACKWARD) + stack(8, 1, reading(13))
    for number, text in enumerate((first, second), 1):
        (tmp_path / f"stacks-{number}.txt").write_text(text)
    found = unstall.diagnose([tmp_path])
    assert found.causes == ()
    assert found.verdict == "inconclusive"


def test_a_log_that_looks_well_beside_stacks_is_no_proof_of_health(tmp_path: Path) -> None:
    (tmp_path / "stacks.txt").write_text(stack(7, 0, BACKWARD) + stack(8, 1, reading(12)))
    (tmp_path / "run.log").write_text(
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to "
        "avoid your system being overloaded\nstep 1 loss 2.5\nstep 2 loss 2.4\n"
    )
    assert unstall.diagnose([tmp_path]).verdict == "inconclusive"
