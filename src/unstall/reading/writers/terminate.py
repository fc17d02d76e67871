"""How the C++ runtime tells that it ends a process.

Sources: libstdc++'s ``vterminate.cc``, libc++abi's ``cxa_default_handlers.cpp`` and
``abort_message``, glibc's ``nptl/unwind.c`` (``FATAL: exception not rethrown``: the unwinding of
a thread that was told to end was caught); native checks that end the process: glog's and absl's
``CHECK``, LMDeploy's TurboMind (``[TM][FATAL] … Check failed``), TensorRT-LLM's ``TLLM_CHECK``
(``common/assert.h``).
"""

from __future__ import annotations

import re

from unstall.model.facts import Fact, FatalSignal, Terminated
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common


def _terminated(line: Line, found: re.Match[str]) -> Fact | None:
    return Terminated(**common(line), exception=found[1] or None)


def _check(line: Line, found: re.Match[str]) -> Fact | None:
    return FatalSignal(**common(line), what=found[1].strip())


class Terminations(Sentences):
    """Uncaught C++ exceptions, and threads that ended where none may."""

    patterns = (
        Pattern(
            "terminate called",
            re.compile(
                r"terminate called (?:after throwing an instance of '([^'\n]{1,300})'"
                r"|without an active exception|recursively)"
            ),
            _terminated,
        ),
        Pattern(
            "uncaught exception of type ",
            re.compile(
                r"terminating (?:due to|with) uncaught exception of type ([^\n]{1,300}?)(?:: |$)"
            ),
            _terminated,
        ),
        Pattern(
            "exception not rethrown",
            re.compile(r"FATAL: exception not rethrown()"),
            _terminated,
        ),
        Pattern(
            "Check failed: ",
            re.compile(
                r"(?:\[FATAL\]|\bFATAL\b|^F\d{4,8} \d\d:\d\d).{0,200}?(Check failed: .{1,300})",
                re.ASCII,
            ),
            _check,
        ),
        Pattern(
            "Assertion failed: ",
            re.compile(r"\[TensorRT-LLM\]\[ERROR\] (Assertion failed: [^\n]{1,300}?)(?: \(/|$)"),
            _check,
        ),
    )
