from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.guard.pace import EARLY, LEAST, MOST, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(limit: float | None = None, start_up: float = 600.0) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(limit, start_up, clock), clock


def step(pace: Pace, clock: Clock, number: int, after: float) -> None:
    clock.now += after
    # progress is seen by the time at which it is heard, in whole
    assert pace.hear([f"step {number} loss 1.0"])


def test_before_the_first_step_every_line_is_progress_and_start_up_counts() -> None:
    pace, clock = paced(limit=5)
    clock.now += EARLY - 1
    assert not pace.overdue
    assert pace.hear(["loading shard 3 of 7"])
    clock.now += EARLY - 1
    assert not pace.overdue
    clock.now += 2
    assert pace.overdue  # to be looked at
    assert (pace.started, pace.paced, pace.base) == (False, False, 600)
    pace.look_after(pace.base)
    assert not pace.overdue
    clock.now += 600 - EARLY
    assert pace.overdue


def test_a_short_start_up_is_looked_at_as_soon_as_that() -> None:
    pace, clock = paced(start_up=7)
    clock.now += 8
    assert pace.overdue


def test_afterwards_steps_alone_are() -> None:
    pace, clock = paced(limit=30)
    step(pace, clock, 1, 1)
    clock.now += 29
    assert not pace.hear(["a warning"])
    assert not pace.overdue
    clock.now += 2
    assert pace.overdue
    assert pace.step == 1


def test_the_limit_is_learnt_from_the_longest_of_the_last_steps() -> None:
    pace, clock = paced()
    step(pace, clock, 1, 1)
    for number, seconds in ((2, 4.0), (3, 6.0)):
        step(pace, clock, number, seconds)
    assert pace.usual is None  # two intervals are too few
    assert (pace.base, pace.patience) == (600, EARLY)
    step(pace, clock, 4, 5.0)
    assert pace.usual == pytest.approx(6)
    assert pace.patience == pytest.approx(30)


def test_where_one_step_of_ten_is_told_the_pace_is_of_those() -> None:
    pace, clock = paced()
    step(pace, clock, 10, 1)
    for number in (20, 30, 40):
        step(pace, clock, number, 100)
    assert pace.usual == pytest.approx(100)


@pytest.mark.parametrize(("seconds", "patience"), [(0.01, LEAST), (1000.0, MOST)])
def test_what_is_learnt_has_bounds(seconds: float, patience: float) -> None:
    pace, clock = paced()
    for number in range(1, 6):
        step(pace, clock, number, seconds)
    assert pace.patience == patience


def test_a_bar_that_has_ended_makes_no_steps() -> None:
    pace, clock = paced(limit=10, start_up=600)
    clock.now += 1
    for done in (0, 256, 512):
        clock.now += 0.1
        pace.hear([f"Map: 50%|5 | {done}/512 [00:01<00:01, 400 examples/s]"])
    assert not pace.started
    assert (pace.base, pace.patience) == (600, EARLY)
    clock.now += 30
    assert pace.hear([], "  2%|2 | 1/60 [00:30<30:00, 30s/it]")
    assert (pace.step, pace.started, pace.patience) == (1, True, 10)


def test_any_bar_that_moves_is_progress_and_one_that_only_ticks_is_not() -> None:
    pace, clock = paced(limit=10)
    clock.now += 1
    assert pace.hear([" 10%|1 | 5/50 [00:10<01:30, 2s/it]"])
    clock.now += 5
    assert not pace.hear(["", " 10%|1 | 5/50 [00:15<01:30, 3s/it]"])
    assert not pace.hear(["INFO: 0 requests running"])
    clock.now += 5
    assert pace.hear(["Evaluating: 20%|2 | 2/10 [00:10<00:40]"])
    assert pace.idle == 0


def test_a_bar_does_not_set_the_step_back_that_metrics_tell() -> None:
    pace, clock = paced()
    step(pace, clock, 7, 1)
    clock.now += 1
    assert pace.hear(["Evaluating: 20%|2 | 2/10 [00:10<00:40]"])
    assert pace.step == 7


@pytest.mark.parametrize("length", [1, 2, 3, 100])
def test_steps_that_begin_anew_with_each_epoch(length: int) -> None:
    pace, clock = paced(limit=10)
    for epoch in range(4):
        for number in range(1, length + 1):
            if (epoch, length) > (0, 1) or epoch == 0:
                clock.now += 5
            heard = pace.hear([f"epoch {epoch} step {number}/{length} loss 1.0"])
            assert heard or (length == 1 and epoch > 0)
    assert pace.step == length


