"""CPU time and memory of ``unstall diagnose`` on large logs, beside grep on the same files.

Makes logs of several kinds and measures whole processes, start-up included: CPU seconds (user and
system) and peak memory, least of a few runs. The peer is what people reach for first,
``grep -ciE 'error|exception|traceback|timeout|watchdog|killed'`` (``zgrep``, ``zstdgrep`` do the
same for packed files; here grep gets the unpacked text, so that its figure is the same work).

    python -m benchmarks.logs                       # 50 MB of each kind
    python -m benchmarks.logs --mb 200 --kinds training training.gz --runs 3
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import zstandard

PEER = ("grep", "-ciE", "error|exception|traceback|timeout|watchdog|killed")
FILES = 64
"""Files that ``ranks`` are divided into, one for each rank."""


class Cost(NamedTuple):
    """What a process took: CPU seconds and peak memory in MB."""

    seconds: float
    memory: float


def cost(command: Sequence[str], runs: int) -> Cost:
    """The least of a few runs."""
    found = []
    for _ in range(runs):
        # A file, not the null device: with that grep ends at its first match.
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
        scale = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, KiB elsewhere
        found.append(Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / scale))
    return min(found)


# --- logs ----------------------------------------------------------------------------------------


def hang(rank: int) -> str:
    """The watchdog's words of one rank, as torch 2.8 prints them."""
    head = f"[rank{rank}]:[E1003 09:00:00.000000001 ProcessGroupNCCL.cpp"
    return (
        f"{head}:683] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=5021, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) "
        "ran for 600021 milliseconds before timing out.\n"
        f"{head}:2241] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog "
        "at work sequence id: 5021 PG status: last enqueued work: 5024, last completed work: "
        "5020\n"
    )


def training(chance: random.Random) -> Iterator[str]:
    """A trainer that prints three lines and more for each step; nearly all hold a reader's mark."""
    step = 0
    while True:
        step += 1
        time = f"2026-10-03 {8 + step // 3600 % 12:02d}:{step // 60 % 60:02d}:{step % 60:02d},004"
        yield (
            f"{time} [INFO] trainer.py:412 - step {step}/500000 | loss {chance.random():.4f} | "
            f"lr 1.000e-04 | grad_norm {chance.random():.3f} | tokens/s {21000 + step % 999}\n"
            f"{time} [DEBUG] dataset.py:98 - shard {step % 4096:05d} sample "
            f"{chance.randrange(10**8)} packed into {step % 99} sequences\n"
        )
        if step % 20 == 0:
            yield f"  {step % 100}%|███▍      | {step}/500000 [03:07<12:44:10,  1.09it/s]\n"
        if step % 50 == 0:
            yield f"{{'loss': {chance.random():.4f}, 'grad_norm': 1.2, 'epoch': {step / 1e5}}}\n"


def plain(chance: random.Random) -> Iterator[str]:
    """A service's own lines that say nothing of any framework."""
    while True:
        yield (
            f"10:31:{chance.randrange(60):02d} worker {chance.randrange(64)} handled item "
            f"{chance.randrange(10**9)} in {chance.randrange(900)} ms, queue "
            f"{chance.randrange(99)}\n"
        )


def nccl(chance: random.Random) -> Iterator[str]:
    """``NCCL_DEBUG=INFO`` with every call, and its warnings."""
    while True:
        rank = chance.randrange(8)
        head = f"node-{rank // 4}:{4000 + rank}:{5000 + rank} [{rank % 4}]"
        yield chance.choice((
            f"{head} NCCL INFO Channel {chance.randrange(32):02d}/32 : {rank} -> {(rank + 1) % 8} "
            f"[send] via NET/IB/{rank % 4}/GDRDMA\n",
            f"{head} NCCL INFO AllReduce: opCount {chance.randrange(9999):x} sendbuff "
            f"0x7f{chance.randrange(16**10):010x} count 4194304 datatype 9 op 0 root 0 comm "
            "0x55aa00 [nranks=8] stream 0x55aabbcc\n",
            f"{head} misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer "
            f"10.0.0.{chance.randrange(200)}<{chance.randrange(65535)}>\n",
        ))  # fmt: skip


