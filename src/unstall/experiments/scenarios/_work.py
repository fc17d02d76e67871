"""Work that takes as long as it is told to, by doing more of it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path


def work(seconds: float, piece: Callable[[int], object]) -> int:
    """Do a piece of work again and again; how often it was done."""
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        piece(count)
        count += 1
    return count


def write_shards(folder: Path, seconds: float) -> int:
    """Write compressed shards of a checkpoint; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    content = bytes(range(256)) * 2048

    def shard(number: int) -> None:
        packed = zlib.compress(content + number.to_bytes(4, "little"), 9)
        (folder / f"model-{number % 8:05d}.bin").write_bytes(packed)

    return work(seconds, shard)
