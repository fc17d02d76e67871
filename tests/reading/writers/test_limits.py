# ruff: noqa: E501, S108 (log lines stand as they were written)
from __future__ import annotations

import pytest

from unstall.reading.writers.limits import HostMemoryFigures, Limits


@pytest.mark.parametrize(
    ("line", "kind", "path", "size"),
    [
        ("RuntimeError: can't start new thread", "threads", None, None),
        (
            "OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource"
            " temporarily unavailable",
            "threads",
            None,
            None,
        ),
        ("what(): thread: Resource temporarily unavailable [system:11]", "threads", None, None),
        ("bash: fork: retry: Resource temporarily unavailable", "threads", None, None),
        ("OSError: [Errno 24] Too many open files", "files", None, None),
        ("RuntimeError: received 0 items of ancdata", "files", None, None),
        (
            "RuntimeError: unable to write to file </torch_123_456_0>: No space left on device (28)",
            "shm",
            "/torch_123_456_0",
            None,
        ),
        (
            "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode",
            "shm",
            "/torch_1_2",
            None,
        ),
        (
            "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'",
            "shm",
            "/dev/shm/psm_1",
            None,
        ),
        (
            "OSError: [Errno 28] No space left on device: '/out/ckpt/a.pt'",
            "disk",
            "/out/ckpt/a.pt",
            None,
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough"
            " memory: you tried to allocate 8589934592 bytes.",
            "memory",
            None,
            8589934592,
        ),
        ("OSError: [Errno 12] Cannot allocate memory", "memory", None, None),
        (
            "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.",
            "locked-memory",
            None,
            65536,
        ),
    ],
)
def test_refusals(read, line, kind, path, size):
    (fact,) = read(Limits, line + "\n")
    assert (fact.kind, fact.path, fact.size) == (kind, path, size)


def test_a_busy_queue_is_no_limit(read):
    assert read(Limits, "zmq.error.Again: Resource temporarily unavailable\n") == []


def test_host_memory(read):
    (fact,) = read(
        HostMemoryFigures,
        "[2023-08-30 10:16:31,817] [INFO] [utils.py:803:see_memory_usage] CPU Virtual Memory:"
        "  used = 482.90 GB, percent = 96.0%\n",
    )
    assert (fact.used_gb, fact.percent) == (482.9, 96.0)
    assert fact.moment.iso() == "2023-08-30T10:16:31.817"
