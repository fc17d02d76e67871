from __future__ import annotations

import pytest

from unstall.model.facts import ProcessEnd, ResourceLeak, SignalSent
from unstall.reading.writers.processes import ProcessEnds, ShellNotices


@pytest.mark.parametrize(
    ("line", "reporter", "code", "signal", "who"),
    [
        (
            "ERROR:composer.cli.launcher:Rank 5 crashed with exit code 1.",
            "composer",
            1,
            None,
            (None, None),
        ),
        (
            "[2023-08-30 10:16:54,254] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3',"
            " '-u', 'train.py', '--local_rank=3'] exits with return code = -9",
            "deepspeed",
            -9,
            "SIGKILL",
            (None, 3),
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', 't.py']' returned non-zero"
            " exit status 1.",
            "accelerate",
            1,
            None,
            (None, None),
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 't.py',"
            " '--local_rank=2']' died with <Signals.SIGSEGV: 11>.",
            "torchrun",
            -11,
            "SIGSEGV",
            (None, 2),
        ),
        (
            "subprocess.CalledProcessError: Command '['python', 't.py']' died with"
            " <Signals.SIGSEGV: 11>.",
            "accelerate",
            -11,
            "SIGSEGV",
            (None, None),
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 6 terminated with exit"
            " code 7",
            "spawn",
            7,
            None,
            (None, 6),
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal"
            " SIGKILL",
            "spawn",
            -9,
            "SIGKILL",
            (None, 2),
        ),
        ("-- Process 1 terminated with the following error:", "spawn", 1, None, (None, 1)),
        (
            "[rank: 3] Child process with PID 905 terminated with code -6. Forcefully terminating"
            " all other processes to avoid zombies",
            "lightning",
            -6,
            "SIGABRT",
            (905, None),
        ),
        (
            "run.sh: line 12: 48123 Segmentation fault      (core dumped) python train.py",
            "shell",
            -11,
            "SIGSEGV",
            (48123, None),
        ),
        (
            "RuntimeError: Rank 3 scheduler died during initialization (exit code: -6).",
            "sglang",
            -6,
            "SIGABRT",
            (None, None),
        ),
        ("[2025-09-14 10:02:58] Exit code: -9", "sglang", -9, "SIGKILL", (None, None)),
    ],
)
def test_ends(read, line, reporter, code, signal, who):
    (fact,) = read(ProcessEnds, line + "\n")
    assert isinstance(fact, ProcessEnd)
    assert (fact.reporter, fact.exit_code, fact.signal) == (reporter, code, signal)
    assert (fact.pid, fact.local_rank) == who


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("Killed", "SIGKILL"),
        ("Segmentation fault (core dumped)", "SIGSEGV"),
        ("Aborted (core dumped)", "SIGABRT"),
        ("Bus error: 10", "SIGBUS"),
        ("[1]+  Killed                  python train.py", "SIGKILL"),
    ],
)
def test_a_shells_bare_notice(read, line, signal):
    (fact,) = read(ShellNotices, line + "\n")
    assert (fact.reporter, fact.signal) == ("shell", signal)


def test_sentences_with_the_same_words_are_no_notice(read):
    text = "Killed all zombies\nAborted by user request\nnot Killed\nTerminated: see the log\n"
    assert read(ShellNotices, text) == []


@pytest.mark.parametrize(
    ("line", "what", "count"),
    [
        (
            "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning:"
            " resource_tracker: There appear to be 2 leaked shared_memory objects to clean up at"
            " shutdown",
            "shared_memory",
            2,
        ),
        (
            "resource_tracker: There appear to be 6 leaked semaphore objects to clean up at"
            " shutdown: {'/mp-abc'}",
            "semaphore",
            6,
        ),
        ("退出时资源跟踪器提示有 3 个泄漏的信号量", "semaphore", 3),
        ("日志最后说有1个泄露的共享内存对象", "shared_memory", 1),
    ],
)
def test_leaks(read, line, what, count):
    (fact,) = read(ProcessEnds, line + "\n")
    assert isinstance(fact, ResourceLeak)
    assert (fact.what, fact.count) == (what, count)


@pytest.mark.parametrize(
    ("line", "signal", "pid", "received"),
    [
        ("[INFO] [launch.py:315:sigkill_handler] Killing subprocess 7741", "SIGTERM", 7741, False),
        ("[rank: 2] Received SIGTERM: 15", "SIGTERM", None, True),
        ("exiting program after receiving SIGTERM.", "SIGTERM", None, True),
        ("Main process received SIGINT, exiting", "SIGINT", None, True),
    ],
)
def test_signals(read, line, signal, pid, received):
    (fact,) = read(ProcessEnds, line + "\n")
    assert isinstance(fact, SignalSent)
    assert (fact.signal, fact.target_pid, fact.received) == (signal, pid, received)


def test_a_line_that_only_speaks_of_a_signal(read):
    line = (
        "If you see error log from logging.cc regarding SIGTERM received, please ignore because"
        " this is the expected termination process in Ray."
    )
    assert read(ProcessEnds, line + "\n") == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", 1),
        ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD with errorcode 7.", 7),
    ],
)
def test_mpi_abort(read, line, code):
    (fact,) = read(ProcessEnds, line + "\n")
    assert (fact.reporter, fact.rank, fact.exit_code) == ("mpi", 3, code)


@pytest.mark.parametrize(
    "command",
    [
        "'['ninja', '-v']'",
        "'['/usr/bin/which', 'g++']'",
        "'ninja -v'",
        "'['/usr/bin/python3', '-m', 'pip', 'install', 'x']'",
        "'['/usr/bin/python3', 'setup.py', 'build']'",
    ],
)
def test_a_tool_that_a_program_ran_is_no_process_of_the_job(read, command):
    line = f"subprocess.CalledProcessError: Command {command} returned non-zero exit status 1.\n"
    assert read(ProcessEnds, line) == []
