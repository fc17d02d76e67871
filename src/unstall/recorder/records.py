"""A dump in the compact form that is compared: columns for all entries, details for few."""

from __future__ import annotations

import msgspec

FrameTuple = tuple[str, str, int]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One recorded operation in full.

    Attributes:
        number: its place in the dump, counted from 1.
        group: index into :attr:`Dump.groups`.
        seq: collective or point-to-point sequence number within its group.
        p2p: whether ``seq`` counts point-to-point operations.
        op: operation without the back end's name, e.g. ``all_reduce``, ``send 0->1``.
        inputs, outputs: sizes of the tensors.
        input_types, output_types: their element types.
        state: ``scheduled``, ``started`` or ``completed`` as recorded.
        done: it ended, whatever ``state`` says.
        created: when it was enqueued, nanoseconds since 1970; 0 where not recorded.
        timeout_ms: its time-out; 0 where not recorded.
        frames: the user's stack ``(function, file, line)``, innermost first.
    """

    number: int
    group: int
    seq: int
    p2p: bool
    op: str
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    state: str = ""
    done: bool = False
    created: int = 0
    timeout_ms: int = 0
    frames: tuple[FrameTuple, ...] = ()


class Half(msgspec.Struct, frozen=True, array_like=True):
    """One send or receive: direction, the peer's rank in the group, number of elements."""

    sends: bool
    peer: int
    numel: int


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """What completes as one: a collective, a send or receive, or a coalesced batch.

    Attributes:
        seq, p2p: sequence number and which count it belongs to.
        op: operation; ``coalesced`` for a batch.
        number: the entry (counted from 1) that stands for it, the last one of a batch.
        signature: what all ranks must have in common; 0 where nothing is asked.
        parts: its sends and receives.
        created: nanoseconds since 1970.
    """

    seq: int
    p2p: bool
    op: str
    number: int
    signature: int
    parts: tuple[Half, ...] = ()
    created: int = 0


class Meaning(msgspec.Struct, frozen=True, array_like=True):
    """What a signature stands for.

    Attributes:
        op: operation, without back end.
        numel_in, numel_out: elements of all tensors together.
        shape: sizes as recorded, for display.
        types: element types of inputs and outputs.
        shared: that many elements every rank must have (``None``: ranks may differ).
    """

    op: str
    numel_in: int
    numel_out: int
    shape: str
    types: str
    shared: str = ""


class GroupLog(msgspec.Struct, array_like=True):
    """What one dump holds of one process group.

    Attributes:
        name: number or hash by which all ranks know the group.
        desc: description such as ``default_pg``.
        ranks: its members as the dump writes them, ``[0, 1]``; empty where the back end (gloo)
            does not say.
        pg_id: number among this process's own groups.
        enqueued, completed: last sequence numbers by the dump's ``pg_status``; ``None`` where it
            has none. torch writes whichever of both counts moved last.
        first: sequence number of the first recorded collective.
        signatures: one 64-bit signature for each collective from ``first`` on (0 for a gap).
        last: last recorded collective, -1 for none.
        last_done: last recorded collective that ended, -1 for none.
        last_p2p: last recorded point-to-point sequence number, -1 for none.
        pending: the first operations of this group that have not ended, in recorded order.
        pending_count: how many there are in all.
        sent, received: point-to-point operations recorded, by the peer's rank in the group.
        own_rank: rank in the group that this process gave itself in sends and receives.
    """

    name: str
    desc: str
    ranks: str = ""
    pg_id: int | None = None
    enqueued: int | None = None
    completed: int | None = None
    first: int = 0
    signatures: bytes = b""
    last: int = -1
    last_done: int = -1
    last_p2p: int = -1
    pending: list[Unit] = []
    pending_count: int = 0
    sent: dict[int, int] = {}
    received: dict[int, int] = {}
    own_rank: int | None = None


class Dump(msgspec.Struct, array_like=True):
    """One rank's dump, reduced.

    Attributes:
        source: name as the user gave it.
        state: ``ok``, ``idle`` (readable, but without entries), ``empty`` (no bytes),
            ``truncated``, ``refused``, ``foreign``, ``too-big``.
        found: for the last four: what was found.
        version: schema version, ``""`` for torch 2.2 which wrote none.
        backends: back ends of its operations.
        library: version of the communication library, ``""`` where not recorded.
        groups: its process groups.
        entries: how many entries it holds.
        wrapped: the ring buffer lost older entries.
        first_created, last_created: times of the oldest and newest entry (nanoseconds), 0: none.
        details: the last entries and the first unfinished ones of each group, by number.
        meanings: signatures explained.
        odd: entries that could not be understood and were left out.
        rank, sure, host, series: from the file's name (see :mod:`unstall.recorder.naming`).
        inside: the only rank that is a member of all its groups, where there is just one.
        size: bytes of the file.
        program, attempt: whose it is by the logs: a program's label, and which of several attempts,
            counted from 0; ``""`` and -1 where they do not tell.
        told: source and line that tell its rank; ``renamed`` where the file's name says another.
    """

    source: str
    state: str = "ok"
    found: str = ""
    version: str = ""
    backends: list[str] = []
    library: str = ""
    groups: list[GroupLog] = []
    entries: int = 0
    wrapped: bool = False
    first_created: int = 0
    last_created: int = 0
    details: dict[int, Entry] = {}
    meanings: dict[int, Meaning] = {}
    odd: int = 0
    rank: int | None = None
    sure: bool = False
    host: str | None = None
    series: str = ""
    inside: int | None = None
    size: int = 0
    program: str = ""
    attempt: int = -1
    told: tuple[str, int] | None = None
    renamed: bool = False

    @property
    def readable(self) -> bool:
        """Whether its content takes part in the comparison."""
        return self.state in ("ok", "idle")
