"""What the system refused: threads, open files, shared memory, disk, memory; memory in use.

Sources: Linux's strerror texts as Python, OpenBLAS, libgomp, libibverbs and torch
(``torch/csrc/StorageSharing``, ``aten/src/ATen/MapAllocator.cpp``, ``c10/core/CPUAllocator``)
print them; DeepSpeed's ``see_memory_usage``.
"""

from __future__ import annotations

import re

from unstall.model.facts import Fact, HostMemory, ResourceLimit
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common, small_float, small_int

_PATH = re.compile(r"(/dev/shm/[^\s'\"<>,)]{0,300}|</torch_[^\s>]{1,200}>)")
_SIZE = re.compile(r"(\d{1,18}) ?(?:bytes|B)\b", re.ASCII)
_FILE = re.compile(r"['\"<](/[^'\"<>\n]{1,400})['\">]")


def _limit(kind: str, marks: str, regex: str, without: str | None = None) -> Pattern:
    no = re.compile(without) if without else None

    def make(line: Line, found: re.Match[str]) -> Fact | None:
        text = line.text[:4096]
        if no is not None and no.search(text) is not None:
            return None
        near = text[max(0, found.start() - 400) : found.end() + 400]
        path, size = _PATH.search(near) or _FILE.search(near), _SIZE.search(near)
        where = path[1] if path else None
        what = kind
        if kind == "disk" and where is not None and _PATH.search(near) is not None:
            what = "shm"
        return ResourceLimit(
            **common(line),
            kind=what,
            path=where.strip("<>") if where else None,
            size=small_int(size[1]) if size else None,
        )

    return Pattern(marks, re.compile(regex, re.ASCII), make)


def _host_memory(line: Line, found: re.Match[str]) -> Fact | None:
    return HostMemory(**common(line), used_gb=small_float(found[1]), percent=small_float(found[2]))


class Limits(Sentences):
    """Refused resources; one fact a line."""

    patterns = (
        _limit(
            "threads",
            "can't start new thread|pthread_create|Thread creation failed|necessary resources for"
            "|Resource temporarily unavailable",
            r"can't start new thread|pthread_create(?: failed)?\b.{0,60}(?:Resource|Operation)"
            r"|Thread creation failed|necessary resources for OMP thread"
            r"|(?:fork|thread|system_error|what\(\)|BlockingIOError|\[system:11\]).{0,60}"
            r"Resource temporarily unavailable|Resource temporarily unavailable \[system:11\]",
            without=r"zmq|Again:|flock|lock file",
        ),
        _limit(
            "files",
            "Too many open files|items of ancdata|Errno 24",
            r"Too many open files|received \d{1,9} items of ancdata|Errno 24\b",
        ),
        _limit(
            "shm",
            "shared memory",
            r"unable to (?:open|allocate|resize) (?:the )?shared memory|shared memory.{0,40}full"
            r"|No space left in shared memory",
        ),
        _limit(
            "shm",
            "unable to write to file </torch_|unable to open file </torch_"
            "|unable to mmap|unable to resize file",
            r"unable to (?:write to|open|mmap|resize) (?:\d{1,18} bytes from )?(?:the )?file"
            r" </torch_",
        ),
        _limit(
            "disk",
            "No space left on device|Disk quota exceeded|Errno 28|full, available space",
            r"No space left on device|Disk quota exceeded|Errno 28\b"
            r"|is over \d{1,3}% full, available space",
        ),
        _limit(
            "locked-memory",
            "RLIMIT_MEMLOCK|memlock|locked memory|ibv_",
            r"RLIMIT_MEMLOCK|ulimit.{0,20}memlock|max(?:imum)? locked memory"
            r"|ibv_(?:reg_\w{1,24}|create_(?:cq|qp)\w{0,8})\b.{0,80}Cannot allocate memory",
            without=r"memlock ?=|\(kbytes, -l\)",
        ),
        _limit(
            "memory",
            "annot allocate memory|std::bad_alloc|can't allocate memory|not enough memory"
            "|MemoryError",
            r"Cannot allocate memory|std::bad_alloc|can't allocate memory|not enough memory: you"
            r"|(?<![\w.])MemoryError\b|ArrayMemoryError",
            without=r"\bibv_\w|locked memory|fi_mr_reg",
        ),
    )


class HostMemoryFigures(Sentences):
    """``CPU Virtual Memory:  used = 181.22 GB, percent = 36.0%`` of DeepSpeed."""

    patterns = (
        Pattern(
            "CPU Virtual Memory:",
            re.compile(
                r"CPU Virtual Memory:\s{1,8}used = ([\d.]{1,12}) GB, percent = ([\d.]{1,8})%",
                re.ASCII,
            ),
            _host_memory,
        ),
    )
