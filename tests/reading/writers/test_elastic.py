# ruff: noqa: E501 (log lines stand as they were written)
"""torchrun's words; expected values were read off the samples by hand."""

from __future__ import annotations

from datetime import datetime

from unstall.reading.writers.elastic import ElasticReports, ElasticSentences


def test_every_entry_of_the_report_is_told_once(read, sample):
    killed, failed = read(ElasticReports, sample("ends/exc.log"))
    assert (killed.rank, killed.local_rank, killed.pid, killed.exit_code) == (0, 0, 13345, -15)
    assert (killed.signal, killed.first, killed.host) == ("SIGTERM", False, "localhost")
    assert killed.moment_ended.stamp == datetime(2026, 11, 30, 9, 55, 0)
    assert (failed.rank, failed.pid, failed.exit_code, failed.signal) == (1, 13346, 1, None)
    assert failed.first
    # The line before the report came first, and the report completes it.
    assert failed.place.line == 7
    assert failed.quote.startswith("E1130 09:55:00.433000")


def test_the_time_of_an_error_file_is_when_it_ended(read, sample):
    ends = {end.rank: end for end in read(ElasticReports, sample("ends/record.log"))}
    assert ends[1].moment_ended.stamp == datetime(2026, 11, 30, 9, 55, 28)
    assert ends[0].moment_ended.stamp == datetime(2026, 11, 30, 9, 55, 32)


def test_a_failed_line_without_a_report(read):
    (end,) = read(
        ElasticReports,
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 137)"
        " local_rank: 2 (pid: 4711) of binary: /usr/bin/python\n",
    )
    assert (end.exit_code, end.signal, end.local_rank, end.pid) == (-9, "SIGKILL", 2, 4711)
    assert end.rank is None
    assert end.moment is None


def test_a_report_of_1_9_with_its_fields_unaligned(read):
    other, first = read(
        ElasticReports,
        """\
***************************************
            train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-07-08_13:06:19
  rank: 4 (local_rank: 0)
  exitcode: -11 (pid: 31342)
  error_file: <N/A>
  msg: "Signal 11 (SIGSEGV) received by PID 31342"
=======================================
Other Failures:
[1]:
  time: 2021-07-08_13:06:20
  rank: 5 (local_rank: 1)
  exitcode: 1 (pid: 31343)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
***************************************
""",
    )[::-1]
    assert (first.rank, first.exit_code, first.signal, first.first) == (4, -11, "SIGSEGV", True)
    assert (other.rank, other.exit_code, other.first) == (5, 1, False)


def test_reports_of_two_agents_interleaved(read):
    a = ["Root Cause (first observed failure):", "[0]:", "  time      : 2026-01-02_03:04:05"]
    a += ["  host      : n1", "  rank      : 1 (local_rank: 1)", "  exitcode  : -6 (pid: 10)"]
    b = [line.replace("n1", "n2").replace(": 1 (", ": 9 (").replace("10", "20") for line in a]
    text = "".join(f"[default0]:{x}\n[default1]:{y}\n" for x, y in zip(a, b, strict=True))
    ends = read(ElasticReports, text)
    assert {(end.host, end.rank, end.pid) for end in ends} == {("n1", 1, 10), ("n2", 9, 20)}


def test_fields_of_other_programs_are_no_report(read):
    assert read(ElasticReports, "time      : 3 s\nrank      : high\nexitcode  : none\n") == []


def test_signals_and_restarts(read):
    facts = read(
        ElasticSentences,
        """\
W1130 09:54:36.361000 13114 torch/x/api.py:1028] Sending process 13119 closing signal SIGTERM
W1130 09:54:46.361000 13114 torch/x/api.py:1040] Unable to shutdown process 13119 via 15, forcefully exiting via 9
W1130 09:54:36.361000 13114 torch/x/server/api.py:7] Received Signals.SIGINT death signal, shutting down workers
torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15
W1130 10:01:18.836000 17172 torch/multiprocessing/spawn.py:165] Terminating process 17268 via signal SIGTERM
I1130 10:01:20.836000 17172 x/api.py:5] [default] Worker group FAILED. 2/3 attempts left; will restart worker group
I1130 10:01:21.836000 17172 x/api.py:5] Setting worker0 reply file to: /tmp/t/none_x/attempt_1/0/error.json
I1130 10:01:21.836000 17172 x/api.py:5] Setting worker0 reply file to: /tmp/t/none_x/attempt_0/0/error.json
""",
    )
    told = [
        (getattr(f, "signal", None), getattr(f, "target_pid", None), getattr(f, "received", None))
        for f in facts[:5]
    ]
    assert told == [
        ("SIGTERM", 13119, False),
        ("SIGKILL", 13119, False),
        ("SIGINT", None, True),
        ("SIGTERM", None, True),
        ("SIGTERM", 17268, False),
    ]
    assert [fact.attempt for fact in facts[5:]] == [2, 1]
    assert facts[0].moment.stamp == datetime(1904, 11, 30, 9, 54, 36, 361000)


def test_an_attempt_is_told_once(read):
    facts = read(
        ElasticSentences,
        """\
[default] worker group FAILED. 3/3 attempts left; will restart worker group
[default] Rendezvous complete for workers. Result:
  restart_count=1
Setting worker0 reply file to: /tmp/t/none_x/attempt_1/0/error.json
  restart_count=0
  restart_count=2
""",
    )
    assert [fact.attempt for fact in facts] == [1, 2]