def test_a_counter_of_an_evaluation_between_steps() -> None:
    pace, clock = paced(limit=10)
    for number in (1, 2, 3, 500):
        step(pace, clock, number, 1)
    for number in (1, 2, 40):
        step(pace, clock, number, 1)
    step(pace, clock, 501, 1)
    assert pace.step == 501


def test_a_job_that_tells_where_it_stands_does_not_move() -> None:
    pace, clock = paced(limit=10)
    for number in (1, 2, 3, 4, 5):
        step(pace, clock, number, 1)
    for _ in range(5):
        clock.now += 3
        assert not pace.hear(
            ["[rank 0] still waiting at step 5", "[rank 1] still waiting at step 4"]
        )
    assert pace.overdue
    assert pace.step == 5


def test_bars_of_two_ranks_that_are_drawn_again_and_again() -> None:
    pace, clock = paced(limit=10)
    for done in (4, 5, 6):
        clock.now += 1
        assert pace.hear([f" 10%|1 | {done}/50 [00:10<01:30, 2s/it]"])
    for _ in range(5):
        clock.now += 3
        assert not pace.hear(
            [" 10%|1 | 6/50 [00:10<01:30, 3s/it]", " 10%|1 | 5/50 [00:11<01:30, 3s/it]"]
        )
    assert pace.overdue


def test_a_bar_that_is_drawn_over_itself_and_begins_anew() -> None:
    pace, clock = paced(limit=10)
    drawn = ""
    for done in (*range(21), 0, 1):
        clock.now += 1
        drawn += f"\r {done}/20 [00:10<01:30, 2s/it]"
        pace.hear([], drawn)
    assert pace.step == 1
    for _ in range(5):  # its time is drawn again, and it does not move
        clock.now += 3
        drawn += "\r 1/20 [00:13<01:30, 3s/it]"
        assert not pace.hear([], drawn)
    assert pace.overdue


def test_a_silence_that_ended_well_is_no_alarm_the_next_time() -> None:
    pace, clock = paced()
    for number in range(1, 9):
        step(pace, clock, number, 1)
    assert pace.base == 10
    clock.now += 40
    pace.excuse()
    step(pace, clock, 9, 5)
    for number in range(10, 99):  # the long interval is forgotten
        step(pace, clock, number, 1)
    assert pace.base == 90
    clock.now += 3000
    pace.excuse()
    step(pace, clock, 99, 5)
    assert pace.base == MOST


def test_a_bar_of_each_epoch() -> None:
    pace, clock = paced(limit=10)
    for _ in range(3):
        for done in (0, 1, 2):
            clock.now += 9
            heard = pace.hear([f"{done * 50}%|1 | {done}/2 [00:10<01:30, 2s/it]"])
            assert heard or (done == 0 and clock.now < 110)


def test_a_server_that_tells_that_it_waits_is_looked_at_after_start_up() -> None:
    pace, clock = paced(limit=10, start_up=60)
    for number in range(5):
        clock.now += 50
        assert pace.hear([f"loading model {'vwxyz'[number]}"])
    for number in range(5):  # the same but for its numbers: for a while
        clock.now += 10
        assert pace.hear([f"12:00:{number:02d} 0 requests running, 0x7f{number} waits"]) or number
    clock.now += 10
    for number in range(30):
        clock.now += 5
        pace.hear([f"12:01:{number:02d} 0 requests running, 0x7f{number} waits"])
    assert pace.overdue


def test_a_job_that_is_excused_is_looked_at_again_later_and_progress_forgets_it() -> None:
    pace, clock = paced(limit=10)
    step(pace, clock, 1, 1)
    clock.now += 11
    assert pace.overdue
    pace.excuse()
    assert not pace.overdue
    clock.now += 9
    assert not pace.overdue
    clock.now += 10
    assert pace.overdue
    step(pace, clock, 2, 1)
    assert pace.patience == 10


@given(st.lists(st.tuples(st.text(max_size=60), st.floats(0, 1e4)), max_size=40))
def test_whatever_a_job_prints(lines: list[tuple[str, float]]) -> None:
    pace, clock = paced()
    for line, seconds in lines:
        clock.now += seconds
        pace.hear([line], line[:10])
        assert pace.idle >= 0
        assert pace.patience > 0
        assert pace.step >= 0
