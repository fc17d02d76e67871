"""TCPStore's two servers and two clients."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable

import pytest

from unstall.model.facts import Fact, PeerLost, StoreFailure
from unstall.reading.line import Reader
from unstall.reading.writers.store import StoreReader

Read = Callable[[type[Reader], str], list[Fact]]
Sample = Callable[[str], str]


def one(read: Read, text: str) -> StoreFailure:
    (fact,) = read(StoreReader, text)
    assert isinstance(fact, StoreFailure)
    return fact


def test_real_port_in_use_of_the_libuv_server(read: Read, sample: Sample) -> None:
    """One exception, port 29998, errno 98."""
    fact = one(read, sample("real/inuse.log"))
    assert (fact.kind, fact.port, fact.errno, fact.copies) == ("bind", 29998, 98, 1)


def test_port_in_use_of_the_legacy_server(read: Read) -> None:
    """Two addresses, the sum of it without a port, the exception: one failure."""
    text = (
        "[W1205 19:03:22.1 socket.cpp:462] [c10d] The server socket has failed to bind to [::]:23456 "
        "(errno: 98 - Address already in use).\n"
        "[W1205 19:03:22.1 socket.cpp:462] [c10d] The server socket has failed to bind to "
        "0.0.0.0:23456 (errno: 98 - Address already in use).\n"
        "[E1205 19:03:22.1 socket.cpp:498] [c10d] The server socket has failed to listen on any "
        "local network address.\n"
        "RuntimeError: The server socket has failed to listen on any local network address. "
        "port: 23456, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use\n"
    )
    fact = one(read, text)
    assert (fact.kind, fact.host, fact.port, fact.errno, fact.copies) == (
        "bind",
        "::",
        23456,
        98,
        4,
    )


def test_real_connect_time_out_with_retries(read: Read, sample: Sample) -> None:
    """Socket, retry, socket, last try and exception: one failure."""
    fact = one(read, sample("real/noconn.log"))
    assert (fact.kind, fact.host, fact.port, fact.timeout_ms) == (
        "connect",
        "127.0.0.1",
        29999,
        5000,
    )
    assert (fact.copies, fact.place.line) == (5, 1)


def test_real_join_and_wait_time_outs(read: Read, sample: Sample) -> None:
    """Clients that joined; the key that was never set, with the address of the socket's warning."""
    join = one(read, sample("real/joinwait.log"))
    assert (join.kind, join.joined, join.expected, join.timeout_ms) == ("join-timeout", 1, 2, 5000)
    wait = one(read, sample("real/storetimeout.log"))
    assert (wait.kind, wait.key, wait.timeout_ms) == ("wait-timeout", "/nokey", 2000)
    assert (wait.host, wait.port) == ("::ffff:127.0.0.1", 29825)


def test_real_healthy_debug_log_says_nothing(read: Read, sample: Sample) -> None:
    """Peers close their connections at the end of every good run."""
    assert read(StoreReader, sample("real/cppinfo.log")) == []


@pytest.mark.parametrize(
    ("text", "kind", "host", "port", "milliseconds", "errno"),
    [
        (
            "The client socket has timed out after 300s while trying to connect to (node-a, 29400).",
            "connect",
            "node-a",
            29400,
            300000,
            None,
        ),
        (
            "[c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot"
            " assign requested address).",
            "connect",
            "localhost",
            29500,
            None,
            99,
        ),
        (
            "[c10d] The client socket has failed to connect to any network address of (h.x, 1234).",
            "connect",
            "h.x",
            1234,
            None,
            None,
        ),
        (
            "[c10d] The IPv6 network addresses of (worker-0, 23456) cannot be retrieved (gai error: "
            "-2 - Name or service not known).",
            "resolve",
            "worker-0",
            23456,
            None,
            2,
        ),
    ],
)
def test_legacy_wordings(
    read: Read,
    text: str,
    kind: str,
    host: str,
    port: int,
    milliseconds: int | None,
    errno: int | None,
) -> None:
    """Hosts by name, seconds and milliseconds, errno and gai error."""
    fact = one(read, text)
    assert (fact.kind, fact.host, fact.port, fact.timeout_ms, fact.errno) == (
        kind,
        host,
        port,
        milliseconds,
        errno,
    )


def test_unique_id_that_was_never_published(read: Read) -> None:
    """The wait inside it is not a failure of its own."""
    text = (
        "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and "
        "retrieving ncclUniqueId from [0] via c10d key-value store by key '0:1:cuda:3', but "
        "store->get('0:1:cuda:3') got error: wait timeout after 600000ms, keys: /default_pg/0//x"
    )
    fact = one(read, text)
    assert (fact.kind, fact.key, fact.timeout_ms) == ("unique-id", "0:1:cuda:3", 600000)
    assert fact.speaker.rank == 3


def test_dead_store_host(read: Read) -> None:
    """The store's own words are a failure of the store, a socket's are a lost peer."""
    text = (
        '[rank1]:[W304 1:00:00.1 P.cpp:1] [PG ID 0 PG GUID 0 Rank 1] Failed to check the "should dump"'
        " flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe\n"
        "[rank1]:[W304 11:00:00.1 s.cpp:1] [c10d] sendBytes failed on SocketImpl(fd=3, "
        "addr=[a]:4, remote=[10.1.1.1]:29500): Broken pipe\n"
    )
    closed, lost = read(StoreReader, text)
    assert isinstance(closed, StoreFailure)
    assert closed.kind == "closed"
    assert isinstance(lost, PeerLost)
    assert (lost.layer, lost.peer) == ("store", "10.1.1.1:29500")


def test_an_ipv4_address_in_ipv6_clothes_is_one_address(read: Read) -> None:
    """The port stands behind the bracket, not behind the first colon that a digit follows."""
    (fact,) = read(
        StoreReader,
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
        "[::ffff:10.7.12.9]:40211 (errno: 110 - Connection timed out).\n",
    )
    assert isinstance(fact, StoreFailure)
    assert (fact.host, fact.port, fact.errno) == ("::ffff:10.7.12.9", 40211, 110)
