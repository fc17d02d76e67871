"""NCCL's own lines, by version."""

# ruff: noqa: E501, S108 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable

import pytest

from unstall.model.facts import (
    CollectiveMismatch,
    Fact,
    NcclInit,
    NcclTransport,
    NcclWarning,
    PackageVersion,
    PeerLost,
)
from unstall.reading.line import Reader
from unstall.reading.writers.nccl import NcclReader

Read = Callable[[type[Reader], str], list[Fact]]


def test_four_versions_of_one_start(read: Read, sample: Callable[[str], str]) -> None:
    """The same two communicators, in the wording of 2.18, 2.21, 2.27 and 2.30."""
    facts = read(NcclReader, sample("nccl-by-version.log"))
    assert [f.version for f in facts if isinstance(f, PackageVersion)] == [
        "2.18.1",
        "2.21.5",
        "2.27.5",
        "2.30.7",
    ]
    assert [
        (f.stage, f.rank, f.size, f.device, f.bus_id, f.comm_id, f.copies, f.speaker.pid)
        for f in facts
        if isinstance(f, NcclInit)
    ] == [
        ("start", 0, 2, 0, "8f000", "0xfeedbeef01234567", 4, 4710),
        ("complete", 0, 2, 0, "8f000", "0xfeedbeef01234567", 4, 4710),
        ("start", 1, 2, 1, "9f000", "0xfeedbeef01234567", 4, 4711),
        ("complete", 1, 2, 1, "9f000", "0xfeedbeef01234567", 4, 4711),
    ]
    (warning,) = [f for f in facts if isinstance(f, NcclWarning)]
    assert (warning.topic, warning.device, warning.file) == ("socket", 0, "misc/socket.cc")
    assert warning.values == {"peer": "node02.cluster<41234>"}
    (lost,) = [f for f in facts if isinstance(f, PeerLost)]
    assert (lost.layer, lost.peer, lost.speaker.host) == ("nccl", "node02.cluster<41234>", "node01")


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        ("comm 0x7f rank 3 nranks 8 cudaDev 3 busId 8f000 - Init COMPLETE", "complete"),
        (
            "[Rank 3] ncclCommInitRankConfig comm 0x7f rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 8f000 commId 0x1 - Init START",
            "start",
        ),
        (
            "ncclCommSplit comm 0x7f rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 8f000 parent 0x6 splitCount 1 color 0 key 3- Init START",
            "start",
        ),
        ("comm 0x7f rank 3 nranks 8 cudaDev 3 busId 8f000 - Abort COMPLETE", "abort"),
        ("comm 0x7f rank 3 nranks 8 cudaDev 3 busId 8f000 - Destroy COMPLETE", "destroy"),
    ],
)
def test_stages_of_a_communicator(read: Read, words: str, stage: str) -> None:
    """Wordings of 2.14 to 2.31, the missing blank of a split included."""
    (fact,) = read(NcclReader, f"h:1:2 [3] NCCL INFO {words}")
    assert isinstance(fact, NcclInit)
    assert (fact.stage, fact.rank, fact.size, fact.device) == (stage, 3, 8, 3)


@pytest.mark.parametrize(
    ("words", "kind", "detail", "ranks"),
    [
        ("Channel 00/0 : 3[8f000] -> 4[9f000] via P2P/IPC", "p2p", "P2P/IPC", (3, 4)),
        ("Channel 07 : 2[2] -> 3[3] via SHM/direct/direct", "shm", "SHM/direct/direct", (2, 3)),
        (
            "Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/0(2)/GDRDMA",
            "net-ib",
            "NET/IB/0(2)/GDRDMA",
            (8, 0),
        ),
        (
            "Channel 01/0 : 8[0] -> 0[0] [send] via NET/Socket/1",
            "net-socket",
            "NET/Socket/1",
            (8, 0),
        ),
        ("Using network AWS Libfabric", "network", "AWS Libfabric", (None, None)),
        ("Bootstrap : Using eth1:10.1.2.3<0>", "bootstrap", "eth1:10.1.2.3", (None, None)),
        ("Bootstrap: Using ib0:10.1.2.3<0>", "bootstrap", "ib0:10.1.2.3", (None, None)),
        (
            "NET/IB : Using [0]mlx5_4:1/RoCE [1]mlx5_5:1/RoCE [RO]; OOB eth0:10.8.0.11<0>",
            "net-ib",
            "mlx5_4:1/RoCE mlx5_5:1/RoCE [RO]; OOB eth0:10.8.0.11<0>",
            (None, None),
        ),
    ],
)
def test_transports(
    read: Read, words: str, kind: str, detail: str, ranks: tuple[int | None, int | None]
) -> None:
    """How ranks and hosts reach each other."""
    (fact,) = read(NcclReader, f"h:1:2 [3] NCCL INFO {words}")
    assert isinstance(fact, NcclTransport)
    assert (fact.kind, fact.detail, (fact.from_rank, fact.to_rank)) == (kind, detail, ranks)


