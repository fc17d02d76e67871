"""Images: a small data set with a heavy tail of sizes, and what a processor does with one."""

from __future__ import annotations

import math
import random
import zlib
from pathlib import Path
from typing import Any

SIDE = 28


def make_data_set(folder: Path, count: int, kilopixels: float, spread: float, seed: int) -> None:
    """Write images of log-normal size, compressed; image ``i`` has colour ``i % 8``."""
    draw = random.Random(seed)  # noqa: S311 - a data set, not a secret
    for number in range(count):
        pixels = kilopixels * 1000 * math.exp(draw.gauss(0, spread))
        side = max(8, min(int(math.sqrt(pixels)), 2400))
        colour = number % 8
        row = bytes(
            channel
            for x in range(side)
            for channel in (32 * colour + x % 16, 255 - 32 * colour, x * 255 // side)
        )
        data = zlib.compress(row * side, 1)
        (folder / f"{number}.img").write_bytes(side.to_bytes(4, "little") + data)


def prepare(torch: Any, path: Path) -> int:
    """Decode, resize and normalise an image; the colour that the encoder sees in it."""
    raw = path.read_bytes()
    side = int.from_bytes(raw[:4], "little")
    flat = torch.frombuffer(bytearray(zlib.decompress(raw[4:])), dtype=torch.uint8)
    image = flat.view(side, side, 3).permute(2, 0, 1).unsqueeze(0).float()
    small = torch.nn.functional.interpolate(
        image, size=(SIDE, SIDE), mode="bilinear", antialias=True
    )
    return int(((255 - small[0, 1].mean()) / 32).round().item()) % 8
