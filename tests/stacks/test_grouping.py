from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading.stacks.feeding import sample, stacks
from unstall.model.facts import Frame, Place, ProcessStack, Speaker, ThreadStack
from unstall.stacks import group, movements, suspects

C10D = "torch/distributed/distributed_c10d.py"


def rank(
    number: int, *frames: tuple[str, str, int], state: str = "idle", at: int = 0
) -> ProcessStack:
    made = tuple(Frame(*frame) for frame in frames)
    helper = ThreadStack("tqdm_monitor", (Frame("wait", "threading.py", number),))
    return ProcessStack(
        place=Place("stacks.txt", 10 * number + at + 1),
        quote="",
        speaker=Speaker(rank=number),
        pid=1000 + number,
        command=f"python train.py --rank {number}",
        threads=(ThreadStack("MainThread", made, state), helper),
    )


WAITS = (("barrier", C10D, 9), ("train", "train.py", 40))
SAVES = (("save", "torch/serialization.py", 9), ("train", "train.py", 38))
SLEEPS = (("load", "data.py", 2), ("train", "train.py", 12))


def test_one_rank_apart_from_the_rest_is_the_suspect() -> None:
    found = group([rank(number, *WAITS) for number in range(7)] + [rank(7, *SAVES)])
    assert [(len(one.stacks), one.standing, one.wait.kind) for one in found] == [
        (7, "majority", "collective"),
        (1, "outlier", "disk"),
    ]
    (suspect,) = suspects([rank(number, *WAITS) for number in range(7)] + [rank(7, *SAVES)])
    assert suspect.stacks[0].speaker.rank == 7
    assert suspect.suspect


def test_a_rank_of_which_nothing_is_known_is_compared_with_the_others() -> None:
    found = group([rank(0, *WAITS), rank(1, *WAITS), rank(2, *SLEEPS)])
    assert [(one.standing, one.of) for one in found] == [("majority", 3), ("outlier", 3)]
    assert found[1].identity.process == found[0].identity.process == "trainer"


def test_two_of_four_are_a_tie() -> None:
    found = group([rank(0, *WAITS), rank(1, *WAITS), rank(2, *SAVES), rank(3, *SAVES)])
    assert {one.standing for one in found} == {"tie"}
    assert suspects(stack for one in found for stack in one.stacks) == []


def test_lines_count_only_where_functions_do_not_tell() -> None:
    earlier = (("barrier", C10D, 9), ("train", "train.py", 31))
    found = group([rank(0, *WAITS), rank(1, *WAITS), rank(2, *earlier)])
    assert [(len(one.stacks), one.standing, one.by_line) for one in found] == [
        (2, "majority", True),
        (1, "outlier", True),
    ]
    assert found[1].frames[1].line == 31
    alike = group([rank(0, *WAITS), rank(1, *WAITS)])
    assert [(one.standing, one.by_line, one.frames[0].line) for one in alike] == [
        ("majority", False, None)
    ]


def test_programs_are_not_compared_with_each_other() -> None:
    found = group(stacks(sample("rollout_server_pyspy.txt")))
    told = {(one.identity.process, one.wait.kind): (one.standing, one.of) for one in found}
    assert told == {
        ("launcher", "process"): ("alone", 1),
        ("http server", "pipe"): ("alone", 1),
        ("front end", "queue"): ("tie", 2),
        ("front end", "pipe"): ("tie", 2),
        ("engine", "queue"): ("tie", 2),
        ("engine", "collective"): ("tie", 2),
    }


def test_debug_page_without_pids() -> None:
    found = group(stacks(sample("debug_stacks.txt")))
    assert [(one.standing, one.of) for one in found] == [("tie", 2), ("tie", 2)]


def test_the_last_dump_of_a_process_counts() -> None:
    found = group([rank(0, *SAVES), rank(0, *WAITS, at=5), rank(1, *WAITS)])
    assert [(len(one.stacks), one.standing) for one in found] == [(2, "majority")]


def test_moved_still_and_running() -> None:
    dumps = [
        rank(0, *WAITS),
        rank(0, *WAITS, at=5),
        rank(1, *SAVES),
        rank(1, *WAITS, at=5),
        rank(2, *SLEEPS, state="active"),
        rank(2, *SLEEPS, state="active", at=5),
        rank(3, *WAITS),
    ]
    told = [(one.stacks[0].speaker.rank, one.moved, one.wait.kind) for one in movements(dumps)]
    assert told == [(0, False, "collective"), (1, True, "collective"), (2, None, "computing")]


def test_timer_dumps_of_one_process_follow_its_thread() -> None:
    told = movements(stacks(sample("faulthandler.txt")))
    # the timer fired twice at line 6; the later dumps stand at lines 7 and 10
    assert [(len(one.stacks), one.moved) for one in told] == [(4, True)]


def test_nothing_and_threadless() -> None:
    assert group([]) == []
    bare = ProcessStack(place=Place("x", 1), quote="")
    assert [one.standing for one in group([bare])] == ["alone"]
    assert movements([bare, bare]) == []


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([WAITS, SAVES, SLEEPS])), max_size=12))
@settings(max_examples=60, deadline=None)
def test_every_process_is_in_one_group(
    members: list[tuple[int, tuple[tuple[str, str, int], ...]]],
) -> None:
    found = group(rank(number, *frames) for number, frames in members)
    assert sorted(s.pid or 0 for one in found for s in one.stacks) == sorted(
        {1000 + number for number, _ in members}
    )
    for one in found:
        assert (one.standing == "outlier") == (
            one.of > 1
            and len(one.stacks) * 2 <= one.of
            and any(
                len(other.stacks) * 2 > other.of
                for other in found
                if other.identity.process == one.identity.process and other.of == one.of
            )
        )
