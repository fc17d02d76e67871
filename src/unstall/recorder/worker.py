"""A process of its own that reads dumps: memory is limited there, and a crash costs one file.

Started with a plain command line, never by forking, so that threads of the caller do no harm and a
caller's main module is not run again. Speaks MessagePack, a length before each message: names in,
reduced dumps out.
"""

from __future__ import annotations

import gc
import signal
import struct
import sys
from typing import BinaryIO

import msgspec

from unstall.recorder.alike import Known
from unstall.recorder.naming import read_name
from unstall.recorder.records import Dump
from unstall.recorder.safety import MAX_BYTES, DumpError, parse
from unstall.recorder.scan import Scan, UnscannableError
from unstall.recorder.schema import reduce_dump, reduce_scan

#: What one worker may occupy while it reads one dump, beyond the interpreter itself.
MEMORY_LIMIT = 6 << 30

_LENGTH = struct.Struct("<I")


class Job(msgspec.Struct, array_like=True):
    """One dump to read: its name, and its path or its bytes."""

    name: str
    path: str = ""
    data: bytes = b""


def reduce_bytes(name: str, data: bytes, *, walk: bool, known: Known | None = None) -> Dump:
    """A dump's bytes in compact form; what is wrong with them stands in the result."""
    try:
        try:
            dump = reduce_scan(Scan(data, known), name, len(data), known)
        except UnscannableError:
            dump = reduce_dump(parse(data, walk=walk), name, len(data))
    except DumpError as error:
        dump = Dump(name, state=error.state, found=error.found, size=len(data))
    except (MemoryError, RecursionError):
        found = "a demand for more memory than its size explains"
        dump = Dump(name, state="refused", found=found, size=len(data))
    except Exception as error:  # a form nobody thought of costs one file, not the verdict
        dump = Dump(name, state="unexpected", found=type(error).__name__, size=len(data))
    parts = read_name(name)
    dump.rank, dump.sure, dump.host, dump.series = parts.rank, parts.sure, parts.host, parts.series
    return dump


def read_job(job: Job, *, walk: bool, known: Known | None = None) -> Dump:
    """The dump of a job, read from its path where it brings no bytes."""
    data = job.data
    if job.path:
        try:
            with open(job.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            dump = reduce_bytes(job.name, b"", walk=walk)
            dump.state, dump.found = "unreadable", error.strerror or type(error).__name__
            return dump
    return reduce_bytes(job.name, data, walk=walk, known=known)


def send(stream: BinaryIO, message: bytes) -> None:
    """Write one message."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: BinaryIO) -> bytes | None:
    """Read one message, ``None`` at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def limit_memory() -> bool:
    """Limit this process's address space; ``False`` where the system has no such limit."""
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(MEMORY_LIMIT, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    except (ImportError, ValueError, OSError):
        return False
    return sys.platform.startswith("linux")


def main() -> None:
    """Read jobs from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; its end closes our input
    limited = limit_memory()
    gc.disable()  # plain values hold no cycles; the collector costs half the time
    decoder, encoder = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    known = Known()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while (message := receive(source)) is not None:
        dump = read_job(decoder.decode(message), walk=not limited, known=known)
        try:
            send(sink, encoder.encode(dump))
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
