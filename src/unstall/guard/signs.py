"""Signs of work that a stack does not show: time on a processor, bytes, children, the disk.

A rank that writes a checkpoint, copies it over the network or waits for a compiler stands in one
line for minutes. Linux tells of each process what it has used and moved (``proc(5)``); elsewhere
only the time on a processor is known.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unstall.guard import tcp

#: CPU seconds per second from which a process is at work though its stack looks the same.
BUSY = 0.25
#: The same where the stack moves: a loop that only asks and sleeps uses less.
ALIVE = 0.05
#: Bytes per second from which a process is at work; heartbeats, logs and metrics are less.
BYTES = 128 << 10
#: Bytes per second of the whole machine from which a disk, or a network adapter, is at work.
MACHINE = 1 << 20
#: Threads of a process whose state is asked for.
_THREADS = 512
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One process at one moment.

    Attributes:
        born: tells it from a later process of the same number.
        parent: its parent's process id.
        cpu: seconds on a processor, with those of its children that have ended.
        io: bytes read and written so far, through files and pipes.
        disk: a thread of it waits for a disk or a file server.
        asleep: its main thread sleeps for a time.
        held: a debugger holds it.
        stopped: by a signal.
        world: number of ranks of its job, as its launcher told it; 0: not told.
    """

    born: float
    parent: int = 0
    cpu: float = 0.0
    io: int = 0
    disk: bool = False
    asleep: bool = False
    held: bool = False
    stopped: bool = False
    world: int = 0


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a job, and the machine, at one moment.

    Attributes:
        at: monotonic time.
        processes: by process id.
        traffic: over TCP; ``None``: not known.
        devices: bytes that the machine's disks and network have moved.
        fabric: bytes that its RDMA adapters have moved.
    """

    at: float
    processes: dict[int, Sign] = {}
    traffic: tcp.Traffic | None = None
    devices: int = 0
    fabric: int = 0


def signs(pids: Sequence[int]) -> Signs:
    """The signs of these processes now."""
    linux = sys.platform == "linux"
    read = _from_proc if linux else _from_psutil
    found = {pid: sign for pid in pids if (sign := read(pid)) is not None}
    return Signs(
        at=time.monotonic(),
        processes=found,
        traffic=tcp.traffic(found) if linux else None,
        devices=_devices() if linux else 0,
        fabric=_fabric() if linux else 0,
    )


class Change:
    """What two of them, the later one second, say of each process."""

    def __init__(self, first: Signs, second: Signs) -> None:
        self._first = first
        self._second = second
        self._seconds = max(second.at - first.at, 0.1)

    def new(self, pid: int) -> bool:
        """Whether it was not there before."""
        before, now = self._first.processes.get(pid), self._second.processes.get(pid)
        return now is not None and (before is None or before.born != now.born)

    def cpu(self, pid: int) -> float:
        """CPU seconds per second."""
        now = self._second.processes.get(pid)
        before = self._first.processes.get(pid)
        if now is None or before is None or before.born != now.born:
            return 0.0
        return max(now.cpu - before.cpu, 0.0) / self._seconds

    def bytes(self, pid: int) -> float:
        """Bytes per second through files, pipes and TCP."""
        now, before = self._second.processes.get(pid), self._first.processes.get(pid)
        if now is None or before is None or before.born != now.born:
            return 0.0
        moved = max(now.io - before.io, 0)
        if self._first.traffic is not None and self._second.traffic is not None:
            earlier = self._first.traffic.carried.get(pid, {})
            for inode, carried in self._second.traffic.carried.get(pid, {}).items():
                moved += max(carried - earlier.get(inode, 0), 0)
        return moved / self._seconds

    def at_disk(self, pid: int) -> bool:
        """Whether it waits for a disk (or a file server), and data move there."""
        now = self._second.processes.get(pid)
        return (
            now is not None
            and now.disk
            and self._second.devices - self._first.devices > MACHINE * self._seconds
        )

    def held(self, pid: int) -> bool:
        """Whether a debugger holds it."""
        now = self._second.processes.get(pid)
        return now is not None and now.held

    def waits(self, pid: int) -> bool:
        """Whether it waits for a time to pass, or for a disk: neither needs another process."""
        now = self._second.processes.get(pid)
        return now is not None and (now.disk or now.asleep)

    def stopped(self, pid: int) -> bool:
        """Whether a signal has stopped it."""
        now = self._second.processes.get(pid)
        return now is not None and now.stopped

    def world(self, pid: int) -> int:
        """How many ranks its job has; 0: not told."""
        now = self._second.processes.get(pid)
        return now.world if now is not None else 0

    def outward(self, pid: int) -> bool:
        """Whether it may wait for an answer from elsewhere: it has a connection to there."""
        traffic = self._second.traffic
        return traffic is None or pid in traffic.outward

    @property
    def fabric(self) -> bool:
        """Whether RDMA adapters carry data: a collective of many bytes."""
        return self._second.fabric - self._first.fabric > MACHINE * self._seconds

    def works(self, pid: int) -> bool:
        """Whether it is at work though its stack may look the same."""
        return self.cpu(pid) > BUSY or not self.only_cpu(pid)

    def only_cpu(self, pid: int) -> bool:
        """Whether nothing but its time on a processor can tell that it is at work."""
        return not (self.bytes(pid) > BYTES or self.at_disk(pid) or self.held(pid))

    def family(self, pid: int) -> list[int]:
        """The processes that it started, and those that they did."""
        children: dict[int, list[int]] = {}
        for number, sign in self._second.processes.items():
            children.setdefault(sign.parent, []).append(number)
        found: list[int] = []
        new = [pid]
        while new:
            new = [child for one in new for child in children.get(one, []) if child not in found]
            found.extend(new)
        return found


def _from_proc(pid: int) -> Sign | None:
    stat = _stat(f"/proc/{pid}/stat")
    if stat is None or stat[0] == "Z":
        return None
    used = sum(int(one) for one in stat[11:15]) / _TICK
    call = _call(pid)
    return Sign(
        born=float(stat[19]),
        parent=int(stat[1]),
        cpu=used,
        io=_io(pid),
        disk=call in _SYNCS or _at_disk(pid),
        asleep=call in _SLEEPS,
        held=_tracer(pid),
        stopped=stat[0] == "T",
        world=_world(pid),
    )


def _numbers(**numbers: tuple[int, ...]) -> tuple[int, ...]:
    return numbers.get(platform.machine(), ())


#: Numbers of system calls: ``nanosleep`` and ``clock_nanosleep``.
_SLEEPS = _numbers(x86_64=(35, 230), aarch64=(101, 115))
#: ``select`` and ``pselect6``, with which Python before 3.11 sleeps: of no descriptor.
_SELECTS = _numbers(x86_64=(23, 270), aarch64=(72,))
#: ``fsync``, ``fdatasync``, ``sync``, ``syncfs``, ``sync_file_range``, ``msync``.
_SYNCS = _numbers(x86_64=(74, 75, 162, 306, 277, 26), aarch64=(82, 83, 81, 267, 84, 227))


def _call(pid: int) -> int | None:
    """The number of the system call in which its main thread waits."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        words = Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()
        number = int(words[0])
        if number in _SELECTS and int(words[1], 16) == 0:
            return _SLEEPS[0]
        return number
    return None


