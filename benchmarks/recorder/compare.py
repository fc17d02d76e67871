"""``unstall trace`` beside PyTorch's ``torchfrtrace`` on the same generated dumps, in one run.

    python benchmarks/recorder/compare.py                  # 8, 64, 256 ranks; one and three groups
    python benchmarks/recorder/compare.py --ranks 8 64     # quicker
    python benchmarks/recorder/compare.py --ranks 1024 --no-peer

CPU seconds (user and system, all processes, start-up included) and peak resident memory of the
largest process. Wall time is left out: it says more about the machine's other guests. Of unstall
the least and the most of ``--repeat`` runs are printed. At the end the exponents of growth (1.0 is
linear) with start-up taken off, over the settings that cost noticeably more than that. torchfrtrace
is skipped where it would take more than ``--peer-limit`` CPU seconds, guessed from its last figure.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import write

#: From so many bytes on dumps are read by several processes (unstall.recorder.loading).
MANY = 24 << 20


class Cost:
    """CPU seconds and peak memory of one command and its children."""

    def __init__(self, cpu: float, peak: float, output: str) -> None:
        self.cpu, self.peak, self.output = cpu, peak, output


# Runs a command as the only child of a fresh process, so that its children's usage is its own.
_METER = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss * unit,
                  done.stdout.decode("utf-8", "replace")[:4000], done.returncode]))
"""


def measure(command: list[str]) -> Cost:
    """Run a command to its end."""
    text = subprocess.run(
        [sys.executable, "-c", _METER, *command], stdout=subprocess.PIPE, check=True
    ).stdout
    cpu, peak, output, _ = json.loads(text)
    return Cost(cpu, peak / 1e9, output)


def own_command(folder: Path, *options: str) -> list[str]:
    """``unstall trace`` as installed, or from the source tree."""
    code = (
        "import typer; from unstall.commands.trace import trace; app = typer.Typer(); "
        "app.command()(trace); app()"
    )
    return [sys.executable, "-c", code, str(folder), *options]


def peer_command(folder: Path) -> list[str] | None:
    """``torchfrtrace`` where torch is installed."""
    beside = Path(sys.executable).parent / "torchfrtrace"
    found = str(beside) if beside.exists() else shutil.which("torchfrtrace")
    return [found, str(folder), "--prefix", "trace_"] if found else None


def start_up(jobs: int) -> float:
    """CPU seconds of the command on four tiny dumps, with so many processes."""
    with tempfile.TemporaryDirectory(prefix="unstall-bench-") as name:
        write(Path(name), 4, 6, 1)
        return min(measure(own_command(Path(name), "--jobs", str(jobs))).cpu for _ in range(5))


def exponent(points: list[tuple[int, float]]) -> float | None:
    """Slope of log cost over log size (least squares)."""
    if len(points) < 2:
        return None
    xs = [math.log(size) for size, _ in points]
    ys = [math.log(max(cost, 1e-9)) for _, cost in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    below = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / below


def main() -> None:
    """Measure, print a line for each setting and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--entries", type=int, nargs="+", default=[2000])
    parser.add_argument("--repeat", type=int, default=1, help="the least of so many runs counts")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--peer-limit", type=float, default=600.0)
    options = parser.parse_args()
    jobs = min(os.cpu_count() or 1, 8)
    alone, shared = start_up(1), start_up(jobs)
    print(f"start-up: {alone:.2f} CPU s, {shared:.2f} with {jobs} more processes")
    titles = (
        "ranks",
        "entries",
        "groups",
        "unstall",
        "most",
        "peak GB",
        "us/entry",
        "torchfrtrace",
        "peak GB",
    )
    print(" ".join(f"{title:>12}" for title in (*titles, "ratio")))
    ours: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    for groups in options.groups:
        for entries in options.entries:
            last: tuple[int, float] | None = None
            for ranks in options.ranks:
                with tempfile.TemporaryDirectory(prefix="unstall-bench-") as name:
                    folder = Path(name)
                    base = shared if write(folder, ranks, entries, groups) >= MANY else alone
                    runs = [measure(own_command(folder)) for _ in range(options.repeat)]
                    mine = min(runs, key=lambda cost: cost.cpu)
                    assert mine.output.startswith("Rank 3: never entered"), mine.output
                    peer = None
                    command = None if options.no_peer else peer_command(folder)
                    guess = last[1] * (ranks / last[0]) ** 1.3 if last else 0.0
                    if command and guess < options.peer_limit:
                        peer = measure(command)
                        last = (ranks, peer.cpu)
                net = max(mine.cpu - base, 1e-3)
                if net > base / 2:  # else it is the noise of starting up
                    ours.setdefault(("ranks", groups, entries), []).append((ranks, net))
                    ours.setdefault(("entries", groups, ranks), []).append((entries, net))
                cells = [f"{n:12}" for n in (ranks, entries, groups)]
                most = max(cost.cpu for cost in runs)
                cells += [f"{mine.cpu:12.2f}", f"{most:12.2f}", f"{mine.peak:12.2f}"]
                cells.append(f"{net / ranks / entries * 1e6:12.2f}")
                if peer is not None:
                    cells += [
                        f"{peer.cpu:12.2f}",
                        f"{peer.peak:12.2f}",
                        f"{peer.cpu / mine.cpu:12.1f}",
                    ]
                print(" ".join(cells), flush=True)
    for (what, groups, fixed), points in ours.items():
        slope = exponent(points)
        if slope is not None:
            other = "entries" if what == "ranks" else "ranks"
            where = f"{groups} groups, {fixed} {other}, start-up apart"
            print(f"growth with {what} ({where}): exponent {slope:.2f}")


if __name__ == "__main__":
    main()
