"""A restart begins another attempt."""

from __future__ import annotations

from tests.making import place, timeout
from unstall.job.attempts import attempts
from unstall.model.facts import Fact, PackageVersion, WorkerGroupRestart


def _restart(line: int, source: str = "run.log") -> Fact:
    return WorkerGroupRestart(place=place(line, source), quote="will restart worker group")


def test_without_a_restart_there_is_one_attempt() -> None:
    """All facts belong to it."""
    facts: list[Fact] = [timeout(0, 1, 3)]
    assert attempts(facts) == [facts]


def test_lines_after_a_restart_are_another_attempt() -> None:
    """Each keeps its own failure."""
    first, second = timeout(0, 5, 1), timeout(1, 9, 12)
    divided = attempts([first, _restart(10), second])
    assert [len(one) for one in divided] == [1, 2]
    assert divided[0] == [first]
    assert second in divided[1]


def test_what_describes_the_job_belongs_to_every_attempt() -> None:
    """A package list is true of all runs."""
    version = PackageVersion(
        place=place(1, "pip.txt"), quote="torch==2.8.0", name="torch", version="2.8.0"
    )
    divided = attempts([timeout(0, 5, 1), _restart(10), timeout(1, 9, 12), version])
    assert all(version in one for one in divided)


def test_a_source_with_fewer_restarts_is_aligned_at_the_end() -> None:
    """Its last run is the job's last run."""
    last = timeout(3, 7, 50, source="node1.log")
    divided = attempts(
        [
            _restart(10),
            _restart(20),
            timeout(0, 1, 30),
            _restart(40, "node1.log"),
            last,
        ]
    )
    assert last in divided[-1]
