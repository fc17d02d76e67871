"""Names of the Flight Recorder's variables, as the torch that will run wants them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Old name to new name. torch 2.8 and later read both and warn of the old one; torch before 2.8
#: reads the old one alone. Source: ``FlightRecorder.hpp`` of 2.8.0 and 2.13.0.
RENAMED = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}

_VERSION = re.compile(r"__version__ = '(\d{1,4})\.(\d{1,4})", re.ASCII)


def variables(
    entries: int, prefix: str | None, torch: tuple[int, int] | None, given: Mapping[str, str]
) -> dict[str, str]:
    """Variables that turn the recorder on.

    Args:
        entries: how many operations it keeps.
        prefix: of the files that a watchdog writes; ``None`` leaves that as it is.
        torch: version that will run; ``None`` (not known) gives the old names and the new ones.
        given: variables that are set already; what they set, under either name, stays.
    """
    wanted = {"TORCH_NCCL_TRACE_BUFFER_SIZE": str(entries)}
    if prefix is not None:
        wanted["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = prefix
    found: dict[str, str] = {}
    for old, value in wanted.items():
        if old in given or RENAMED[old] in given:
            continue
        if torch is None or torch < (2, 8):
            found[old] = value
        if torch is None or torch >= (2, 8):
            found[RENAMED[old]] = value
    return found


def own_torch() -> tuple[int, int] | None:
    """The version of the torch that this Python would import."""
    try:
        major, minor = (int(part) for part in version("torch").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return None
    return major, minor


def torch_on_the_path() -> tuple[int, int] | None:
    """The version of the torch of the first ``python`` on the path, which a script would run.

    Read from its files; nothing is started. Without one, the version of :func:`own_torch`.
    """
    for name in ("python", "python3"):
        found = shutil.which(name)
        if found is None:
            continue
        for path in sorted(
            Path(os.path.abspath(found)).parent.parent.glob(
                "lib/python3*/*-packages/torch/version.py"
            )
        ):
            try:
                known = _VERSION.search(path.read_text(encoding="utf-8", errors="replace")[:4096])
            except OSError:
                continue
            if known is not None:
                return int(known[1]), int(known[2])
    return own_torch()
