# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

import pytest

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
