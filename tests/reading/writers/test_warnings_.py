# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

import pytest

from unstall.reading.writers.warnings_ import Warnings


@pytest.mark.parametrize(
    ("line", "topic", "values"),
    [
        (
            "Token indices sequence length is longer than the specified maximum sequence length for"
            " this model (2391 > 2048). Running this sequence",
            "sequence-too-long",
            {"length": "2391", "maximum": "2048"},
        ),
        (
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "sequence-too-long",
            {"length": "5000", "maximum": "4096"},
        ),
        (
            "python3: symbol lookup error: /opt/env/lib/libtorch_cuda.so: undefined symbol: ncclCommShrink",
            "undefined-symbol",
            {"symbol": "ncclCommShrink"},
        ),
        (
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update",
            "driver-too-old",
            {"found": "11040"},
        ),
        (
            "[rank8] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback.",
            "loopback-fallback",
            {},
        ),
        (
            "Warning: find_unused_parameters=True was specified in DDP constructor, but did not",
            "find-unused-parameters",
            {},
        ),
        (
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
            "omp-threads",
            {"threads": "1", "note": "benign"},
        ),
        (
            "UserWarning: This DataLoader will create 32 worker processes in total. Our suggested"
            " max number of worker in current system is 6, which is smaller",
            "oversubscribed",
            {"workers": "32", "suggested": "6"},
        ),
        (
            "Detected kernel version 4.4.0, which is below the recommended minimum of 5.5.0; this"
            " can cause the process to hang.",
            "kernel-version",
            {"version": "4.4.0", "minimum": "5.5.0"},
        ),
        (
            "UserWarning: TRL currently only supports vLLM version `0.10.2`. You have version 0.11.0"
            " installed.",
            "version",
            {"wanted": "`0.10.2`", "found": "0.11.0"},
        ),
        (
            "huggingface/tokenizers: The current process just got forked, after parallelism",
            "tokenizers-fork",
            {"note": "benign"},
        ),
        (
            "OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 513046 max",
            "thread-limit",
            {"limit": "4096"},
        ),
    ],
)
def test_topics(read, line, topic, values):
    (fact,) = read(Warnings, line + "\n")
    assert (fact.topic, fact.values) == (topic, values)
