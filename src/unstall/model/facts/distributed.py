"""What torch.distributed says: watchdogs, stores, other back ends, recorder files."""

from __future__ import annotations

from unstall.model.facts.base import Fact, GroupTag, Work


class CollectiveTimeout(Fact, frozen=True, kw_only=True):
    """A watchdog (or a blocking wait) gave an operation up.

    One fact for each rank, group and sequence number, however often the text is repeated.

    Attributes:
        work: the operation; its ``op`` is ``""`` for back ends that do not name it (nccl2).
        ran_ms: how long it had run.
        group: the group, where this line or the status line beside it told.
        backend: ``nccl``, ``nccl2``, ``gloo``, ``hccl``.
    """

    work: Work
    ran_ms: int | None = None
    group: GroupTag = GroupTag()
    backend: str = "nccl"


class GroupStatus(Fact, frozen=True, kw_only=True):
    """What one rank had enqueued, started and completed in one group (-1: nothing yet).

    Attributes:
        failed: the sequence number named as failed, if one was.
        reason: ``failure`` (this rank's own watchdog), ``local-dump`` (dump signal from itself) or
            ``remote-dump`` (it heard of another rank's failure).
        from_rank: for ``remote-dump``: the rank that signalled.
    """

    group: GroupTag
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None
    failed: int | None = None
    reason: str = "failure"
    from_rank: int | None = None


class DumpSignalObserved(Fact, frozen=True, kw_only=True):
    """A rank saw through the store that another rank signalled a dump: it did not time out."""

    group: GroupTag


class WatchdogError(Fact, frozen=True, kw_only=True):
    """A watchdog thread ended with an exception that is not a time-out: it is the messenger.

    Attributes:
        error: the exception's first line (``CUDA error: …``, ``NCCL error: …``).
        group: the group whose watchdog it was.
        frames: C++ frames, outermost call first as printed, symbol names only.
        raised_from: function that raised.
    """

    error: str
    group: GroupTag = GroupTag()
    frames: tuple[str, ...] = ()
    raised_from: str | None = None


class WatchdogStuck(Fact, frozen=True, kw_only=True):
    """The heartbeat monitor says that the watchdog itself made no progress."""

    seconds: int | None = None
    group: GroupTag = GroupTag()


class ProcessTakenDown(Fact, frozen=True, kw_only=True):
    """A rank ended itself after its watchdog or monitor asked for it: a consequence."""

    reason: str = ""
    group: GroupTag = GroupTag()


class FailedStack(Fact, frozen=True, kw_only=True):
    """``Stack trace of the failed collective``: Python frames, innermost first.

    Attributes:
        frames: ``(function, file, line)``; empty when torch says that there is none.
    """

    frames: tuple[tuple[str, str, int], ...] = ()


class DesyncReport(Fact, frozen=True, kw_only=True):
    """TORCH_NCCL_DESYNC_DEBUG's report, line by line reduced to its claims.

    Attributes:
        lagging: ranks it names as never having joined the operation.
        states: ``(rank, "started" or "finished", operation, sequence number)``.
    """

    lagging: tuple[int, ...] = ()
    states: tuple[tuple[int, str, str, int], ...] = ()


class CollectiveMismatch(Fact, frozen=True, kw_only=True):
    """Two ranks ran different operations or shapes at one place.

    Told by TORCH_DISTRIBUTED_DEBUG=DETAIL, by gloo's size check, or by NCCL.

    Attributes:
        mine, other: ``(rank, operation, shape as written, sequence number)`` as far as told.
        aspects: what differs: ``sequence``, ``op``, ``shape``, ``dtype``, ``size``.
    """

    mine: tuple[int | None, str | None, str | None, int | None]
    other: tuple[int | None, str | None, str | None, int | None]
    aspects: tuple[str, ...] = ()


class BarrierFailure(Fact, frozen=True, kw_only=True):
    """monitored_barrier names ranks that did not come.

    Attributes:
        absent: ranks named.
        waited_ms: how long it waited.
    """

    absent: tuple[int, ...]
    waited_ms: int | None = None


class PeerLost(Fact, frozen=True, kw_only=True):
    """A connection to a peer closed or was reset: usually the peer had died before.

    Attributes:
        layer: ``gloo``, ``nccl``, ``store``.
        peer: address or rank as written.
        remote_error: NCCL's ncclRemoteError.
    """

    layer: str
    peer: str | None = None
    remote_error: bool = False


class StoreFailure(Fact, frozen=True, kw_only=True):
    """TCPStore or rendezvous trouble.

    Attributes:
        kind: ``bind`` (address in use; of any listener, an HTTP server's too), ``connect``,
            ``resolve``, ``join-timeout``,
            ``wait-timeout``, ``unique-id`` (ncclUniqueId not published), ``closed``.
        host, port: the address concerned.
        key: key waited for.
        timeout_ms: how long it waited.
        joined, expected: clients joined so far.
        errno: number as written, positive.
    """

    kind: str
    host: str | None = None
    port: int | None = None
    key: str | None = None
    timeout_ms: int | None = None
    joined: int | None = None
    expected: int | None = None
    errno: int | None = None


class GroupCreated(Fact, frozen=True, kw_only=True):
    """A process group was made (``ProcessGroupNCCL initialization options``, rank assignment).

    Attributes:
        size: its number of ranks.
        name: its name.
        timeout_ms: its time-out.
        roles: rank assignment where a framework prints one, e.g. ``{"DP": 0, "TP": 1}``.
    """

    size: int | None = None
    name: str | None = None
    timeout_ms: int | None = None
    backend: str | None = None
    roles: dict[str, int] = {}


class RecorderFile(Fact, frozen=True, kw_only=True):
    """A Flight Recorder dump was written, failed, or the recorder is off.

    Attributes:
        state: ``written``, ``failed``, ``disabled``.
        path: as written.
    """

    state: str
    path: str | None = None
