"""Order and time of facts of which most carry no time."""

from __future__ import annotations

import msgspec

from tests.making import moment, timeout
from unstall.job.chronology import Chronology, older


def test_a_line_without_a_time_takes_the_last_one_above_it() -> None:
    """Logs are written in order."""
    early = timeout(0, 1, 5, at=moment("10:00:00"))
    silent = timeout(1, 1, 7)
    chronology = Chronology([early, silent])
    assert chronology.moment_of(silent) == moment("10:00:00")


def test_nothing_is_known_above_the_first_time() -> None:
    """A line above all times has none."""
    silent = timeout(1, 1, 2)
    chronology = Chronology([timeout(0, 1, 5, at=moment("10:00:00")), silent])
    assert chronology.moment_of(silent) is None


def test_times_decide_before_lines_do() -> None:
    """Interleaved writers: the time is what counts."""
    late = timeout(0, 1, 1, at=moment("10:00:05"))
    early = timeout(1, 1, 2, at=moment("10:00:01"))
    assert Chronology([late, early]).before(early, late) is True


def test_sources_without_times_are_not_ordered() -> None:
    """Nothing tells which of two files was written first."""
    one, two = timeout(0, 1, 1, source="a.log"), timeout(1, 1, 1, source="b.log")
    assert Chronology([one, two]).before(one, two) is None


def test_the_year_comes_from_another_line() -> None:
    """C++ lines give none; one dated line is enough."""
    dated = timeout(0, 1, 1, at=moment("10:00:00", 2025))
    chronology = Chronology([dated])
    found = chronology.with_year(moment("21:02:01"))
    assert found is not None
    assert found.iso() == "2025-12-06T21:02:01.000"


def test_leap_day_in_a_year_without_one_stays_without_a_year() -> None:
    """29 February of an unknown year is not moved to 2025."""
    dated = timeout(0, 1, 1, at=moment("10:00:00", 2025))
    leap = moment("10:00:00")
    leap = msgspec.structs.replace(leap, stamp=leap.stamp.replace(month=2, day=29))
    assert Chronology([dated]).with_year(leap) == leap


def test_names_of_files_tell_which_was_written_before() -> None:
    """Rotation counts up; dates are dates; other names tell nothing."""
    assert older("run.log.2", "run.log.1") is True
    assert older("logs/run.log.1.gz", "run.log") is True
    assert older("run.log", "run.log.1") is False
    assert older("train-2025-06-10.log", "train-2025-06-11.log") is True
    assert older("train_20250611.log", "train_20250610.log") is False
    assert older("rank0.log", "rank1.log") is None
    assert older("node1-2025-06-10.log", "node2-2025-06-11.log") is None
    assert older("run.log", "run.log") is None


def test_where_no_line_has_a_time_names_of_files_decide() -> None:
    """A rotated log is read as one."""
    early, late = timeout(0, 1, 9, source="run.log.1"), timeout(1, 1, 2, source="run.log")
    assert Chronology([early, late]).before(early, late) is True
