from __future__ import annotations

import pytest

from unstall.model.facts import FatalSignal, Frame
from unstall.reading.writers.faulthandler import FatalSignals


def test_the_current_threads_frames(read, sample):
    (fact,) = read(FatalSignals, sample("ends/segv.log"))
    assert fact.what == "Segmentation fault"
    assert fact.frames == (
        Frame("string_at", "/opt/python/lib/python3.11/ctypes/__init__.py", 519),
        Frame("<module>", "/opt/jobs/real/ex.py", 41),
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("Fatal Python error: Aborted", "Aborted"),
        ("Fatal Python error: Bus error", "Bus error"),
        ("!!!!!!! Segfault encountered !!!!!!!", "Segmentation fault"),
        ("*** SIGABRT received at time=1718000000 on cpu 7 ***", "Aborted"),
        ("*** stack smashing detected ***: terminated", "stack smashing detected"),
        ("double free or corruption (!prev)", "double free or corruption (!prev)"),
        ("free(): invalid pointer", "free(): invalid pointer"),
        ("python: malloc(): corrupted top size", "malloc(): corrupted top size"),
        ("corrupted size vs. prev_size", "corrupted size vs. prev_size"),
    ],
)
def test_other_writers(read, line, what):
    (fact,) = read(FatalSignals, line + "\n")
    assert fact.what == what


def test_native_frames_of_a_signal_handler(read):
    (fact,) = read(
        FatalSignals,
        """\
*** SIGSEGV received at time=1718000000 on cpu 7 ***
PC: @     0x7f3c  (unknown)  ncclGroupEnd
    @     0x7f3d  1234  ncclGroupEnd
    @     0x7f3e  16  torch::cuda::nccl::broadcast
""",
    )
    assert [frame.function for frame in fact.frames] == [
        "1234  ncclGroupEnd",
        "16  torch::cuda::nccl::broadcast",
    ]
    assert all(frame.native for frame in fact.frames)


def test_two_ranks_do_not_mix(read):
    facts = read(
        FatalSignals,
        """\
[rank0]: Fatal Python error: Aborted
[rank1]: Fatal Python error: Segmentation fault
[rank0]:   File "/a.py", line 1 in f
[rank1]:   File "/b.py", line 2 in g
""",
    )
    assert {fact.speaker.rank: fact.frames[0].file for fact in facts} == {0: "/a.py", 1: "/b.py"}


def test_ucx_handler(read):
    """UCX prints signal, reason and its own numbered frames."""
    (fact,) = read(
        FatalSignals,
        """[trainer-0:2121 :0:7025] Caught signal 7 (Bus error: nonexistent physical address)
==== backtrace (tid: 7025) ====
0 0x0000000000014420 __funlockfile() ???:0
1 0x0000000000068d7c ncclGroupEnd() ???:0
=================================
""",
    )
    assert isinstance(fact, FatalSignal)
    assert fact.what == "Bus error"
    assert [frame.function.split("(")[0] for frame in fact.frames] == [
        "__funlockfile",
        "ncclGroupEnd",
    ]
