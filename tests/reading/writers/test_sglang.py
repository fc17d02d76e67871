from __future__ import annotations

import pytest

from unstall.reading.writers.sglang import SchedulerLoads, SchedulerNotices


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[2025-01-06 02:58:11 TP0] Decode batch. #running-req: 2, #token: 307481, token usage:"
            " 1.00, gen throughput (token/s): 10.92, #queue-req: 5",
            (None, 2, 5, 10.92),
        ),
        (
            "[2025-01-06 02:58:11 DP3 TP1 EP1] Decode batch, #running-req: 7, #token: 1, cuda"
            " graph: True, gen throughput (token/s): 35.4, #queue-req: 0",
            (3, 7, 0, 35.4),
        ),
        (
            "[2025-01-06 02:58:11] Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 0,"
            " #running-req: 4, #queue-req: 0, ",
            (None, 4, 0, None),
        ),
    ],
)
def test_loads(read, line, expected):
    (fact,) = read(SchedulerLoads, line + "\n")
    assert (fact.engine, fact.running, fact.waiting, fact.throughput) == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)", "watchdog"),
        ("[2025-03-09 00:57:15] Scheduler watchdog timeout (self.watchdog_timeout=9)", "watchdog"),
        ("[2025-03-09 00:57:20] Received sigquit from a child proces. It usually", "engine-dead"),
        ("[2025-03-09 TP1] Scheduler hit an exception: Traceback (most recent", "engine-dead"),
        (
            "[2026-01-17 16:23:13 TP1] Decode transfer failed for request rank=1 rid='3c'",
            "request-failed",
        ),
        (
            "Health check failed. Server couldn't get a response from detokenizer for last 20",
            "rpc-timeout",
        ),
    ],
)
def test_notices(read, line, kind):
    (fact,) = read(SchedulerNotices, line + "\n")
    assert fact.kind == kind


@pytest.mark.parametrize(
    "line",
    ["# sglang meets a watchdog timeout", "the trainer raises an NCCL watchdog timeout error"],
)
def test_what_people_write_is_no_notice(read, line):
    assert read(SchedulerNotices, line + "\n") == []
