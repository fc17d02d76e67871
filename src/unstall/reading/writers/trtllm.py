"""TensorRT-LLM's own watch over its executor loop.

Source: TensorRT-LLM 1.2, ``_torch/pyexecutor/hang_detector.py`` and ``py_executor.py``: each rank
whose loop made no progress for 300 s (by default) says so and shuts down.
"""

from __future__ import annotations

import re

from unstall.model.facts import EngineNotice, Fact
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common


def _hang(line: Line, found: re.Match[str]) -> Fact | None:
    return EngineNotice(**common(line), kind="watchdog", detail=found[0])


class HangDetectors(Sentences):
    """What a rank says when its loop stood still: ``Hang detected on rank 1 in PyExecutor``."""

    patterns = (
        Pattern(
            "Hang detected on rank ",
            re.compile(r"Hang detected on rank \d{1,7} in PyExecutor", re.ASCII),
            _hang,
        ),
    )
