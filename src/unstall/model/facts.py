"""Facts: typed observations, each with who said it, when, and where it stands.

A reader turns lines into facts and knows nothing of causes; a cause reads facts and knows nothing
of lines. Facts are immutable. Absent knowledge is ``None``, never a guess.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from unstall.model.text import Text


class Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands.

    A source as the user named it (``logs.tgz!rank0.log`` for a member of an archive, ``-`` for
    standard input) and a line counted from 1.
    """

    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


class Moment(msgspec.Struct, frozen=True, order=True):
    """A point in time as a log gave it.

    Attributes:
        stamp: local wall time without a zone; its year is 1904 (a leap year) where none was given.
        year_known: whether the year was given. C++ log lines of PyTorch give none.
        zone: UTC offset in minutes where the line gave one.
    """

    stamp: datetime
    year_known: bool = True
    zone: int | None = None

    def earlier(self, milliseconds: float) -> Moment:
        """The moment so many milliseconds before this one."""
        return Moment(self.stamp - timedelta(milliseconds=milliseconds), self.year_known, self.zone)

    def seconds_since(self, other: Moment) -> float:
        """Seconds from ``other`` to this one; years count only where both are known."""
        mine, theirs = self.stamp, other.stamp
        if not (self.year_known and other.year_known):
            mine, theirs = mine.replace(year=1904), theirs.replace(year=1904)
        return (mine - theirs).total_seconds()

    def iso(self) -> str:
        """ISO 8601 to the millisecond; ``--MM-DDThh:mm:ss`` where the year is unknown."""
        text = self.stamp.isoformat(timespec="milliseconds")
        if not self.year_known:
            text = "-" + text[4:]
        if self.zone is not None:
            sign = "-" if self.zone < 0 else "+"
            text += f"{sign}{abs(self.zone) // 60:02d}:{abs(self.zone) % 60:02d}"
        return text


class Speaker(msgspec.Struct, frozen=True):
    """Who said a line, as far as its prefixes tell.

    Attributes:
        rank: global rank within the speaker's own program (``[rank3]:``).
        local_rank: rank on its node (torchrun's ``[default3]:``).
        task: Slurm task id (``srun -l``).
        pid: process id.
        host: host name or address.
        name: process or actor name (``EngineCore_DP0``, ``WorkerDict``, ``APIServer``, ``TP0``).
        container: compose service, pod or container name.
        stream: ``stdout`` or ``stderr`` where the log format gives it.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pid: int | None = None
    host: str | None = None
    name: str | None = None
    container: str | None = None
    stream: str | None = None


NOBODY = Speaker()


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One observation.

    Attributes:
        place: the first line it rests on.
        quote: that line as written, without terminal escapes and control characters, cut at 600.
        speaker: who said it.
        moment: when it was said (not necessarily when the thing happened).
        copies: how many times the same text stood in the input (what(), Ray's copy); at least 1.
    """

    place: Place
    quote: str
    speaker: Speaker = NOBODY
    moment: Moment | None = None
    copies: int = 1


class GroupTag(msgspec.Struct, frozen=True):
    """What a log line says of a process group: ``[PG ID 5 PG GUID 15(dp) Rank 0]``.

    Attributes:
        pg_id: number among the groups that this process belongs to (``PG ID``; ``PG`` up to 2.4).
        guid: number among all ``new_group`` calls (``PG GUID``, 2.5 and later), a string in torch.
        description: ``default_pg`` or what the program called it.
        rank: rank within the group, which is not the global rank.
    """

    pg_id: int | None = None
    guid: str | None = None
    description: str | None = None
    rank: int | None = None


class Work(msgspec.Struct, frozen=True):
    """One collective or point-to-point operation as ``WorkNCCL(...)`` shows it."""

    op: str
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    shape: tuple[int, ...] | None = None
    timeout_ms: int | None = None


# --- torch.distributed: watchdogs, stores, other back ends -----------------------------------


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


# --- devices -----------------------------------------------------------------------------------


