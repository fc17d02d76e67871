"""``CUDA out of memory`` in all its wordings.

Source: ``CUDACachingAllocator.cpp`` of PyTorch 1.13 to 2.14: sizes in parentheses up to 2.0, in
sentences from 2.1 (``capacty`` in 2.1 only), the preemptive refusal from 2.14.
"""

from __future__ import annotations

import re
from typing import Any

from unstall.model.facts import CudaOutOfMemory

OUT_OF_MEMORY = ("CUDA out of memory", "HIP out of memory", "NPU out of memory")

_AMOUNT = r"(\d{1,12}(?:\.\d{1,6})?) ?(bytes|KiB|MiB|GiB|TiB|KB|MB|GB)"
_WANTED = re.compile(rf"(?:Tried to allocate|Requested size:?) {_AMOUNT}", re.ASCII)
_DEVICE = re.compile(r"GPU (\d{1,4})(?!\d)", re.ASCII)
_TOTAL = re.compile(rf"total capac(?:i?ty) of {_AMOUNT}", re.ASCII)
_TOTAL_OLD = re.compile(rf"{_AMOUNT} total capacity", re.ASCII)
_FREE = re.compile(rf"of which {_AMOUNT} is free", re.ASCII)
_FREE_OLD = re.compile(rf"{_AMOUNT} free", re.ASCII)
_ALLOCATED = re.compile(rf"Of the allocated memory {_AMOUNT}", re.ASCII)
_ALLOCATED_OLD = re.compile(rf"{_AMOUNT} already allocated", re.ASCII)
_OTHERS = re.compile(rf"Process (\d{{1,10}}) has {_AMOUNT}", re.ASCII)
_MINE = re.compile(rf"this process has {_AMOUNT}", re.ASCII)
_UNITS = {
    "bytes": 1 / 1024 / 1024,
    "KiB": 1 / 1024,
    "MiB": 1.0,
    "GiB": 1024.0,
    "TiB": 1024.0 * 1024.0,
    "KB": 1e3 / 1024 / 1024,
    "MB": 1e6 / 1024 / 1024,
    "GB": 1e9 / 1024 / 1024,
}


def out_of_memory(text: str, base: dict[str, Any]) -> CudaOutOfMemory:
    """The fact of a text that contains one of :data:`OUT_OF_MEMORY`."""
    device = _DEVICE.search(text)
    return CudaOutOfMemory(
        **base,
        device=int(device[1]) if device else None,
        wanted=_mib(_WANTED, text),
        total=_mib(_TOTAL, text) if _TOTAL.search(text) else _mib(_TOTAL_OLD, text),
        free=_mib(_FREE, text) if _FREE.search(text) else _mib(_FREE_OLD, text),
        allocated=_mib(_ALLOCATED, text) if _ALLOCATED.search(text) else _mib(_ALLOCATED_OLD, text),
        mine=_mib(_MINE, text),
        others=tuple(
            (int(found[1]), round(float(found[2]) * _UNITS[found[3]], 3))
            for _, found in zip(range(64), _OTHERS.finditer(text), strict=False)
        ),
    )


def _mib(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return round(float(found[1]) * _UNITS[found[2]], 3) if found else None
