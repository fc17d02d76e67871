# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

import pytest

from unstall.model.facts import FatalSignal
from unstall.reading.writers.terminate import Terminations


@pytest.mark.parametrize(
    ("line", "exception"),
    [
        ("terminate called without an active exception", None),
        ("terminate called recursively", None),
        ("FATAL: exception not rethrown", None),
        ("terminate called after throwing an instance of 'c10::DistBackendError'", "c10::DistBackendError"),
        ("[rank3]: terminate called after throwing an instance of 'std::system_error'", "std::system_error"),
        ("libc++abi: terminating due to uncaught exception of type std::runtime_error: no", "std::runtime_error"),
        ("libc++abi: terminating with uncaught exception of type c10::Error: x", "c10::Error"),
    ],
)  # fmt: skip
def test_what_the_runtime_says(read, line, exception):
    (fact,) = read(Terminations, line + "\n")
    assert fact.exception == exception
    assert fact.place.line == 1


@pytest.mark.parametrize(
    "line", ["the job was terminated", "terminate called by the user", "uncaught exception of type"]
)
def test_what_it_does_not_say(read, line):
    assert read(Terminations, line + "\n") == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            "[TM][FATAL] comm/device_comm.cc(28): Check failed: 0 Unknown communication backend: x",
            "Check failed: 0 Unknown communication backend: x",
        ),
        ("F20260214 10:11:12.1 77 worker.cc:61] Check failed: a == b (1 vs. 2)", "Check failed: a == b (1 vs. 2)"),
        (
            "[TensorRT-LLM][ERROR] Assertion failed: Invalid engine file path: /e/rank2.engine (/src/u.cpp:60)",
            "Assertion failed: Invalid engine file path: /e/rank2.engine",
        ),
    ],
)  # fmt: skip
def test_native_checks(read, line, what):
    (fact,) = read(Terminations, line + "\n")
    assert isinstance(fact, FatalSignal)
    assert fact.what == what


@pytest.mark.parametrize(
    "line", ["INFO health: Check failed: will retry", "AssertionError: Assertion failed: x"]
)
def test_checks_that_end_nothing(read, line):
    assert read(Terminations, line + "\n") == []