class CudaError(Fact, frozen=True, kw_only=True):
    """A CUDA error's text.

    Attributes:
        name: canonical name without the prefix: ``IllegalAddress``, ``Assert``,
            ``EccUncorrectable``,
            ``LaunchFailure``, ``MisalignedAddress``, ``NvlinkUncorrectable``, ``OutOfMemory``,
            ``NotReady802`` …
        text: as written.
        through: ``watchdog`` (a group's watchdog met it), ``python`` or ``nccl``.
        group: the group whose watchdog met it.
        frames: Python frames ``(function, file, line)``, outermost first, where one was given.
        blocking: whether launches were blocking (the frame can then be believed).
    """

    name: str
    text: str
    through: str = "python"
    group: GroupTag = GroupTag()
    frames: tuple[tuple[str, str, int], ...] = ()
    blocking: bool = False


class DeviceAssert(Fact, frozen=True, kw_only=True):
    """A kernel's own assertion failed (printed once for each thread; one fact)."""

    file: str
    expression: str


class CudaOutOfMemory(Fact, frozen=True, kw_only=True):
    """Device memory ran out. Sizes in MiB.

    Attributes:
        others: memory of other processes on that device: ``(pid or None, MiB)``.
    """

    device: int | None = None
    wanted: float | None = None
    total: float | None = None
    free: float | None = None
    allocated: float | None = None
    others: tuple[tuple[int | None, float], ...] = ()


class DriverEvent(Fact, frozen=True, kw_only=True):
    """An Xid or SXid line of the kernel, or an NVML/driver complaint.

    Attributes:
        code: Xid number.
        kind: ``xid``, ``sxid``, ``driver``.
        pci: PCI bus id.
        what: of a complaint without a number: ``lost``, ``reset-needed``, ``no-handle``,
            ``init-failed``, ``version-mismatch``, ``nvml``.
    """

    kind: str
    code: int | None = None
    pci: str | None = None
    what: str | None = None


# --- NCCL ----------------------------------------------------------------------------------------


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
            ``nvls``, ``other``.
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


# --- processes and their ends ------------------------------------------------------------------


class Frame(msgspec.Struct, frozen=True):
    """One Python or native frame."""

    function: str
    file: str
    line: int | None = None
    native: bool = False


