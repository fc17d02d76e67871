"""What NCCL's own log and errors say."""

from __future__ import annotations

from unstall.model.facts.base import Fact


class NcclError(Fact, frozen=True, kw_only=True):
    """An NCCL call failed, as torch or a binding reports it.

    Attributes:
        result: ``ncclSystemError``, ``ncclRemoteError``, ``ncclInvalidUsage`` …
        last_error: NCCL's own last words.
        version: NCCL version.
        where: Python file or function that met it, where known.
    """

    result: str
    last_error: str | None = None
    version: str | None = None
    where: str | None = None


class NcclWarning(Fact, frozen=True, kw_only=True):
    """An ``NCCL WARN`` line.

    Attributes:
        device: CUDA device ordinal (not the rank).
        file: source file in NCCL.
        message: its text.
        topic: ``shm``, ``duplicate-gpu``, ``cuda``, ``socket``, ``ib``, ``version``, ``bootstrap``,
            ``nvls``, ``mismatch`` (NCCL compared the ranks' calls), ``ofi`` (libfabric), ``other``.
        values: numbers that matter: ``size``, ``path``, ``status``, ``vendor_err``, ``peer``,
            ``interface``, ``ranks`` …
    """

    message: str
    topic: str = "other"
    device: int | None = None
    file: str | None = None
    values: dict[str, str] = {}


class NcclInit(Fact, frozen=True, kw_only=True):
    """A communicator's start or end.

    Attributes:
        stage: ``start``, ``complete``, ``abort``, ``destroy``.
        rank, size, device: of the communicator.
        comm_id: as written.
    """

    stage: str
    rank: int | None = None
    size: int | None = None
    device: int | None = None
    bus_id: str | None = None
    comm_id: str | None = None


class NcclTransport(Fact, frozen=True, kw_only=True):
    """How ranks or hosts reach each other.

    Attributes:
        kind: ``p2p``, ``shm``, ``net-ib``, ``net-socket``, ``nvls``, ``bootstrap``, ``network``.
        detail: as written: ``P2P/IPC``, ``IB``, ``RoCE``, ``eth0:10.0.0.1``.
    """

    kind: str
    detail: str = ""
    from_rank: int | None = None
    to_rank: int | None = None


class HcclError(Fact, frozen=True, kw_only=True):
    """An error of HCCL, Ascend's counterpart of NCCL, that no other fact expresses.

    Attributes:
        code: ``EI0006`` (a peer could not be connected in time), ``EI0015`` (the ranks did not all
            meet), ``EI0013`` (RDMA error), ``EJ0001`` (the device is held by an earlier process) …;
            for what heartbeats found, its kind: ``Heartbeat Lost``, ``Stuck``, ``Error cqe``.
        reason: its words.
        peer: the rank it was about, as HCCL counts ranks in its group.
        at: where heartbeats saw the fault first: address and device or rank, as written.
    """

    code: str
    reason: str = ""
    peer: int | None = None
    at: str | None = None
