"""What frames say of a rank, and who stands apart from those in a collective."""

from __future__ import annotations

import pytest

from tests.making import place
from unstall.causes.activity import activity, apart_evidence, standing, waiters_within
from unstall.job import Job, build
from unstall.model.facts import Fact, FailedStack, Frame, ProcessStack, Speaker, ThreadStack
from unstall.model.plan import Plan


def frames(*names: str) -> tuple[Frame, ...]:
    """``function file`` for each, innermost first."""
    return tuple(Frame(name.split()[0], name.split()[1], 7) for name in names)


def stack(rank: int, *names: str) -> ProcessStack:
    return ProcessStack(
        place=place(rank * 10 + 1, "stacks.txt"),
        quote=f"Process {rank}",
        speaker=Speaker(rank=rank),
        pid=400 + rank,
        threads=(ThreadStack("MainThread", frames(*names)),),
    )


REDUCING = ("all_reduce torch/distributed/distributed_c10d.py", "step app/loop.py")
SAVING = ("save torch/serialization.py", "save_model app/disk.py", "step app/loop.py")
LOOPING = ("spin app/other.py", "step app/loop.py")


def job(*facts: Fact) -> Job:
    return build(facts, Plan())


@pytest.mark.parametrize(
    ("names", "kind", "shown"),
    [
        (("write a.py", "save_checkpoint a/ckpt.py", "main a.py"), "save", "save_checkpoint"),
        (("all_reduce d.py", "backward e.py", "train f.py"), "gradients", "backward"),
        # the evaluation around a forward pass is what the rank is doing
        (("linear m.py", "forward m.py", "evaluate t.py", "main t.py"), "evaluate", "evaluate"),
        (("next_data q.py", "main t.py"), "load", "next_data"),
        (("simplify s.py", "compute_score g.py"), "reward", "compute_score"),
    ],
)
def test_frames_say_what_a_rank_does(names: tuple[str, ...], kind: str, shown: str) -> None:
    found = activity(frames(*names))
    assert found is not None
    assert (found.kind, found.frame.function) == (kind, shown)


@pytest.mark.parametrize(
    "names",
    [
        ("checkpoint torch/utils/checkpoint.py", "block m.py"),
        ("main t.py",),
        (),
    ],
)
def test_activation_checkpointing_and_plain_frames_say_nothing(names: tuple[str, ...]) -> None:
    assert activity(frames(*names)) is None


def test_the_rank_outside_the_collective_stands_apart() -> None:
    seen = standing(job(stack(0, *SAVING), stack(1, *REDUCING), stack(2, *REDUCING)))
    assert seen.split
    assert (seen.missing, seen.waiting) == ((0,), (1, 2))
    assert [item.weight for item in apart_evidence(seen, ("save",), 5.0)] == [5.0]
    assert apart_evidence(seen, ("load",), 5.0) == []


def test_nobody_stands_apart_where_no_rank_is_in_a_collective_or_most_are_outside() -> None:
    assert not standing(job(stack(0, *SAVING), stack(1, *LOOPING))).split
    assert not standing(job(stack(0, *SAVING), stack(1, *LOOPING), stack(2, *REDUCING))).split


def failed(rank: int, *names: str) -> FailedStack:
    return FailedStack(
        place=place(rank + 1),
        quote="Stack trace of the failed collective",
        speaker=Speaker(rank=rank),
        frames=tuple((f.function, f.file, f.line or 0) for f in frames(*names)),
    )


def test_a_barrier_of_several_ranks_inside_a_save_counts_more_than_one_rank_s() -> None:
    inside = ("barrier torch/distributed/distributed_c10d.py", "save_state app/disk.py")
    both = job(failed(1, *inside), failed(2, *inside))
    assert [item.weight for item in waiters_within(both, None, (1, 2), ("save",))] == [3.0]
    assert [item.weight for item in waiters_within(both, None, (1,), ("save",))] == [0.7]
    assert waiters_within(both, None, (1, 2), ("evaluate",)) == []
    assert waiters_within(both, None, (5,), ("save",)) == []


def test_verifying_inside_libraries_is_no_reward() -> None:
    """DDP compares shapes when it is made; a TLS handshake checks certificates."""
    frames = [
        Frame("_verify_param_shape_across_processes", "torch/distributed/utils.py", 286),
        Frame("_verify_certificate", "urllib3/connection.py", 900),
        Frame("main", "train.py", 12),
    ]
    assert activity(frames) is None
    own = activity([*frames, Frame("verify_answer", "rewards/maths.py", 40)])
    assert own is not None
    assert (own.kind, own.frame.function) == ("reward", "verify_answer")
