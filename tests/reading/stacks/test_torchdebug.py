from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading.stacks.feeding import read, sample, stacks
from unstall.model.facts import Unreadable
from unstall.reading.stacks.headings import Heading, heading
from unstall.reading.stacks.torchdebug import recorder_entries


def test_pyspy_page_gives_ranks() -> None:
    first, second = stacks(sample("debug_pyspy.html"))
    assert (first.speaker.rank, first.pid, first.waits_for) == (0, 14213, "collective")
    assert (second.speaker.rank, second.pid, second.waits_for) == (1, 14214, "unknown")


def test_ranks_that_could_not_answer() -> None:
    found = read(sample("debug_failed.html"))
    assert [(type(one), one.speaker.rank) for one in found] == [(Unreadable, 0), (Unreadable, 1)]


def test_partial_data_and_errors_in_files() -> None:
    found = read(
        "PARTIAL DATA: 1/2 workers responded\n"
        "  Rank 1: ClientConnectorError: Cannot connect to host node3:99\n"
        "\n"
        "=== Rank 0: http://node3:98/handler/dump_traceback? ===\n"
        "Thread 0x00007f92fba02b80 (most recent call first):\n"
        '  File "/srv/t.py", line 8 in go\n'
        "=== Rank 1: http://node3:99/handler/dump_traceback? ===\n"
        "Error: 503\n"
    )
    told = [(one.speaker.rank, one.reason) for one in found if isinstance(one, Unreadable)]
    assert [rank for rank, _ in told] == [None, 1]
    assert "1 of 2" in told[0][1]
    assert "ended" in told[1][1]
    assert len(found) == 3


def test_errors_elsewhere_are_not_its_business() -> None:
    assert read("Error: 503\nsome text\nError: 404\n") == []


def test_recorder_entries_of_the_json_page() -> None:
    found = recorder_entries(sample("debug_fr_trace_json.html"))
    assert sorted(found) == [0, 1]
    first = json.loads(found[0])
    assert [entry["profiling_name"] for entry in first["entries"]] == [
        "gloo:barrier",
        "gloo:all_reduce",
    ]
    assert len(json.loads(found[1])["entries"]) == 1
    assert recorder_entries(sample("debug_stacks.html")) == {}


def test_headings() -> None:
    assert heading("##### 32426 /opt/venv/bin/python -B") == Heading(
        pid=32426, command="/opt/venv/bin/python -B"
    )
    assert heading("##### dp0 pid 32472 VLLM::EngineCore_DP0") == Heading(
        pid=32472, command="VLLM::EngineCore_DP0"
    )
    assert heading("=== PID 311 ===") == Heading(pid=311)
    assert heading("--- rank=4 host=gpu-12 ---") == Heading(rank=4, host="gpu-12")
    assert heading("$ pystack remote 9120".removeprefix("$ ")) is None
    assert heading("## Environment") is None
    assert heading("rank 3 is late") is None
    assert heading("<h2>Rank 2: http://[fd00::1]:71/handler/pyspy_dump?nonblocking=1</h2>") == (
        Heading(rank=2, host="fd00::1")
    )


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_is_survived(text: str) -> None:
    heading(text)
    recorder_entries(f"<h2>Rank 1: http://a/handler/x</h2><pre>{{{text}")
    recorder_entries(f"<h2>Rank {text}<h2>Rank 3{text}</pre>")
