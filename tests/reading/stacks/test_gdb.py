from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading.stacks.feeding import read, sample, stacks
from unstall.model.facts import Frame
from unstall.reading.stacks.gdb import native_frame


def test_native_and_python_stacks_are_joined() -> None:
    (one,) = stacks(sample("gdb.txt"))
    assert (one.tool, one.pid) == ("gdb", 24962)
    main = one.threads[0]
    assert main.name == "MainThread"
    assert main.frames[0] == Frame(
        "__futex_abstimed_wait_common64", "./nptl/futex-internal.c", 57, True
    )
    assert [frame.function for frame in main.frames if not frame.native][:4] == [
        "wait",
        "get",
        "hang",
        "<module>",
    ]
    assert one.threads[1].frames[0].function == "spin"
    assert one.waits_for == "queue"


def test_native_backtrace_alone() -> None:
    (one,) = stacks(
        'Thread 2 (Thread 0x7f01 (LWP 51) "pt_nccl_watchdg"):\n'
        "#0  0x00007f81 in pthread_cond_timedwait () from /lib/x86_64-linux-gnu/libc.so.6\n"
        "\n"
        'Thread 1 (Thread 0x7f02 (LWP 50) "python"):\n'
        "#0  0x00007f82 in sched_yield () from /lib/x86_64-linux-gnu/libc.so.6\n"
        "#1  0x00007f83 in cuEventSynchronize () from /lib/x86_64-linux-gnu/libcuda.so.1\n"
        "#2  0x00007f84 in c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal("
        "std::chrono::duration<long>) (this=0x1) at /src/ProcessGroupNCCL.cpp:812\n"
    )
    assert one.pid == 50
    assert one.threads[0].tid == 50
    assert one.waits_for == "gpu"
    assert one.threads[0].frames[2] == Frame(
        "c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal(std::chrono::duration<long>)",
        "/src/ProcessGroupNCCL.cpp",
        812,
        True,
    )


def test_py_bt_alone() -> None:
    (one,) = stacks(
        "Traceback (most recent call first):\n"
        '  File "/usr/lib/python3.10/threading.py", line 320, in wait\n'
        "    waiter.acquire()\n"
        '  File "/srv/t.py", line 5, in <module>\n'
        "[Inferior 1 (process 614) detached]\n"
    )
    assert one.pid == 614
    assert one.waits_for == "lock"
    assert [frame.line for frame in one.threads[0].frames] == [320, 5]


def test_frames() -> None:
    assert native_frame("#25 Py_RunMain () at Modules/main.c:680") == Frame(
        "Py_RunMain", "Modules/main.c", 680, True
    )
    assert native_frame("#1 word") is None
    assert native_frame("# heading") is None


def test_issue_numbers_are_no_frames() -> None:
    assert read("#0 first point (see below)\n#1 second point\n") == []


@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                [
                    'Thread 1 (Thread 0x1 (LWP 50) "python"):',
                    "#0  0x00 in f () from /lib/l.so",
                    "#1  _PyEval_EvalFrameDefault (a=1) at c.c:1",
                    "Traceback (most recent call first):",
                    '  File "a.py", line 3, in f',
                    "[Inferior 1 (process 50) detached]",
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
