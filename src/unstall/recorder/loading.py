"""Files, archives and bytes to reduced dumps, with all cores where that pays."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from unstall.model.facts import Place, Unreadable
from unstall.model.text import Text, say
from unstall.recorder.alike import Known
from unstall.recorder.records import Dump
from unstall.recorder.safety import MAX_BYTES
from unstall.recorder.worker import Job, read_job, receive, send

#: Below so many bytes in all, starting processes costs more than they save.
PARALLEL_FROM = 24 << 20
_HEAD = 4096
_MARKS = (b"profiling_name", b"collective_seq_id", b"pg_config", b"pg_status", b"record_id")
_NAMED = re.compile(
    r"(?:nccl_trace|comm_lib_trace|flight_?recorder|fr_trace|_dump_)\w*\d|rank[-_]?\d",
    re.IGNORECASE,
)
Progress = Callable[[int, int], None]


class Dumps(msgspec.Struct):
    """Loaded dumps.

    Attributes:
        dumps: one for each file, also for those that could not be read.
        unread: what was wrong with those.
        skipped: names of files that are no dumps.
    """

    dumps: list[Dump]
    unread: tuple[Unreadable, ...] = ()
    skipped: tuple[str, ...] = ()


def looks_like_dump(name: str, head: bytes) -> bool:
    """Whether a file is a Flight Recorder dump, by its first 4096 bytes; an empty one by name."""
    if not head:
        return _NAMED.search(os.path.basename(name)) is not None
    if head[:1] == b"\x80" or head.lstrip()[:1] in (b"{", b"["):
        return any(mark in head for mark in _MARKS) or (
            head[:1] == b"\x80" and _NAMED.search(os.path.basename(name)) is not None
        )
    return False


def load(
    sources: Iterable[Any], *, jobs: int | None = None, progress: Progress | None = None
) -> Dumps:
    """Load dumps.

    Args:
        sources: paths, pairs of a name and a path or bytes, or objects with a
            ``name`` and with ``path``, ``data``, ``content`` or ``read()``. Names hold the rank.
        jobs: processes to use; by default as many as there are cores, 1 for small inputs.
        progress: called with how many are done and how many there are.

    Returns:
        Dumps in the order of the sources. A bad file is in it, with what was found, and never
        raises.
    """
    todo = [as_job(source) for source in sources]
    total = sum(_size(job) for job in todo)
    if jobs is None:
        jobs = min(os.cpu_count() or 1, 8) if total >= PARALLEL_FROM else 1
    jobs = min(jobs, len(todo), 64)
    if jobs > 1 and sys.executable:
        dumps = _in_parallel(todo, jobs, progress)
    else:
        dumps = list(_in_turn(todo, progress))
    unread = tuple(unreadable(dump) for dump in dumps if not dump.readable)
    return Dumps(dumps, unread)


def as_job(source: Any) -> Job:
    if isinstance(source, (str, os.PathLike)):
        return Job(os.fspath(source), path=os.fspath(source))
    if isinstance(source, tuple):
        name, content = source
        if isinstance(content, (str, os.PathLike)):
            return Job(str(name), path=os.fspath(content))
        return Job(str(name), data=bytes(content))
    name = str(source.name)
    path = getattr(source, "path", None)
    if isinstance(path, (str, Path)) and path and os.path.isfile(path):
        return Job(name, path=os.fspath(path))
    for attribute in ("data", "content", "bytes"):
        data = getattr(source, attribute, None)
        if isinstance(data, (bytes, bytearray, memoryview)):
            return Job(name, data=bytes(data))
    return Job(name, data=bytes(source.read()))


def _size(job: Job) -> int:
    if not job.path:
        return len(job.data)
    with contextlib.suppress(OSError):
        return os.path.getsize(job.path)
    return 0


def _in_turn(todo: Sequence[Job], progress: Progress | None) -> Iterator[Dump]:
    collecting = gc.isenabled()
    gc.disable()  # plain values hold no cycles; the collector costs half the time
    known = Known()
    try:
        for at, job in enumerate(todo, 1):
            yield read_job(job, walk=True, known=known)
            if progress is not None:
                progress(at, len(todo))
    finally:
        if collecting:
            gc.enable()


_START = "import sys; sys.path[:] = {path!r}; from unstall.recorder.worker import main; main()"


def _in_parallel(todo: Sequence[Job], jobs: int, progress: Progress | None) -> list[Dump]:
    """Hand jobs to worker processes; one that dies costs the file it was reading."""
    results: list[Dump | None] = [None] * len(todo)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for at in range(len(todo)):
        waiting.put(at)
    finished: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    stop = threading.Event()
    processes: list[subprocess.Popen[bytes]] = []
    decoder = msgspec.msgpack.Decoder(Dump)
    command = [sys.executable, "-c", _START.format(path=[p for p in sys.path if p])]

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        processes.append(process)
        return process

    def attend() -> None:
        process = start()
        while not stop.is_set():
            try:
                at = waiting.get_nowait()
            except queue.Empty:
                break
            job, answer = todo[at], None
            with contextlib.suppress(OSError, ValueError):
                send(cast(Any, process.stdin), msgspec.msgpack.encode(job))
                answer = receive(cast(Any, process.stdout))
            if answer is None:
                if stop.is_set():
                    break
                results[at] = Dump(job.name, state="refused", found="content that ended its reader")
                process.kill()
                process = start()
            else:
                results[at] = decoder.decode(answer)
            finished.put(at)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        finished.put(None)

    threads = [threading.Thread(target=attend, daemon=True) for _ in range(jobs)]
    try:
        for thread in threads:
            thread.start()
        alive, done = jobs, 0
        while alive:
            if finished.get() is None:
                alive -= 1
                continue
            done += 1
            if progress is not None:
                progress(done, len(todo))
    finally:
        stop.set()
        for process in processes:
            with contextlib.suppress(OSError):
                if process.poll() is None and any(result is None for result in results):
                    process.kill()
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    return [dump for dump in results if dump is not None]


_ADVICE = {
    "empty": say(
        "the file is empty: the process was killed while it opened it, or the disk is full; it "
        "counts as a sign against its rank"
    ),
    "truncated": say(
        "{found}: the process ended while it wrote, or the copy is incomplete; it counts as a sign "
        "against its rank; copy it again if you can",
        found="",
    ),
    "refused": say("not loaded, because it holds {found}, which no dump of torch holds", found=""),
    "too-big": say("not loaded: {found}, more than {limit} MiB", found="", limit=MAX_BYTES >> 20),
    "unreadable": say("the file cannot be opened: {found}", found=""),
    "unexpected": say("its form is unknown ({found}); please report it", found=""),
    "foreign": say("no Flight Recorder dump: {found}", found=""),
}


def unreadable(dump: Dump) -> Unreadable:
    """What was wrong with a file, as a fact."""
    text = advice(dump)
    return Unreadable(place=Place(dump.source, 1), quote="", reason=text.render(), text=text)


def advice(dump: Dump) -> Text:
    """The same as a sentence for users."""
    text = _ADVICE.get(dump.state, _ADVICE["foreign"])
    return Text(
        text.template, {**text.values, **({"found": dump.found} if "found" in text.values else {})}
    )


__all__ = ["MAX_BYTES", "Dumps", "advice", "load", "looks_like_dump", "unreadable"]
