"""CPU time of ``unstall diagnose`` on the founding reports, start-up included.

As after an installation, modules are compiled already: the first run of each command fills a cache
of bytecode of the benchmark's own, also where the environment says not to write any.

Measured as CPU seconds of whole processes (user and system), best of several, beside
``python -c pass`` and ``python -c "import torch"`` (where torch is installed) in the same run; the
ratio is what can be compared between machines.

    python -m benchmarks.startup
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CASES = Path(__file__).parents[1] / "tests" / "cases"
RUNS = 5


def cpu_seconds(command: Sequence[str], cache: str) -> float:
    """Least CPU time of a command over a few runs; ``cache`` is a folder for bytecode."""
    best = float("inf")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": cache}
    for _ in range(RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            env=environment,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
        best = min(best, used)
    return best


def main() -> None:
    """Print one row for each command."""
    run = [sys.executable, "-c", "from unstall.commands import main; main()"]
    rows: list[tuple[str, list[str]]] = [
        ("python -c pass", [sys.executable, "-c", "pass"]),
        ("unstall --version", [*run, "--version"]),
    ]
    for name in ("f00-vllm-illegal-access", "f02-grpo-rollout-server"):
        report = str(CASES / name / "report.txt")
        rows.append((f"unstall diagnose {name}", [*run, "diagnose", report]))
    if importlib.util.find_spec("torch") is not None:
        rows.append(("python -c 'import torch'", [sys.executable, "-c", "import torch"]))
    print(f"{'command':<44} {'CPU s':>7} {'ratio':>7}   (best of {RUNS}, {os.cpu_count()} cores)")
    base = None
    with tempfile.TemporaryDirectory() as cache:
        for title, command in rows:
            seconds = cpu_seconds(command, cache)
            base = base or seconds
            print(f"{title:<44} {seconds:>7.3f} {seconds / base:>7.1f}")


if __name__ == "__main__":
    main()