def tracebacks(chance: random.Random) -> Iterator[str]:
    """Exceptions that are caught and printed, of eight ranks."""
    while True:
        rank = chance.randrange(8)
        lines = (
            "Traceback (most recent call last):",
            f'  File "/opt/app/loop.py", line {chance.randrange(900)}, in main',
            "    loss = model(batch)",
            '  File "/opt/lib/torch/nn/modules/module.py", line 1775, in _call_impl',
            "    return forward_call(*args, **kwargs)",
            f"ValueError: sample {chance.randrange(10**6)} has {chance.randrange(999)} tokens",
        )
        yield "".join(f"[rank{rank}]: {line}\n" for line in lines)


def short(_: random.Random) -> Iterator[str]:
    """Lines of two bytes."""
    while True:
        yield "x\n" * 1000


def long(_: random.Random) -> Iterator[str]:
    """Lines of a megabyte."""
    while True:
        yield "lorem ipsum dolor " * 58_000 + "\n"


WRITERS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "training": training, "plain": plain, "nccl": nccl, "tracebacks": tracebacks,
    "short": short, "long": long,
}  # fmt: skip
KINDS = (*WRITERS, "training.gz", "training.zst", "ranks")


def write(
    path: Path, writer: Callable[[random.Random], Iterator[str]], size: int, seed: int
) -> int:
    """A log of about that many bytes that ends in a hang; how many they are."""
    chance = random.Random(seed)  # noqa: S311 - the same logs in every run
    done = 0
    with path.open("w", encoding="utf-8") as file:
        for text in writer(chance):
            done += file.write(text)
            if done >= size:
                break
        file.write(hang(seed % 8))
    return path.stat().st_size


def made(kind: str, folder: Path, size: int) -> tuple[list[Path], list[Path], int]:
    """Files for unstall, files for grep, and their bytes unpacked."""
    name, _, packing = kind.partition(".")
    if kind == "ranks":
        paths = [folder / f"rank{rank}.log" for rank in range(FILES)]
        sizes = [write(path, training, size // FILES, at) for at, path in enumerate(paths)]
        return paths, paths, sum(sizes)
    path = folder / f"{name}.log"
    size = write(path, WRITERS[name], size, 1)
    if not packing:
        return [path], [path], size
    packed = folder / f"{name}.log.{packing}"
    raw = path.read_bytes()
    packed.write_bytes(gzip.compress(raw) if packing == "gz" else zstandard.compress(raw))
    return [packed], [path], size


def main() -> None:
    """Print one row for each kind of log."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mb", type=int, default=50, help="size of each log, 10^6 bytes")
    parser.add_argument("--runs", type=int, default=1, help="runs of which the least counts")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND")
    asked = parser.parse_args()
    run = [sys.executable, "-m", "unstall", "diagnose", "--json"]
    print(
        f"{'log':<14}{'MB':>6}{'unstall s':>11}{'MB/s':>8}{'peak MB':>9}{'grep s':>9}{'ratio':>8}"
    )
    for kind in asked.kinds:
        with tempfile.TemporaryDirectory() as folder:
            paths, unpacked, size = made(kind, Path(folder), asked.mb * 10**6)
            own = cost([*run, *map(str, paths)], asked.runs)
            peer = cost([*PEER, *map(str, unpacked)], asked.runs)
        print(
            f"{kind:<14}{size / 1e6:>6.0f}{own.seconds:>11.2f}{size / 1e6 / own.seconds:>8.1f}"
            f"{own.memory:>9.0f}{peer.seconds:>9.3f}{own.seconds / max(peer.seconds, 0.001):>8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
