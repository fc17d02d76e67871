"""Ascend: codes of HCCL, the host's time-outs, ranks told by torch_npu's line before."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from unstall.model.facts import (
    CollectiveMismatch,
    CollectiveTimeout,
    CudaError,
    Fact,
    HcclError,
    StoreFailure,
)
from unstall.reading.line import Reader
from unstall.reading.writers.hccl import HcclReader

Read = Callable[[type[Reader], str], list[Fact]]


def test_notify_wait_is_one_wait_with_its_operation_and_rank(read: Read) -> None:
    """torch_npu's words, CANN's and EI0002 tell the same wait; RankID is the rank."""
    (fact,) = read(
        HcclReader,
        """RuntimeError: npuSynchronizeDevice:torch_npu/csrc/core/npu/NPUStream.cpp:435 NPU function error: aclrtSynchronizeDevice, error code is 507048
[ERROR] 2025-02-11-09:20:31 (PID:4711, Device:3, RankID:11) ERR00100 PTA call acl api failed
[Error]: The execution of the internal task times out.
EI0002: [PID: 4711] 2025-02-11-09:20:31.586.187 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [unknown]. base information: [streamID:[1], taskID[8318285], tag[AllReduce_group_name_7], AlgType(level 0-1-2):[fullmesh-ring-NHR].]
""",
    )
    assert isinstance(fact, CollectiveTimeout)
    assert (fact.work.op, fact.backend, fact.speaker.rank) == ("ALLREDUCE", "hccl", 11)
    assert fact.moment is not None
    assert fact.moment.stamp == datetime(2025, 2, 11, 9, 20, 31, 586187)


def test_ranks_wait_apart(read: Read) -> None:
    """Two ranks by their prefixes are two waits."""
    facts = read(
        HcclReader,
        """[rank4]: RuntimeError: NPU function error: aclrtSynchronizeDevice, error code is 507046
[rank5]: RuntimeError: NPU function error: aclrtSynchronizeDevice, error code is 507046
""",
    )
    assert [fact.speaker.rank for fact in facts] == [4, 5]


def test_socket_times_out_with_its_peer(read: Read) -> None:
    """EI0009 names the other rank; an unknown rank is none."""
    facts = read(
        HcclReader,
        """EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out. Reason: Remote Rank did not send the data in time.
EI0009: [PID: 9] 2025-09-24-20:59:48.119.066 Transport init error. Reason: [Create][DestLink]Create Dest error! createLink para:rank[1]-localUserrank[1]-localIpAddr[10.1.0.4], dst_rank[6]-remoteUserrank[6]-remote_ip_addr[10.1.0.5]
""",
    )
    assert [(f.code, f.peer) for f in facts if isinstance(f, HcclError)] == [
        ("EI0006", None),
        ("EI0009", 6),
    ]


def test_other_forms_of_a_code(read: Read) -> None:
    """CANN 8.5 puts title and code behind the time; plog lines carry no code."""
    facts = read(
        HcclReader,
        """[PID: 3448] 2025-12-04-21:59:08.232.310 Execution Error ROCE CQE(EI0013): An error CQE occurred during operator execution. Local information: server 10.0.0.1, device ID 0
[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113.403 [hccl_socket_manager.cc:797] [18744][Wait][LinkEstablish]wait socket establish timeout, role[1] rank[1] timeout[120 s]
[ERROR] HCCL(79,python3):2025-03-19-04:16:13.978.979 [topoinfo_exchange_agent.cc:190] [79][InitGroupStage][RanktableDetect]topo exchange agent get socket timeout! timeout[120]
""",
    )
    assert [(f.code, f.speaker.pid) for f in facts if isinstance(f, HcclError)] == [
        ("EI0013", 3448),
        ("EI0006", 17528),
        ("EI0015", 79),
    ]


def test_what_other_facts_express(read: Read) -> None:
    """Unlike arguments, a taken port and full device memory are no facts of HCCL alone."""
    mismatch, bind, memory = read(
        HcclReader,
        """EI0005: The arguments for collective communication are inconsistent between ranks: tag [AllGather_world_3], parameter [count], local [4096], remote [2048]
EJ0003: 2025-05-23-10:00:00.000.001 Failed to bind the IP port. Reason: The IP address and port have been bound already.
EI0011: [PID: 12] 2025-05-23-10:00:01.000.001 Failed to allocate [209715200] bytes of NPU memory.
""",
    )
    assert isinstance(mismatch, CollectiveMismatch)
    assert (mismatch.mine[1:3], mismatch.other[2]) == (("ALLGATHER", "count 4096"), "count 2048")
    assert mismatch.aspects == ("size",)
    assert isinstance(bind, StoreFailure)
    assert bind.kind == "bind"
    assert isinstance(memory, CudaError)
    assert memory.name == "OutOfMemory"


def test_where_heartbeats_saw_it(read: Read) -> None:
    """Both forms of the location: since CANN 8.0 with the rank, before with the device."""
    facts = read(
        HcclReader,
        """    Cluster Exception Location[IP/ID]:[10.9.0.24/1], Arrival Time:[Thu Nov 28 11:56:34 2024], Discoverer:[10.9.0.24/0], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1. Process has exited, 2. Network Disconnected
        serverId[10.9.5.9], deviceId[5], Heartbeat Lost Occurred, Possible Reason: 1. Process has exited
""",
    )
    assert [(f.code, f.at) for f in facts if isinstance(f, HcclError)] == [
        ("Heartbeat Lost", "10.9.0.24/1"),
        ("Heartbeat Lost", "10.9.5.9/5"),
    ]