@pytest.mark.parametrize(
    ("words", "topic", "values"),
    [
        (
            "Error while creating shared memory segment /dev/shm/nccl-Ab1 (size 33030528)",
            "shm",
            {"path": "/dev/shm/nccl-Ab1", "size": "33030528"},
        ),
        (
            "Error: failed to extend /dev/shm/nccl-Ab1 to 33030532 bytes, error: No space left on device (28)",
            "shm",
            {"path": "/dev/shm/nccl-Ab1", "size": "33030532"},
        ),
        (
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 8f000",
            "duplicate-gpu",
            {"ranks": "1,0", "bus_id": "8f000"},
        ),
        ("Cuda failure 2 'out of memory'", "cuda", {"code": "2", "error": "out of memory"}),
        ("Cuda failure 'out of memory'", "cuda", {"error": "out of memory"}),
        (
            "NET/IB : Got completion from peer 10.4.1.32<48711> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid ::ffff:1 remoteGids::ffff:2 hca mlx5_3",
            "ib",
            {
                "status": "12",
                "vendor_err": "129",
                "opcode": "0",
                "peer": "10.4.1.32<48711>",
                "hca": "mlx5_3",
            },
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<3> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_0",
            "ib",
            {
                "status": "12",
                "vendor_err": "129",
                "opcode": "0",
                "peer": "10.0.0.2<3>",
                "hca": "mlx5_0",
            },
        ),
        ("NET/IB : mlx5_2:1 Got async event : port error", "ib", {"hca": "mlx5_2:1"}),
        (
            "NET/OFI Request 0x7f completed with error. RC: 5. Error: 16 (NO_SPACE)."
            " Completed length: 0, Request: { dev: 1 }",
            "ofi",
            {"error": "NO_SPACE"},
        ),
        (
            "NET/OFI Request 0x7f completed with error. RC: 21. Error: unknown error."
            " Completed length: 0, Request: { dev: 1 }",
            "ofi",
            {"error": "unknown error"},
        ),
        (
            "Mismatched NCCL version detected : rank 0 version 22105 rank 9 version 22304",
            "version",
            {"ranks": "0,9", "versions": "22105,22304"},
        ),
        ("Bootstrap : no socket interface found", "bootstrap", {}),
        (
            "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'.",
            "nvls",
            {"error": "the operation cannot be performed in the present state"},
        ),
        (
            "socketStartConnect: Connect to 10.0.0.9<40123> failed : Software caused connection abort",
            "socket",
            {"peer": "10.0.0.9<40123>", "error": "Software caused connection abort"},
        ),
        (
            "socketPollConnect: Connect to 10.0.0.9<40123> returned 113(No route to host) errno 115",
            "socket",
            {"peer": "10.0.0.9<40123>", "error": "113(No route to host)"},
        ),
        ("Could not find any path between GPUs", "other", {}),
    ],
)
def test_topics_and_values(read: Read, words: str, topic: str, values: dict[str, str]) -> None:
    """What matters of a warning, of any version."""
    facts = read(NcclReader, f"[2026-03-04 11:32:40] h:1:2 [5] a/b.cc:9 (f) NCCL WARN {words}")
    (fact,) = [f for f in facts if isinstance(f, NcclWarning)]
    assert (fact.topic, fact.values, fact.device, fact.message) == (topic, values, 5, words)


def test_repeated_warnings_of_one_process_are_copies(read: Read) -> None:
    """Two processes' are two facts."""
    line = "h:{pid}:9 [0] a/b.cc:9 NCCL WARN Could not find any path"
    facts = read(NcclReader, "\n".join(line.format(pid=pid) for pid in (1, 2, 1)))
    assert [(f.speaker.pid, f.copies) for f in facts] == [(1, 2), (2, 1)]


def test_truncated_message_is_a_size_mismatch(read: Read) -> None:
    """The peer sent more than this rank expected."""
    facts = read(
        NcclReader, "h:1:2 [0] n.cc:1 NCCL WARN Message truncated : received 96 bytes instead of 64"
    )
    (fact,) = [f for f in facts if isinstance(f, CollectiveMismatch)]
    assert (fact.mine[2], fact.other[2], fact.aspects) == ("64 bytes", "96 bytes", ("size",))


@pytest.mark.parametrize(
    "text",
    ["NCCL version 2.27.5+cuda12.9", "INFO x: vLLM is using nccl==2.27.5", "NCCL version: 2.27.5"],
)
def test_version_in_every_spelling(read: Read, text: str) -> None:
    """Bare line, vLLM's, the environment line of torch."""
    (fact,) = read(NcclReader, text)
    assert isinstance(fact, PackageVersion)
    assert (fact.name, fact.version) == ("nccl", "2.27.5")