def answers(pid: int, seconds: float = 0.3) -> bool:
    """Whether its stack can be taken: it waits for a disk no longer than a moment."""
    end = time.monotonic() + seconds
    while _at_disk(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _stat(path: str) -> list[str] | None:
    """The fields behind the name, which may hold spaces and brackets."""
    with contextlib.suppress(OSError):
        fields = Path(path).read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        if len(fields) > 19:
            return fields
    return None


def _io(pid: int) -> int:
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name in ("rchar", "wchar", "read_bytes"):  # what a mapped file is read for, too
                total += int(value)
    return total


def _at_disk(pid: int) -> bool:
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for count, thread in enumerate(threads):
            if count > _THREADS:
                break
            stat = _stat(f"{thread.path}/stat")
            if stat is not None and stat[0] == "D":
                return True
    return False


def _tracer(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("TracerPid:"):
                return line.split()[1:] not in ([], ["0"])
    return False


#: Variables that tell how many ranks there are: of torchrun and its like, of MPI, of Slurm.
_WORLDS = (b"WORLD_SIZE=", b"OMPI_COMM_WORLD_SIZE=", b"PMI_SIZE=", b"SLURM_NTASKS=")


def _world(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for name in _WORLDS:
            for one in variables:
                if one.startswith(name):
                    return int(one[len(name) :])
    return 0


def _devices() -> int:
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/diskstats").read_text(encoding="utf-8").splitlines():
            words = line.split()
            if not words[2].startswith(("loop", "ram", "zram")):
                total += 512 * (int(words[5]) + int(words[9]))
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()[2:]:
            name, _, rest = line.partition(":")
            if name.strip() != "lo":
                numbers = rest.split()
                total += int(numbers[0]) + int(numbers[8])
    return total


#: Counters of an RDMA adapter's port, and the bytes of one unit (InfiniBand counts words of four).
_COUNTERS = (
    ("counters/port_xmit_data", 4), ("counters/port_rcv_data", 4),
    ("hw_counters/tx_bytes", 1), ("hw_counters/rx_bytes", 1),
    ("hw_counters/rdma_read_bytes", 1), ("hw_counters/rdma_write_bytes", 1),
)  # fmt: skip


def _fabric() -> int:
    total = 0
    for port in Path("/sys/class/infiniband").glob("*/ports/*"):
        for name, unit in _COUNTERS:
            with contextlib.suppress(OSError, ValueError):
                total += unit * int((port / name).read_text(encoding="ascii"))
    return total


def _from_psutil(pid: int) -> Sign | None:
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        used = process.cpu_times()
        return Sign(
            born=process.create_time(),
            parent=process.ppid(),
            cpu=float(used.user + used.system),
            disk=process.status() == psutil.STATUS_DISK_SLEEP,
            stopped=process.status() == psutil.STATUS_STOPPED,
        )
    return None
