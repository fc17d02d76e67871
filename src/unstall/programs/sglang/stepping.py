"""How SGLang's data-parallel attention keeps its workers in step.

Before each step every scheduler all-gathers its number of tokens and a few switches over the
tensor-parallel group, idle ones too. It goes through the CPU group (gloo) with overlap scheduling,
the default; through the device group (NCCL) with ``--disable-overlap-schedule`` (from 0.4.7 on).
There are no waves: an idle scheduler asks before each turn of its loop.

Elements given by each worker: 4 to 0.4.6, 6 in 0.5.3 to 0.5.10, 11 in 0.5.23 (``sglang/srt/
managers/scheduler.py``: ``prepare_dp_attn_batch``; ``scheduler_dp_attn_mixin.py``:
``MLPSyncBatchInfo``). Versions between were not read.
"""

from __future__ import annotations

import msgspec

from unstall.programs.groups import within


class BatchSync(msgspec.Struct, frozen=True):
    """The all-gather of each step.

    Attributes:
        elements: given by each worker; the result has that times the workers of TP.
        backends: back ends it may run on, the usual one first.
        source: function and file.
    """

    elements: int
    backends: tuple[str, ...]
    source: str


def batch_sync(version: str | None) -> BatchSync:
    """The all-gather of each step in a version."""
    if within(version, "0.5.20", None):
        return BatchSync(
            11,
            ("gloo", "nccl"),
            "sglang/srt/managers/scheduler_components/dp_attn.py: MLPSyncBatchInfo",
        )
    if within(version, "0.4.7", None):
        return BatchSync(
            6, ("gloo", "nccl"), "sglang/srt/managers/scheduler_dp_attn_mixin.py: MLPSyncBatchInfo"
        )
    return BatchSync(4, ("gloo",), "sglang/srt/managers/scheduler.py: prepare_dp_attn_batch")
