"""One death and what it explains: who waited, who only reports, when it began, whom it was."""

from __future__ import annotations

from datetime import datetime

import pytest

from unstall.causes.aftermath import aftermath
from unstall.causes.deaths import echo_evidence, rank_of_pid, survived
from unstall.job import Job, build
from unstall.model.facts import (
    CollectiveTimeout,
    CudaOutOfMemory,
    Fact,
    GroupTag,
    Moment,
    NcclError,
    Place,
    ProcessEnd,
    PythonException,
    Speaker,
    TrainingStep,
    Work,
)
from unstall.model.plan import Plan, Program

TRAINER = Program(label="trainer", role="trainer", software="torchrun", processes=4)


def at(line: int, rank: int | None = None, clock: str | None = None) -> dict[str, object]:
    moment = Moment(datetime.fromisoformat(f"2025-05-04 {clock}")) if clock else None
    return {
        "place": Place("a.log", line),
        "quote": f"line {line}",
        "speaker": Speaker(rank=rank),
        "moment": moment,
    }


def exception(line: int, rank: int | None = None, clock: str | None = None) -> PythonException:
    return PythonException(**at(line, rank, clock), type="ValueError", message="bad sample")  # type: ignore[arg-type]


def timeout(line: int, rank: int, clock: str | None = None) -> CollectiveTimeout:
    return CollectiveTimeout(
        **at(line, rank, clock),  # type: ignore[arg-type]
        work=Work("ALLREDUCE", 51, 8, 8, timeout_ms=600_000),
        ran_ms=600_000,
        group=GroupTag(0, "0", "default_pg", rank),
    )


def job(*facts: Fact, programs: tuple[Program, ...] = (TRAINER,)) -> Job:
    return build(facts, Plan(programs=programs))


def templates(items: object) -> str:
    return "\n".join(str(item.text) for item in items)  # type: ignore[attr-defined]


def test_the_missing_rank_is_deduced_and_the_others_only_waited() -> None:
    """Ranks 0, 1, 3 of four time out; the exception's line names no rank."""
    dead = exception(3)
    after = aftermath(job(dead, timeout(9, 0), timeout(10, 1), timeout(11, 3)), dead)
    assert (after.ranks, after.waiting) == ((2,), (0, 1, 3))
    assert "deduced by absence" in templates(after.support)
    assert after.against == ()


def test_a_wait_that_began_with_the_death_speaks_for_it() -> None:
    """The watchdogs speak at 10:20:05 after 600 s: the wait began at 10:10:05, 4 s after."""
    dead = exception(3, 2, "10:10:01")
    seen = job(dead, *(timeout(9 + r, r, "10:20:05") for r in (0, 1, 3)))
    after = aftermath(seen, dead, [2])
    assert "began at 2025-05-04 10:10:05, within 4 s" in templates(after.support)
    assert after.against == ()
    assert after.began is not None
    assert after.began.stamp == datetime(2025, 5, 4, 10, 10, 1)


def test_a_wait_that_began_long_before_is_not_explained() -> None:
    """The others waited since 10:10:05, the exception came at 10:19:50, of rank 2."""
    dead = exception(30, 2, "10:19:50")
    seen = job(dead, *(timeout(9 + r, r, "10:20:05") for r in (0, 1, 3)))
    against = aftermath(seen, dead, [2]).against
    assert len(against) == 1
    assert "before it" in str(against[0].text)


def test_a_rank_that_waited_itself_explains_no_stall() -> None:
    """Rank 1 timed out with the others; what it raised afterwards is its own end."""
    late = exception(40, 1)
    after = aftermath(job(*(timeout(9 + r, r) for r in (0, 1, 3)), late), late, [1])
    assert after.blocked is None
    assert after.waiting == ()


def test_remote_errors_of_others_are_messengers() -> None:
    """Rank 5's peers lose it; nobody times out."""
    dead = exception(3, 2)
    lost = [
        NcclError(**at(line, rank), result="ncclRemoteError")  # type: ignore[arg-type]
        for line, rank in ((8, 0), (9, 3))
    ]
    after = aftermath(job(dead, *lost), dead, [2])
    assert (after.messengers, after.waiting) == ((0, 3), (0, 3))
    assert {item.id for item in after.exonerated} == {"network-transport"}


def test_the_one_that_ended_by_itself_is_the_dead() -> None:
    """Exit codes 1 for rank 3, -15 for the others, no rank on the traceback."""
    dead = exception(3)
    ends = [
        ProcessEnd(**at(20 + rank), rank=rank, exit_code=1 if rank == 3 else -15)  # type: ignore[arg-type]
        for rank in range(4)
    ]
    assert aftermath(job(dead, *ends), dead).ranks == (3,)


def test_the_launchers_first_failure_is_put_right() -> None:
    """It names rank 0, which only aborted itself after its time-out."""
    dead = exception(3, 2)
    end = ProcessEnd(**at(30), rank=0, exit_code=-6, first=True)  # type: ignore[arg-type]
    after = aftermath(job(dead, timeout(9, 0), timeout(10, 1), timeout(11, 3), end), dead, [2])
    assert {"launcher-report", "host-oom"} <= {item.id for item in after.exonerated}


@pytest.mark.parametrize(("steps", "caught"), [(2, False), (3, True)])
def test_an_error_is_caught_where_several_steps_follow(steps: int, caught: bool) -> None:
    """One more step may have been under way on another rank."""
    dead = exception(3, 2)
    later = [TrainingStep(**at(10 + n), step=n) for n in range(steps)]  # type: ignore[arg-type]
    assert (survived(job(dead, *later), dead) is not None) is caught


def test_steps_after_the_time_outs_belong_to_nothing_that_was_caught() -> None:
    """A log that goes on behind the failure (the next attempt, another job) proves nothing."""
    dead = exception(3, 2)
    later = [TrainingStep(**at(30 + n), step=n) for n in range(5)]  # type: ignore[arg-type]
    assert survived(job(dead, timeout(9, 0), timeout(10, 1), *later), dead) is None


def test_an_echo_has_another_failure_before_it() -> None:
    """The device ran out of memory first; the exception after it is its echo."""
    first = CudaOutOfMemory(**at(2, 1), device=1)  # type: ignore[arg-type]
    later = exception(8, 0)
    seen = job(first, later)
    assert len(echo_evidence(seen, later)) == 1
    assert echo_evidence(seen, first) == []


def test_a_process_id_is_a_rank_where_the_launcher_told_both() -> None:
    """The kernel knows process ids only."""
    end = ProcessEnd(**at(9), rank=6, pid=4711, exit_code=-9)  # type: ignore[arg-type]
    seen = job(end)
    assert rank_of_pid(seen, 4711) == 6
    assert rank_of_pid(seen, 4712) is None
    assert rank_of_pid(seen, None) is None
