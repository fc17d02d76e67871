"""A time line of dumps as Chrome trace events, which https://ui.perfetto.dev opens.

One process for each rank, one thread for each process group. Format: "Trace Event Format", a
public document of the Chromium project.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from unstall.recorder.fields import read_entry
from unstall.recorder.loading import as_job
from unstall.recorder.naming import read_name
from unstall.recorder.records import Dump, Entry
from unstall.recorder.safety import MAX_BYTES, DumpError, parse
from unstall.recorder.schema import as_dictionary, reduce_dump
from unstall.recorder.worker import Job

#: Perfetto's page becomes slow beyond about this many events.
MAX_EVENTS = 400_000


def write_timeline(sources: Iterable[Any], target: Path) -> int:
    """Write the time line of dumps.

    Args:
        sources: as for :func:`unstall.recorder.load`.
        target: file to write; JSON, or gzip where the name ends so.

    Returns:
        How many operations were written. Of very long dumps only the newest are.

    Raises:
        OSError: the file cannot be written.
    """
    jobs = [as_job(source) for source in sources]
    each = max(50, MAX_EVENTS // max(1, len(jobs)))
    count = 0
    with _opened(target) as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        first = True
        for event in _events(jobs, each):
            file.write((b"" if first else b",\n") + msgspec.json.encode(event))
            first = False
            count += event["ph"] == "X"
        file.write(b"\n]}\n")
    return count


def _opened(target: Path) -> Any:
    if target.suffix == ".gz":
        import gzip

        return gzip.open(target, "wb", compresslevel=3)
    return target.open("wb")


def _events(jobs: list[Job], each: int) -> Iterator[dict[str, Any]]:
    """Events of all ranks; a dump that cannot be read has none."""
    for process, job in enumerate(jobs, 1):  # 0 is the idle process
        try:
            raw = parse(_bytes(job), walk=True)
            dump = reduce_dump(raw, job.name)
        except (DumpError, OSError):
            continue
        parts = read_name(job.name)
        dump.rank, dump.host = parts.rank, parts.host
        yield from _of_rank(process, dump, raw, each)


def _bytes(job: Job) -> bytes:
    if not job.path:
        return job.data
    with open(job.path, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _of_rank(process: int, dump: Dump, raw: Any, each: int) -> Iterator[dict[str, Any]]:
    rank = dump.inside if dump.rank is None else dump.rank
    name = f"rank {rank if rank is not None else '?'}" + (f" ({dump.host})" if dump.host else "")
    yield _label("process_name", process, 0, name)
    yield {
        "ph": "M", "name": "process_sort_index", "pid": process, "tid": 0,
        "args": {"sort_index": rank if rank is not None else 1 << 30},
    }  # fmt: skip
    index = {(group.name, group.desc): at for at, group in enumerate(dump.groups)}
    for (guid, desc), at in index.items():
        yield _label("thread_name", process, at + 1, f"{desc or 'group'} ({guid})")
    recorded = as_dictionary(raw).get("entries") or []
    entries = []
    for number, value in enumerate(recorded[-each:], max(0, len(recorded) - each) + 1):
        entry = read_entry(value, number, index)
        if entry is not None and entry.created:
            entries.append((entry, value))
    until = max((entry.created for entry, _ in entries), default=0)
    following: dict[int, int] = {}
    spans = []
    for entry, value in reversed(entries):
        end = _end(entry, value, following.get(entry.group), until)
        following[entry.group] = entry.created
        spans.append((entry, end))
    for entry, end in reversed(spans):
        yield _span(process, entry, end)


def _end(entry: Entry, value: dict[str, Any], following: int | None, until: int) -> int:
    """When an operation ended: as recorded, or before the group's next one (gloo records no end).

    One that never ended lasts until a second after the newest entry.
    """
    ended = value.get("time_discovered_completed_ns")
    if isinstance(ended, int) and ended > entry.created:
        return min(ended, until + 3_600_000_000_000)
    duration = value.get("duration_ms")
    if isinstance(duration, (int, float)) and math.isfinite(duration) and 0 < duration < 1e9:
        return entry.created + int(duration * 1e6)
    if not entry.done:
        return until + 1_000_000_000
    return max(entry.created + 1_000, min(following or entry.created, entry.created + 1_000_000))


def _span(process: int, entry: Entry, end: int) -> dict[str, Any]:
    args: dict[str, Any] = {
        "entry": entry.number,
        "number": entry.seq,
        "state": "ended" if entry.done else "unfinished",
        "inputs": str([list(size) for size in entry.inputs[:4]]),
        "outputs": str([list(size) for size in entry.outputs[:4]]),
    }
    for at, (function, file, line) in enumerate(entry.frames[:8]):
        args[f"frame {at}"] = f"{function} {file}:{line}"
    event: dict[str, Any] = {
        "ph": "X", "name": entry.op, "cat": "p2p" if entry.p2p else "collective",
        "pid": process, "tid": entry.group + 1, "ts": entry.created / 1000,
        "dur": max(0.001, (end - entry.created) / 1000), "args": args,
    }  # fmt: skip
    if not entry.done:
        event["cname"] = "terrible"  # red in Chrome's viewer
    return event


def _label(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    clean = "".join(ch if ch.isprintable() else "?" for ch in text[:200])
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": clean}}
