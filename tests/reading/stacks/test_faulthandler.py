from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading.stacks.feeding import read, sample, stacks
from unstall.model.facts import Frame, ProcessStack
from unstall.reading.stacks.faulthandler import FaulthandlerDump


def test_repeated_timer_single_and_lone_dumps() -> None:
    found = stacks(sample("faulthandler.txt"))
    assert [one.place.line for one in found] == [1, 10, 19, 27, 29]
    assert {one.tool for one in found} == {"faulthandler"}
    first = found[0]
    # The main thread stands last in the text and first in the fact.
    assert first.threads[0].frames == (Frame("<module>", "/home/user/job/f.py", 6),)
    assert len(first.threads[1].frames) == 4
    assert found[2].threads[0].frames[0].line == 7
    assert found[3].threads[0].tid is None


def test_names_of_newer_pythons() -> None:
    (one,) = stacks(
        "Timeout (1 day, 0:00:10)!\n"
        "Thread 0x00007f00aa (most recent call first):\n"
        "  <no Python frame>\n"
        "\n"
        "Thread 0x00007f00bb [MainThread] (most recent call first):\n"
        '  File "/usr/lib/python3.14/queue.py", line 210 in get\n'
        '  File "/srv/t.py", line 3 in <module>\n'
    )
    assert one.threads[0].name == "MainThread"
    assert one.waits_for == "queue"


def test_fatal_errors_are_left_to_their_own_reader() -> None:
    assert (
        read(
            "Fatal Python error: Segmentation fault\n"
            "\n"
            "Current thread 0x00007f00aa (most recent call first):\n"
            '  File "/srv/t.py", line 3 in f\n'
            "\n"
            "Thread 0x00007f00bb (most recent call first):\n"
            '  File "/srv/t.py", line 9 in g\n'
        )
        == []
    )


def test_a_dump_after_a_fatal_error_of_before() -> None:
    found = stacks(
        "Fatal Python error: Aborted\n"
        "Current thread 0x00007f00aa (most recent call first):\n"
        '  File "/srv/t.py", line 3 in f\n'
        "restarting\n"
        "Timeout (0:05:00)!\n"
        "Thread 0x00007f00bb (most recent call first):\n"
        '  File "/srv/t.py", line 9 in g\n'
    )
    assert len(found) == 1
    assert found[0].threads[0].frames[0].function == "g"


def test_debug_server_pages_give_ranks() -> None:
    for name in ("debug_stacks.html", "debug_stacks.txt"):
        first, second = stacks(sample(name))
        assert (first.speaker.rank, second.speaker.rank) == (0, 1)
        assert first.speaker.host == "node1"
        assert first.waits_for == "collective"
        assert [f.function for f in first.threads[0].frames] == [
            "all_reduce",
            "wrapper",
            "go",
            "<module>",
        ]
        assert second.threads[0].frames[0] == Frame("go", "/home/user/job/dbg.py", 10)


def test_page_copied_from_a_browser_without_its_tags() -> None:
    (one,) = stacks(
        "Rank 5: http://node2:4711/handler/dump_traceback?\n"
        "Thread 0x00007f92fba02b80 (most recent call first):\n"
        '  File "/srv/t.py", line 8 in go\n'
        '  File "/srv/t.py", line 12 in \n'
    )
    assert (one.speaker.rank, one.speaker.host) == (5, "node2")
    assert one.threads[0].frames[-1].function == "<module>"


@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                [
                    "Timeout (0:00:01)!",
                    "Thread 0x1 (most recent call first):",
                    "Current thread 0x2 (most recent call first):",
                    "Stack (most recent call first):",
                    '  File "a.py", line 3 in f',
                    "Fatal Python error: Aborted",
                    "",
                ]
            ),
        ),
        max_size=30,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_text_is_survived(lines: list[str]) -> None:
    for one in read("\n".join(lines)):
        assert one.place.line >= 1


@given(
    st.lists(
        st.tuples(st.integers(1, 2**60), st.lists(st.integers(1, 10**6), min_size=1, max_size=6)),
        min_size=1,
        max_size=6,
        unique_by=lambda thread: thread[0],
    )
)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(threads: list[tuple[int, list[int]]]) -> None:
    text = ["Timeout (0:00:30)!"]
    for tid, lines in threads:
        text.append(f"Thread 0x{tid:016x} (most recent call first):")
        text.extend(f'  File "/srv/a b.py", line {line} in work' for line in lines)
        text.append("")
    reader = FaulthandlerDump()
    (one,) = stacks("\n".join(text))
    assert isinstance(one, ProcessStack)
    assert {t.tid: [f.line for f in t.frames] for t in one.threads} == dict(threads)
    assert not reader.wants_more