class PythonException(Fact, frozen=True, kw_only=True):
    """A Python traceback that ended in an exception.

    Attributes:
        type: exception class as written, dotted.
        message: first lines of its message, at most 2000 characters.
        frames: outermost first.
        notes: ``chained`` causes' types, innermost first.
        frames_from: what printed it when that is not the process itself: ``launcher``, ``ray``.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    notes: tuple[str, ...] = ()
    frames_from: str | None = None


class CutTraceback(Fact, frozen=True, kw_only=True):
    """A traceback whose last line, the exception, is not in the input: something failed.

    Attributes:
        frames: outermost first, as far as they were printed.
    """

    frames: tuple[Frame, ...] = ()


class ProcessEnd(Fact, frozen=True, kw_only=True):
    """A process ended, as a launcher, scheduler or parent reports it.

    Attributes:
        exit_code: as Python counts: negative for signals. 128+N of shells is turned into -N.
        signal: name such as ``SIGKILL``.
        rank, local_rank, pid, host: of the process that ended.
        reporter: ``torchrun``, ``deepspeed``, ``accelerate``, ``slurm``, ``ray``, ``spawn``,
            ``dataloader``, ``lightning``, ``vllm``, ``sglang``, ``shell``.
        first: the launcher's own claim that this was the first failure (not to be believed).
        moment_ended: when it ended, where the report gives it.
    """

    exit_code: int | None = None
    signal: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    reporter: str = "torchrun"
    first: bool = False
    moment_ended: Moment | None = None


class SignalSent(Fact, frozen=True, kw_only=True):
    """A launcher or operator sent a signal (``closing signal SIGTERM``).

    A consequence, unless it is the first event of the log.

    Attributes:
        target_pid: process that got it, where told.
        received: the speaker received it rather than sent it.
    """

    signal: str
    target_pid: int | None = None
    received: bool = False


class FatalSignal(Fact, frozen=True, kw_only=True):
    """faulthandler or the C library caught a fatal signal in the speaker.

    Attributes:
        what: ``Segmentation fault``, ``Aborted``, ``Bus error``, …
    """

    what: str
    frames: tuple[Frame, ...] = ()


class MemoryKill(Fact, frozen=True, kw_only=True):
    """The kernel, a cgroup, Slurm or Ray's memory monitor killed for host memory.

    Attributes:
        by: ``kernel``, ``cgroup``, ``slurm``, ``ray``, ``kubernetes``.
        pid, process: the victim.
    """

    by: str
    pid: int | None = None
    process: str | None = None


class HostMemory(Fact, frozen=True, kw_only=True):
    """A printed host memory figure, 0 to 100 percent, or GB used."""

    percent: float | None = None
    used_gb: float | None = None


class ResourceLimit(Fact, frozen=True, kw_only=True):
    """The system refused a resource.

    Attributes:
        kind: ``threads``, ``files``, ``shm``, ``memory``, ``disk``, ``semaphores``,
            ``locked-memory``.
        path: file or segment concerned.
        size: bytes wanted.
    """

    kind: str
    path: str | None = None
    size: int | None = None


class SchedulerEvent(Fact, frozen=True, kw_only=True):
    """What a scheduler did to the job.

    Attributes:
        kind: ``cancelled``, ``time-limit``, ``preempted``, ``node-failure``, ``evicted``,
            ``requeued``.
        scheduler: ``slurm``, ``kubernetes``, ``ray``, ``volcano`` …
    """

    kind: str
    scheduler: str = "slurm"
    node: str | None = None


class WorkerGroupRestart(Fact, frozen=True, kw_only=True):
    """A launcher started its workers again: what follows is another attempt."""

    attempt: int | None = None


class ResourceLeak(Fact, frozen=True, kw_only=True):
    """resource_tracker or a destructor complains at exit: a symptom, never a cause.

    Attributes:
        what: ``semaphore``, ``shared_memory``, ``process-group``.
    """

    what: str
    count: int | None = None


# --- what programs print while they work -----------------------------------------------------


class Progress(Fact, frozen=True, kw_only=True):
    """A progress bar's state (tqdm and the like). Times in seconds.

    Attributes:
        label: text before the bar.
        unit_rate: units a second, where told.
    """

    label: str = ""
    done: int | None = None
    total: int | None = None
    percent: float | None = None
    elapsed: float | None = None
    remaining: float | None = None
    unit_rate: float | None = None


class TrainingStep(Fact, frozen=True, kw_only=True):
    """A step's metrics line: ``{'loss': …}``, ``step:6 - …``, ``iteration 12/ 100``.

    Attributes:
        metrics: name to number.
    """

    step: int | None = None
    metrics: dict[str, float] = {}


class Phase(Fact, frozen=True, kw_only=True):
    """A line that tells what a program is doing.

    Attributes:
        kind: ``tokenize``, ``load-data``, ``load-model``, ``save``, ``evaluate``, ``generate``,
            ``reward``, ``weight-sync``, ``compile``, ``graph-capture``, ``init``, ``train``,
            ``end``.
        finished: whether it says that the phase ended.
        detail: name of the file, key or object concerned.
    """

    kind: str
    finished: bool = False
    detail: str = ""


class EngineLoad(Fact, frozen=True, kw_only=True):
    """An inference engine's periodic statistics.

    Attributes:
        engine: data-parallel engine number.
        running, waiting: requests.
        throughput: generated tokens a second.
    """

    engine: int | None = None
    running: int | None = None
    waiting: int | None = None
    throughput: float | None = None


class EngineNotice(Fact, frozen=True, kw_only=True):
    """An inference engine's own words about its health.

    Attributes:
        kind: ``broadcast-idle`` (shm_broadcast: no block found), ``engine-dead``,
            ``worker-died``, ``request-failed``, ``watchdog`` (SGLang's), ``rpc-timeout``.
    """

    kind: str
    detail: str = ""


class HttpExchange(Fact, frozen=True, kw_only=True):
    """One HTTP request in a server's or client's log.

    Attributes:
        status: HTTP status, ``None`` for a failure to reach the server.
        error: ``timeout``, ``refused``, ``reset``, ``proxy``.
    """

    method: str = ""
    url: str = ""
    status: int | None = None
    error: str | None = None


class Identity(Fact, frozen=True, kw_only=True):
    """A line by which software shows itself.

    Attributes:
        software: name as in ``unstall.programs``.
        role: role where the line implies one.
        version: version where the line gives it.
        settings: settings that the line prints (``tensor_parallel_size`` …), as strings.
    """

    software: str
    role: str | None = None
    version: str | None = None
    settings: dict[str, str] = {}


class PackageVersion(Fact, frozen=True, kw_only=True):
    """``torch==2.8.0`` and its other spellings."""

    name: str
    version: str


class EnvironmentValue(Fact, frozen=True, kw_only=True):
    """An environment variable's value as a log printed it."""

    name: str
    value: str


class WarningLine(Fact, frozen=True, kw_only=True):
    """A warning that matters to a cause or that users often mistake for one.

    Attributes:
        topic: ``sequence-too-long``, ``find-unused-parameters``, ``barrier-device``,
            ``omp-threads``, ``oversubscribed``, ``numa``, ``version``, ``proxy``, …
    """

    topic: str
    values: dict[str, str] = {}


class Remark(Fact, frozen=True, kw_only=True):
    """A person's note about the run: no output for 3 h, GPUs at 0 %, devices used.

    Attributes:
        topic: ``no-output``, ``gpu-idle``, ``gpu-busy``, ``devices``, ``version``,
            ``worked-before``, ``mixed-data`` (samples that use different modules), ``stuck`` (that
            it stands still, without more), ``p2p-off-works``.
        values: what was said: ``hours``, ``devices``, …
    """

    topic: str
    values: dict[str, str] = {}


# --- stacks and recorder dumps ---------------------------------------------------------------


class ThreadStack(msgspec.Struct, frozen=True):
    """One thread's stack; frames innermost first."""

    name: str
    frames: tuple[Frame, ...]
    state: str | None = None
    tid: int | None = None
    holds_gil: bool = False


class ProcessStack(Fact, frozen=True, kw_only=True):
    """A live process's stacks.

    Attributes:
        pid, command: of the process.
        threads: main thread first.
        tool: ``py-spy``, ``pystack``, ``faulthandler``, ``torch-debug``, ``gdb``.
        waits_for: what its main thread waits for: ``collective``, ``point-to-point``, ``queue``,
            ``pipe``, ``http``, ``lock``, ``store``, ``disk``, ``process``, ``sleep``, ``gpu``,
            ``computing``, ``unknown``.
        within: the frame that tells: function and file.
        parent: process id of the process that started it, where the dump told.
    """

    pid: int | None = None
    command: str | None = None
    threads: tuple[ThreadStack, ...] = ()
    tool: str = "py-spy"
    waits_for: str = "unknown"
    within: Frame | None = None
    parent: int | None = None


class RecorderDump(Fact, frozen=True, kw_only=True):
    """A Flight Recorder dump was among the inputs; the dump itself stays with ``recorder``.

    Attributes:
        rank: rank by file name.
        state: ``ok``, ``empty``, ``truncated``, ``refused``.
        key: under which ``recorder`` keeps its content.
    """

    rank: int | None = None
    state: str = "ok"
    key: str = ""


class Unreadable(Fact, frozen=True, kw_only=True):
    """Something of the input could not be read; the rest was.

    Attributes:
        reason: what was wrong, what was done about it, and what to try, in English.
        fatal: nothing at all of that source was read.
        text: the reason as a sentence that can be shown in the report's language.
    """

    reason: str
    fatal: bool = True
    text: Text | None = None


class Mention(Fact, frozen=True, kw_only=True):
    """An address that names software: the report stands in its tracker, or links to it.

    It says less than the software's own lines: a report about a trainer may link to a server's
    tracker. One fact for each software and source.
    """

    software: str
    role: str | None = None
