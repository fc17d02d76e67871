# ruff: noqa: E501, S104 (log lines stand as they were written)
"""Ports that are taken, as servers and launchers tell it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unstall.model.facts import StoreFailure
from unstall.reading.writers.ports import PortsTaken


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
            "0.0.0.0",
            8000,
        ),
        (
            "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5557')",
            "127.0.0.1",
            5557,
        ),
        (
            "ConnectionError: Tried to launch distributed communication on port `29501`, but another process is utilizing it. Please specify a different port",
            None,
            29501,
        ),
        ("ValueError: Port 6379 is already in use", None, 6379),
        ("启动失败：端口 51216 已被占用", None, 51216),
    ],
)
def test_address_in_use(read, line, host, port):
    """Host and port are those of the line."""
    (fact,) = read(PortsTaken, line)
    assert isinstance(fact, StoreFailure)
    assert (fact.kind, fact.host, fact.port, fact.errno) == ("bind", host, port, 98)


@pytest.mark.parametrize(
    "line",
    [
        "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
        "Port 8000 is free",
        "port 29500 will be used; it is not available on other hosts",
    ],
)
def test_other_lines_tell_nothing(read, line):
    """A port that is merely named is not taken."""
    assert read(PortsTaken, line) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=300))
def test_any_text(read, text):
    """No text makes it fail, and no text makes more than one fact a line."""
    said = "error while attempting to bind on address " + text
    assert len(read(PortsTaken, said)) <= len(said.splitlines())
