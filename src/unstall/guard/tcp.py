"""How much the TCP connections of processes have carried, and who is at their other ends (Linux).

The kernel tells it through a netlink socket of ``NETLINK_SOCK_DIAG`` (``linux/inet_diag.h``,
``linux/tcp.h``: ``tcp_info.tcpi_bytes_acked`` and ``tcpi_bytes_received``), without special rights.
``/proc/PID/io`` does not count what goes through ``send`` and ``recv``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterable

import msgspec

_BY_FAMILY = 20
_REQUEST_DUMP = 0x1 | 0x300
_ERROR, _DONE = 2, 3
_INFO = 2
_ESTABLISHED = 1 << 1
#: ``inet_diag_msg``: family and state; ports and addresses; sizes of queues, owner, inode.
_MESSAGE = struct.Struct("=BBBB2s2s16s16sI8sIIIII")
_ACKED = 120
#: Descriptors of one process that are looked at.
_MOST = 8192

End = tuple[bytes, bytes]


class Connection(msgspec.Struct, frozen=True):
    """One end of an established connection.

    Attributes:
        inode: of the socket, by which its owner is found.
        own, other: address and port of this end and of the other one.
        carried: bytes in both directions so far.
    """

    inode: int
    own: End
    other: End
    carried: int


def connections() -> list[Connection] | None:
    """All established TCP connections of this network namespace; ``None``: not to be had."""
    found: list[Connection] = []
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            found.extend(_dump(family))
    except (OSError, AttributeError, struct.error):
        return None
    return found


def _dump(family: int) -> list[Connection]:
    found: list[Connection] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as link:
        link.settimeout(2.0)
        what = struct.pack(
            "=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED
        )
        link.send(struct.pack("=IHHII", 16 + len(what), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + what)
        while True:
            data = link.recv(1 << 18)
            at = 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR or length < 16:
                    raise OSError("the kernel tells nothing of sockets")
                found.append(_read(data[at + 16 : at + length]))
                at += (length + 3) & ~3


def _read(data: bytes) -> Connection:
    (*_, own_port, other_port, own, other, _, _, _, _, _, _, inode) = _MESSAGE.unpack_from(data)
    carried, at = 0, _MESSAGE.size
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        if kind == _INFO and length >= 4 + _ACKED + 16:
            carried = sum(struct.unpack_from("=QQ", data, at + 4 + _ACKED))
        at += (length + 3) & ~3
    return Connection(inode, (_plain(own), own_port), (_plain(other), other_port), carried)


def _plain(address: bytes) -> bytes:
    """The same for an address of IPv4 and for the one of IPv6 that stands for it."""
    return address[12:] + bytes(12) if address.startswith(bytes(10) + b"\xff\xff") else address


def sockets_of(pid: int) -> set[int]:
    """Inodes of a process's sockets."""
    found: set[int] = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for count, entry in enumerate(entries):
            if count > _MOST:
                break
            with contextlib.suppress(OSError, ValueError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    return found


class Traffic(msgspec.Struct, frozen=True):
    """What the connections of some processes have carried.

    Attributes:
        carried: bytes by process and connection.
        outward: processes with a connection to something that is none of these processes.
    """

    carried: dict[int, dict[int, int]] = {}
    outward: frozenset[int] = frozenset()


def traffic(pids: Iterable[int]) -> Traffic | None:
    """The traffic of these processes; ``None``: not to be had."""
    known = connections()
    if known is None:
        return None
    owned = {pid: sockets_of(pid) for pid in pids}
    inside = set().union(*owned.values())
    ends = {one.own: one.inode for one in known}
    by_inode = {one.inode: one for one in known}
    carried, outward = {}, set()
    for pid, inodes in owned.items():
        mine = [by_inode[inode] for inode in inodes if inode in by_inode]
        carried[pid] = {one.inode: one.carried for one in mine}
        if any(ends.get(one.other) not in inside for one in mine):
            outward.add(pid)
    return Traffic(carried, frozenset(outward))
