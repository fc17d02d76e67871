from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading.stacks.feeding import read, sample, stacks
from unstall.model.facts import Frame


def test_native_frames_come_innermost_first() -> None:
    (one,) = stacks(sample("pystack_native.txt"))
    assert (one.tool, one.pid) == ("pystack", 24962)
    main, other = one.threads
    assert main.frames[0] == Frame(
        "__futex_abstimed_wait_common64", "./nptl/futex-internal.c", 57, True
    )
    assert main.frames[6] == Frame("wait", "/opt/python/lib/python3.11/threading.py", 327)
    assert main.frames[-1] == Frame("_start", "/opt/python/bin/python3.11", None, True)
    assert other.holds_gil
    assert not main.holds_gil
    assert one.waits_for == "queue"


def test_locals_with_lines_of_their_own() -> None:
    (one,) = stacks(sample("pystack_locals.txt"))
    assert [frame.function for frame in one.threads[0].frames] == [
        "wait",
        "get",
        "hang",
        "<module>",
    ]


def test_log_line_ends_it() -> None:
    (one,) = stacks(
        "Traceback for thread 7 (python) [] (most recent call last):\n"
        '    (Python) File "/a/train.py", line 3, in <module>\n'
        "        main()\n"
        "step 3\n"
        '    (Python) File "/a/other.py", line 4, in x\n'
    )
    assert len(one.threads[0].frames) == 1


@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                [
                    "Traceback for thread 7 (python) [Has the GIL] (most recent call last):",
                    '    (Python) File "a.py", line 3, in f',
                    '    (C) File "???", line 0, in g (inlined) (/lib/x.so)',
                    "      Locals:",
                    "        x: 3",
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
