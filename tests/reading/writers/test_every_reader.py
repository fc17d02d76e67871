"""What holds of each reader of launchers, frameworks, kernel and schedulers, whatever it is fed."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import facts_of, lines_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unstall.model.facts import Fact, Place
from unstall.reading.line import Line
from unstall.reading.writers.dataloader import LoaderDeaths
from unstall.reading.writers.elastic import ElasticReports, ElasticSentences
from unstall.reading.writers.environment import EnvironmentValues
from unstall.reading.writers.faulthandler import FatalSignals
from unstall.reading.writers.http import HttpExchanges
from unstall.reading.writers.identity import Identities, LoggerNames, MegatronArguments
from unstall.reading.writers.kernel import KernelLog
from unstall.reading.writers.limits import HostMemoryFigures, Limits
from unstall.reading.writers.packages import PackageVersions
from unstall.reading.writers.phases import Phases
from unstall.reading.writers.processes import ProcessEnds, ShellNotices
from unstall.reading.writers.progress import ProgressBars
from unstall.reading.writers.python import Tracebacks
from unstall.reading.writers.ray import DeadWorkers, RayEvents
from unstall.reading.writers.schedulers import SchedulerLog, TaskEnds
from unstall.reading.writers.sglang import SchedulerLoads, SchedulerNotices
from unstall.reading.writers.training import TrainingSteps
from unstall.reading.writers.vllm import EngineLoads, EngineNotices
from unstall.reading.writers.warnings_ import Warnings

MINE = (
    *(LoaderDeaths, ElasticReports, ElasticSentences, EnvironmentValues, FatalSignals),
    *(HttpExchanges, Identities, LoggerNames, MegatronArguments, KernelLog, HostMemoryFigures),
    *(Limits, PackageVersions, Phases, ProcessEnds, ShellNotices, ProgressBars, Tracebacks),
    *(DeadWorkers, RayEvents, SchedulerLog, TaskEnds, SchedulerLoads, SchedulerNotices),
    *(TrainingSteps, EngineLoads, EngineNotices, Warnings),
)
SAMPLES = sorted((Path(__file__).parent / "samples" / "ends").glob("*.log"))

# Pieces that readers know, so that random texts come near to what they read.
PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "/a.py", line 3, in f',
        '  File "/a.py", line 99999999999999999999, in f',
        "    raise X",
        "ValueError: no",
        "RuntimeError: CUDA error: x",
        "The above exception was the direct cause of the following exception:",
        "Original Traceback (most recent call last):",
        "-- Process 1 terminated with the following error:",
        "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=1, ip=1.1.1.1)",
        "[rank1]: ValueError: no",
        "╭── Traceback (most recent call last) ──╮",
        "│ /a.py:3 in f │",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-13-99_99:99:99",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -6 (pid: 13120)  (SIGABRT)",
        "failed (exitcode: -999999) local_rank: 1 (pid: 999999999) of",
        "====================",
        "Fatal Python error: Aborted",
        "Current thread 0x00007fb0 (most recent call first):",
        '  File "x.py", line 41 in <module>',
        " 62%|██▏ | 5559/9008 [9:33:11<5:18:51, 5.55s/it]",
        "0%|| 1/? [00:00<?, 0s/it]",
        "{'loss': nan, 'x': [}",
        "step:6 - a:1e999 - b:--2",
        "srun: error: n: tasks 0-999999999999,5-1,: Exited with exit code 134",
        "The actor died unexpectedly",
        "\tpid: 9",
        "Worker exit type: SYSTEM_ERROR",
        "------- arguments -------",
        "  abc ....... 3",
        "torch==2.8.0",
        "Name: torch",
        "Version: 2",
        "",
        "\x00\x1b[31m",
    ]
)


@pytest.mark.parametrize("reader", MINE, ids=lambda reader: reader.__name__)
@given(parts=st.lists(PIECES | st.text(max_size=60), max_size=60), glue=st.sampled_from("\n \t"))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_splice_of_known_pieces(reader, parts, glue):
    text = "\n".join(part + glue for part in parts)
    count = len(text.splitlines())
    for fact in facts_of(reader, text):
        assert isinstance(fact, Fact)
        assert 1 <= fact.place.line <= count
        assert len(fact.quote) <= 600
        assert fact.copies >= 1


@pytest.mark.parametrize("reader", MINE, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_marks_stand_in_every_line_that_begins_a_fact(reader, path):
    """Offering every line gives the same facts as offering only what marks ask for."""
    text = path.read_text(encoding="utf-8", errors="replace")
    eager = reader()
    every: list[Fact] = []
    for line in lines_of(text):
        every += eager.feed(line)
    every += eager.finish()
    assert facts_of(reader, text) == every


def test_marks_are_literals_that_a_scanner_can_look_for():
    for reader in MINE:
        assert reader.marks
        assert all(len(mark) >= 2 for mark in reader.marks)
        assert len(set(reader.marks)) == len(reader.marks)


@pytest.mark.parametrize("reader", MINE, ids=lambda reader: reader.__name__)
def test_a_line_of_nothing_but_marks_gives_a_bounded_number_of_facts(reader):
    text = "".join(mark + " 1 12%|a| 1/2 [00:01<00:02, 1it/s] " for mark in reader.marks)
    text = (text * (65_536 // len(text) + 1))[:65_536]
    line = Line(place=Place("log", 1), text=text, raw=text[:600])
    one = reader()
    assert len([*one.feed(line), *one.finish()]) <= 400


def test_many_lines_are_held_in_bounds():
    reader = Tracebacks()
    for number in range(30_000):
        text = f"ValueError: number {number}"
        list(reader.feed(Line(place=Place("log", number + 1), text=text, raw=text)))
    assert len(reader._told) <= 2_000
