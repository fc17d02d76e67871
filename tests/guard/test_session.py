from __future__ import annotations

from pathlib import Path

import pytest

from unstall.guard.checkpoints import Checkpoint
from unstall.guard.record import Attempt, Stall
from unstall.guard.session import Request, another, pause, status_of, words_of
from unstall.guard.telling import Teller, span

COMMAND = ("torchrun", "train.py")


def ended(step: int | None, outcome: str = "failed", cause: str | None = None) -> Attempt:
    stalls = []
    if outcome == "stalled":
        stalls = [Stall(step=step or 0, idle=9, kind="stuck", said="", folder="f", cause=cause)]
    return Attempt(
        number=1, command=[*COMMAND], outcome=outcome, step=step or 0, first_step=step,
        cause=cause if outcome == "failed" else None, stalls=stalls,
    )  # fmt: skip


def more(restarts: int, *attempts: Attempt) -> bool:
    return another(Request(command=COMMAND, restarts=restarts), list(attempts), Teller())


def test_no_restarts_without_being_asked() -> None:
    assert not more(0, ended(5))


@pytest.mark.parametrize("outcome", ["finished", "interrupted"])
def test_what_ended_well_or_by_the_user_is_left(outcome: str) -> None:
    assert not more(3, ended(5, outcome))


def test_as_often_as_was_asked() -> None:
    assert more(2, ended(5))
    assert more(2, ended(5), ended(9))
    assert not more(2, ended(5), ended(9), ended(12))


def test_twice_at_one_step_is_no_chance() -> None:
    assert not more(9, ended(5), ended(5))
    assert more(9, ended(5), ended(5, "stalled"))
    assert not more(9, ended(3), ended(5, "stalled"), ended(5, "stalled"))
    assert more(9, ended(5, cause="python-exception"), ended(5, cause="cuda-oom"))


def test_before_the_first_step_only_a_known_cause_tells() -> None:
    assert more(9, ended(None), ended(None))
    assert more(9, ended(None, cause="unknown"), ended(None, cause="unknown"))
    assert not more(9, ended(None, cause="python-exception"), ended(None, cause="python-exception"))


def test_a_command_that_fails_at_once_is_started_less_and_less_often() -> None:
    early = ended(None)
    assert [pause([early] * count) for count in (1, 2, 3, 6, 999)] == [2, 4, 8, 60, 60]
    assert pause([early, early, ended(5)]) == 2
    assert pause([early, early, ended(5), early]) == 2


def test_words_of_a_restart() -> None:
    one = Checkpoint(Path("out/checkpoint 7"), 7, 0.0, 0.0, True)
    plain = Request(command=COMMAND, resume_with="--resume 'a b'")
    assert words_of(plain, None, again=False) == [*COMMAND]
    assert words_of(plain, None, again=True) == [*COMMAND, "--resume", "a b"]
    placed = Request(command=COMMAND, resume_with="--resume {checkpoint}", checkpoints="out/*")
    assert words_of(placed, None, again=True) == [*COMMAND]
    assert words_of(placed, one, again=True) == [*COMMAND, "--resume", "out/checkpoint 7"]


@pytest.mark.parametrize(
    ("outcome", "code", "status"),
    [("finished", 0, 0), ("failed", 3, 3), ("failed", -9, 137), ("stalled", 1, 124),
     ("interrupted", -15, 143), ("interrupted", 0, 0), ("failed", None, 1)],
)  # fmt: skip
def test_exit_status(outcome: str, code: int | None, status: int) -> None:
    attempt = ended(4, outcome)
    attempt.code = code
    assert status_of(attempt) == status


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "0.2 s"),
        (9.96, "10 s"),
        (36, "36 s"),
        (119, "119 s"),
        (600, "10 min"),
        (9000, "2.5 h"),
    ],
)
def test_spans(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
