"""Headers of every form, wherever they stand in a line."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import Moment
from unstall.reading.writers.stamps import (
    Stamp,
    c10_stamp,
    full_moment,
    glog_stamp,
    nccl_stamp,
    python_stamp,
    records,
    stamp,
)


def test_month_of_the_bracketed_form_is_not_padded() -> None:
    """``E126`` is 26 January, ``E1206`` is 6 December."""
    january = c10_stamp("[E126 21:12:01.852621435 ProcessGroupNCCL.cpp:685] x")
    december = c10_stamp("[E1206 21:12:01.852621435 ProcessGroupNCCL.cpp:685] x")
    assert january is not None
    assert december is not None
    assert january.moment == Moment(datetime(1904, 1, 26, 21, 12, 1, 852621), False)
    assert december.moment == Moment(datetime(1904, 12, 6, 21, 12, 1, 852621), False)


def test_bracketed_form_before_2_4_has_no_time() -> None:
    """Only level, file and line."""
    found = c10_stamp("[rank3]:[W socket.cpp:601] [c10d] text")
    assert found == Stamp(
        form="c10",
        level="W",
        moment=None,
        file="socket.cpp",
        line=601,
        message="[c10d] text",
        before="[rank3]:",
        rank=3,
        start=8,
    )


def test_glog_form_tells_the_process() -> None:
    """Elastic's lines since 2.5 carry the launcher's process id."""
    found = glog_stamp("E1130 09:51:02.327000 11651 torch/distributed/elastic/api.py:1002] failed")
    assert found is not None
    assert (found.pid, found.line, found.message, found.level) == (11651, 1002, "failed", "E")
    assert found.moment == Moment(datetime(1904, 11, 30, 9, 51, 2, 327000), False)


@pytest.mark.parametrize(
    "text", ["ERROR 12-06 21:12:01 [core.py:58] boom", "ERROR 12-06 21:12:01 core.py:58] boom"]
)
def test_python_form_of_old_and_new_vllm(text: str) -> None:
    """Up to 0.6 there was no opening bracket."""
    found = python_stamp("(EngineCore pid=9) " + text)
    assert found is not None
    assert (found.level, found.file, found.line, found.message) == ("E", "core.py", 58, "boom")
    assert found.moment == Moment(datetime(1904, 12, 6, 21, 12, 1), False)


def test_nccl_form_with_and_without_time_and_function() -> None:
    """Time since 2.26, function since 2.30; ``[2]`` is a device."""
    old = nccl_stamp("node7:410:480 [2] misc/socket.cc:50 NCCL WARN text")
    new = nccl_stamp("[2026-03-04 11:32:40] node7:410:480 [2] misc/socket.cc:58 (f) NCCL WARN text")
    for found in (old, new):
        assert found is not None
        assert (found.host, found.pid, found.device, found.level) == ("node7", 410, 2, "W")
        assert (found.file, found.message) == ("misc/socket.cc", "text")
    assert old is not None
    assert new is not None
    assert old.moment is None
    assert new.moment == Moment(datetime(2026, 3, 4, 11, 32, 40))


def test_two_glued_records_are_two() -> None:
    """Two threads wrote on one line, after a progress bar's text."""
    text = "9%|x[rank1]:[E1003 10:00:00.5 A.cpp:3] one[rank2]:[E1003 10:00:01.5 B.cpp:4] two"
    lead, one, two = records(text)
    assert lead == "9%|x"
    assert isinstance(one, Stamp)
    assert isinstance(two, Stamp)
    assert (one.rank, one.message, two.rank, two.message) == (1, "one", 2, "two")


def test_impossible_date_is_no_moment() -> None:
    """30 February does not exist; the record is kept."""
    found = c10_stamp("[E0230 10:00:00.5 A.cpp:3] one")
    assert found is not None
    assert found.moment is None


def test_full_dates_with_zone() -> None:
    """ISO 8601 with nanoseconds and offset, as Kubernetes writes it."""
    assert full_moment("2026-11-30T10:00:00.123456789+08:00 x") == Moment(
        datetime(2026, 11, 30, 10, 0, 0, 123456), True, 480
    )
    assert full_moment("01/30/2024 09:12:40 - WARNING") == Moment(datetime(2024, 1, 30, 9, 12, 40))
    assert full_moment("nothing 12:00:00") is None


@given(
    st.sampled_from("VIWEF"),
    st.datetimes(min_value=datetime(1904, 1, 1), max_value=datetime(1904, 12, 31)),
    st.integers(0, 999),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,30}\.cpp", fullmatch=True),
    st.integers(0, 99999),
    st.integers(0, 4096),
    st.text(alphabet=st.characters(exclude_characters="[]:"), max_size=40),
)
def test_bracketed_form_gives_its_values_back(
    level: str, when: datetime, nanos: int, file: str, number: int, rank: int, message: str
) -> None:
    """Any date and any rank, printed as c10 prints them."""
    text = (
        f"[rank{rank}]:[{level}{when.month}{when.day:02d} {when:%H:%M:%S}."
        f"{when.microsecond:06d}{nanos:03d} {file}:{number}] {message}"
    )
    found = c10_stamp(text)
    assert found is not None
    assert found.moment == Moment(when, False)
    assert (found.level, found.file, found.line, found.rank, found.message) == (
        level,
        file,
        number,
        rank,
        message,
    )


@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    """No text raises; records lose nothing of a text without headers."""
    stamp(text)
    full_moment(text)
    if c10_stamp(text) is None and glog_stamp(text) is None:
        assert list(records(text)) == [text]
