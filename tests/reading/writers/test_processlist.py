"""Lists of processes: who is stopped."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unstall.model.facts import StoppedProcess
from unstall.reading.writers.processlist import MOST_TOLD, ProcessLists

AUX = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root           1  0.0  0.0   4364  3020 ?        Ss   Nov29   0:00 /sbin/init
ml         71204 98.1  4.0 9812340 812340 ?      Rl   10:02  31:07 python train.py --rank=0
ml         71205  0.0  4.0 9812340 812340 pts/2  Tl   10:02  30:11 python train.py --rank=1
ml         71206  0.0  4.0 9812340 812340 pts/2  tl   10:02  30:11 python train.py --local_rank 2
done at 10:41
ml         71207  0.0  4.0 9812340 812340 pts/2  T    10:02  30:11 python other.py
"""


def test_only_stopped_processes_of_the_list_are_told(read):
    """A row after the list's end is no row of it."""
    facts = read(ProcessLists, AUX)
    assert [(f.pid, f.how, f.rank, f.command) for f in facts] == [
        (71205, "signal", 1, "python train.py --rank=1"),
        (71206, "tracer", None, "python train.py --local_rank 2"),
    ]
    assert all(isinstance(f, StoppedProcess) for f in facts)


def test_a_frozen_cgroup_is_told_by_the_kernel_function(read):
    text = (
        "    PID STAT WCHAN                COMMAND\n"
        "    812 Ssl  do_freezer_trap      python serve.py\n"
        "    813 Ssl  futex_do_wait        python serve.py\n"
        "    814 Dl   __refrigerator       python serve.py\n"
    )
    assert [(f.pid, f.how) for f in read(ProcessLists, text)] == [
        (812, "freezer"),
        (814, "freezer"),
    ]


def test_top_has_a_column_of_one_letter(read):
    text = (
        "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n"
        "   4242 ml        20   0   10.2g   3.1g  90212 T   0.0   1.2   0:31.10 python3\n"
    )
    assert [f.pid for f in read(ProcessLists, text)] == [4242]


def test_a_list_without_states_tells_nothing(read):
    text = (
        "UID          PID    PPID  C STIME TTY          TIME CMD\n"
        "ml         71205       1  0 10:02 ?        00:30:11 python T 12\n"
    )
    assert read(ProcessLists, text) == []


def test_many_stopped_processes_are_bounded(read):
    rows = "".join(f"{number} T python a.py\n" for number in range(1, 500))
    assert len(read(ProcessLists, "PID STAT COMMAND\n" + rows)) == MOST_TOLD


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_read_without_harm(read, text):
    for fact in read(ProcessLists, "PID S CMD\n" + text):
        assert fact.how in ("signal", "tracer", "freezer")
