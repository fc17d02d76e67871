"""Gloo's exceptions: who waits raises, who is waited for says nothing."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable

from unstall.model.facts import CollectiveMismatch, CollectiveTimeout, Fact, PeerLost, Work
from unstall.reading.line import Reader
from unstall.reading.writers.gloo import GlooReader

Read = Callable[[type[Reader], str], list[Fact]]
Sample = Callable[[str], str]


def test_real_size_mismatch(read: Read, sample: Sample) -> None:
    """104 bytes came where 4 fit; the peer then lost its connection."""
    facts = read(GlooReader, sample("real/shape.log"))
    mismatch, lost = facts
    assert isinstance(mismatch, CollectiveMismatch)
    assert mismatch.aspects == ("size",)
    assert (mismatch.mine[2], mismatch.other[2]) == ("4 bytes", "104 bytes")
    assert isinstance(lost, PeerLost)
    assert (lost.layer, lost.peer, lost.speaker.rank) == ("gloo", "[127.0.0.1]:34460", 1)


def test_real_mesh_that_could_not_connect(read: Read, sample: Sample) -> None:
    """The last try, the C++ record and the exception are one fact of the first process."""
    (fact,) = read(GlooReader, sample("real/tee3r.log"))
    assert isinstance(fact, PeerLost)
    assert (fact.peer, fact.copies, fact.speaker.local_rank) == ("[127.0.0.1]:31647", 3, 0)


def test_time_out_of_the_waiting_rank(read: Read) -> None:
    """Gloo names the transport's operation, not the collective."""
    text = (
        "[rank2]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] "
        "Timed out waiting 1800000ms for recv operation to complete"
    )
    (fact,) = read(GlooReader, text)
    assert isinstance(fact, CollectiveTimeout)
    assert (fact.work, fact.ran_ms, fact.backend) == (
        Work(op="", timeout_ms=1800000),
        1800000,
        "gloo",
    )


def test_closed_connections(read: Read) -> None:
    """Addresses as written; a foreign ``Socket closed`` is not gloo's."""
    text = (
        "RuntimeError: [/g/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:2301\n"
        "RuntimeError: Application timeout caused pair closure [gloo/transport]\n"
        "httpx: Socket closed by the proxy\n"
    )
    facts = read(GlooReader, text)
    assert [type(f) for f in facts] == [PeerLost, CollectiveTimeout]
    assert isinstance(facts[0], PeerLost)
    assert facts[0].peer == "[10.0.0.7]:2301"


def test_retries_are_no_losses(read: Read, sample: Sample) -> None:
    """A first refused try that will be repeated says nothing."""
    lines = [line for line in sample("real/tee3r.log").splitlines() if "willRetry=1" in line]
    assert lines
    assert read(GlooReader, "\n".join(lines)) == []
