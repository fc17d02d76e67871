# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

import pytest

from unstall.reading.writers.vllm import EngineLoads, EngineNotices


def test_statistics_of_both_engines(read):
    text = """\
(APIServer pid=3311) INFO 11-07 02:31:12 [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1507.3 tokens/s, Running: 9 reqs, Waiting: 2 reqs, GPU KV cache usage: 5.1%
INFO 12-06 21:12:01 metrics.py:345] Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 88.5 tokens/s, Running: 3 reqs, Swapped: 0 reqs, Pending: 4 reqs, GPU KV cache usage: 0.1%
"""
    new, old = read(EngineLoads, text)
    assert (new.engine, new.running, new.waiting, new.throughput) == (0, 9, 2, 1507.3)
    assert new.speaker.pid == 3311
    assert (old.engine, old.running, old.waiting, old.throughput) == (None, 3, 4, 88.5)


@pytest.mark.parametrize(
    ("line", "kind", "detail"),
    [
        (
            "INFO 11-07 02:32:17 [shm_broadcast.py:466] No available shared memory broadcast block"
            " found in 60 seconds. This typically happens when some processes are hanging",
            "broadcast-idle",
            "60",
        ),
        (
            "WARNING 12-06 21:12:01 shm_broadcast.py:396] No available block found in 60 second. ",
            "broadcast-idle",
            "60",
        ),
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            "engine-dead",
            "EngineDeadError",
        ),
        ("ERROR [core.py:1] EngineCore encountered a fatal error.", "engine-dead", None),
        ("RuntimeError: Engine core initialization failed. See root cause", "engine-dead", None),
        ("AsyncEngineDeadError: Background loop has errored already.", "engine-dead", None),
        ("[ERROR:swift] Method execution failed: bad image", "request-failed", None),
        ("TimeoutError: RPC call to execute_model timed out.", "rpc-timeout", None),
        ("TimeoutError('No heartbeat received from MQLLMEngine')", "rpc-timeout", None),
        ("CRITICAL MQLLMEngine is already dead, terminating server", "engine-dead", None),
        (
            "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object",
            "rpc-timeout",
            "RayChannelTimeoutError",
        ),
    ],
)
def test_notices(read, line, kind, detail):
    (fact,) = read(EngineNotices, line + "\n")
    assert fact.kind == kind
    assert detail is None or fact.detail == detail


def test_a_dead_worker_is_an_end_as_well(read):
    notice, end = read(
        EngineNotices,
        "ERROR 11-07 02:41:19 [multiproc_executor.py:230] Worker proc VllmWorker-3 died"
        " unexpectedly, shutting down executor.\n"
        "",
    )
    assert (notice.kind, notice.detail) == (
        "worker-died",
        "Worker proc VllmWorker-3 died unexpectedly",
    )
    assert (end.reporter, end.rank, end.exit_code) == ("vllm", 3, None)


def test_a_dead_worker_of_the_first_engine(read):
    _, end = read(EngineNotices, "Worker VllmWorkerProcess pid 905 died, exit code: -15\n")
    assert (end.pid, end.exit_code, end.signal) == (905, -15, "SIGTERM")
