"""Runs the ``unstall`` command as a user does, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def unstall(
    *words: str | Path,
    stdin: bytes | None = None,
    cwd: Path | None = None,
    limit: float = 300,
    encoding: str = "utf-8",
) -> subprocess.CompletedProcess[bytes]:
    """The finished command; its output is bytes. ``COLUMNS`` is 80 and nothing is a terminal."""
    code = "from unstall.commands import main; main()"
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    environment.update(COLUMNS="80", PYTHONIOENCODING=encoding)
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment,
        timeout=limit,
        check=False,
    )


def lines_of(result: subprocess.CompletedProcess[bytes]) -> Sequence[str]:
    """Standard output, line by line."""
    return result.stdout.decode().splitlines()
