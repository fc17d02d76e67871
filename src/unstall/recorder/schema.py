"""Every schema of Flight Recorder dumps, reduced to :class:`~unstall.recorder.records.Dump`.

Schemas (PyTorch, torch/csrc/distributed/c10d/FlightRecorder.hpp and NCCLUtils.hpp by release):

* torch 2.2: a bare list of entries; ``seq_id``, ``time_created_us``, no group names;
* 2.3, version 1.4: a dictionary with ``pg_config``; ``seq_id``;
* 2.4, 2.1: ``collective_seq_id`` and ``p2p_seq_id``, ``process_group``, element types;
* 2.5, 2.4: ``timeout_ms``, ``pg_status``, JSON;
* 2.8, 2.9: thread names, ``nccl_version``;
* 2.9 and later, 2.10: ``comm_lib_version``; gloo dumps leave ``pg_config`` without names.

Nothing depends on the version's number: a field is used where it is found, so that mixed and later
versions work. Every size is bounded, for a crafted file may share one list a million times.
"""

from __future__ import annotations

import itertools
import marshal
from array import array
from operator import itemgetter
from typing import Any

from unstall.recorder.fields import (
    ABSENT,
    MAX_GROUPS,
    MAX_TEXT,
    NUMBER_LIMIT,
    created_of,
    read_entry,
    text_of,
    whole,
)
from unstall.recorder.records import Dump, GroupLog, Unit
from unstall.recorder.safety import DumpError
from unstall.recorder.signatures import P2P_NAME, Batch, Signature
from unstall.recorder.status import rank_inside, read_config, read_status

MAX_ENTRIES = 1_000_000
_MAX_TENSORS = 8192
_MAX_DIMENSIONS = 65_536
_KEPT_LAST = 12
_KEPT_PENDING = 16
_PENDING_DETAILS = 3
_MAX_SIGNATURES = 100_000
_MAX_PARTS = 1024


class _Log:
    """A group while its entries are read."""

    __slots__ = ("desc", "dones", "name", "own_rank", "p2p_units", "pg_id", "received", "sent",
                 "seqs", "signatures", "units")  # fmt: skip

    def __init__(self, name: str, desc: str, pg_id: int | None) -> None:
        self.name, self.desc, self.pg_id = name, desc, pg_id
        # (sequence number, signature, done, entry number, point-to-point, created)
        self.units: list[tuple[int, Any, bool, int, Any, int]] = []
        self.own_rank: int | None = None
        self.sent: dict[int, int] = {}
        self.received: dict[int, int] = {}


def reduce_dump(raw: Any, source: str, size: int = 0) -> Dump:
    """A dump's plain value in compact form.

    Args:
        raw: what :func:`unstall.recorder.safety.parse` returned.
        source: its name.
        size: its bytes.

    Raises:
        DumpError: when it is not a Flight Recorder dump.
    """
    raw = as_dictionary(raw)
    if not {"entries", "pg_config", "pg_status"} & raw.keys():
        raise DumpError("foreign", "no entries of a Flight Recorder dump")
    entries = raw.get("entries") or []
    if not isinstance(entries, list) or (entries and not _is_entry(entries[0])):
        raise DumpError("foreign", "entries that are no recorded operations")
    dump = Dump(source, version=text_of(raw.get("version")), size=size)
    dump.library = text_of(raw.get("comm_lib_version") or raw.get("nccl_version"))
    dump.entries = len(entries)
    _read_entries(dump, entries[-MAX_ENTRIES:])
    read_config(dump, raw.get("pg_config"))
    read_status(dump, raw.get("pg_status"))
    dump.inside = rank_inside(dump)
    dump.state = "ok" if entries else "idle"
    return dump


def as_dictionary(raw: Any) -> dict[Any, Any]:
    """A dump's top level; torch 2.2 wrote the bare list of entries."""
    if isinstance(raw, list):
        return {"entries": raw}
    if not isinstance(raw, dict):
        raise DumpError("foreign", f"a value of type {type(raw).__name__}")
    return raw


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and ("profiling_name" in value or "record_id" in value)


# What the loop needs of an entry, in the schema of torch 2.4 and later.
_FIELDS = itemgetter(
    "profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes",
    "process_group", "is_p2p", "collective_seq_id", "p2p_seq_id", "state", "retired",
    "time_discovered_completed_ns", "time_created_ns",
)  # fmt: skip


def _other_fields(entry: Any) -> tuple[Any, ...]:
    """The same of an entry in another schema.

    Raises:
        KeyError, TypeError, AttributeError: it is no recorded operation.
    """
    group = entry.get("process_group") or (str(whole(entry.get("pg_id"), 0)), "")
    seq = entry.get("collective_seq_id", entry.get("seq_id"))
    p2p = entry.get("is_p2p")
    if p2p is None:
        p2p = P2P_NAME.match(entry["profiling_name"].rpartition(":")[2]) is not None
    return (
        entry["profiling_name"], entry["input_sizes"], entry["output_sizes"],
        entry.get("input_dtypes", ()), entry.get("output_dtypes", ()), group, p2p, seq,
        entry.get("p2p_seq_id", seq), entry.get("state"), entry.get("retired"),
        entry.get("time_discovered_completed_ns"), created_of(entry),
    )  # fmt: skip


def _read_entries(dump: Dump, entries: list[Any]) -> None:
    """The loop over all entries; everything in it is paid for two thousand times a rank."""
    logs: dict[str, list[_Log]] = {}
    signatures: dict[bytes, Signature] = {}
    dumps, fields = marshal.dumps, _FIELDS
    odd, newest = 0, 0
    first_number = dump.entries - len(entries)
    for number, entry in enumerate(entries, first_number + 1):
        try:
            try:
                values = fields(entry)
            except KeyError:
                values = _other_fields(entry)
            (name, inputs, outputs, kinds_in, kinds_out, pair, p2p, seq, p2p_seq, state, retired,
             ended, created) = values  # fmt: skip
            # Before anything walks through them: lists of numbers, two levels deep, not large.
            # `sum` fails on whatever is not.
            if len(inputs) == 1 == len(outputs):
                sum(inputs[0]), sum(outputs[0])
            else:
                _check_many(inputs)
                _check_many(outputs)
            kind_in = kinds_in[0] if len(kinds_in) == 1 else _kinds(kinds_in)
            kind_out = kinds_out[0] if len(kinds_out) == 1 else _kinds(kinds_out)
            if not (type(name) is type(kind_in) is type(kind_out) is str):
                raise ValueError
            key = dumps((name, inputs, outputs, kind_in, kind_out), 2)
            signature = signatures.get(key)
            if signature is None:
                signature = _new_signature(dump, name, inputs, outputs, (kind_in, kind_out))
                if len(signatures) < _MAX_SIGNATURES:
                    signatures[key] = signature
            group_name = pair[0]
            if type(group_name) is not str:
                raise ValueError
            for log in logs.get(group_name, ()):
                if log.desc == pair[1]:
                    break
            else:
                log = _new_log(logs, pair, entry)
            if p2p:
                seq = p2p_seq
            if type(seq) is not int or not -1 <= seq < NUMBER_LIMIT:
                seq = whole(seq)
                if seq < -1:
                    raise ValueError
            if type(created) is not int or not 0 <= created < NUMBER_LIMIT:
                created = created_of(entry)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            odd += 1
            continue
        newest = created or newest
        done = state == "completed" or bool(retired) or bool(ended)
        if signature.special:
            _note_special(log, signature, seq, done, number, bool(p2p), created)
        else:
            log.units.append((seq, signature, done, number, p2p, created))
        if not dump.first_created:
            dump.first_created = created
    dump.last_created, dump.odd = newest, odd
    if entries and isinstance(entries[0], dict):
        dump.wrapped = first_number > 0 or whole(entries[0].get("record_id"), 0) > 0
    tail = max(first_number, dump.entries - _KEPT_LAST)
    details: set[int] = set(range(tail + 1, dump.entries + 1))
    for log in (log for named in logs.values() for log in named):
        group = _finish(dump, log)
        details.update(unit.number for unit in group.pending[:_PENDING_DETAILS])
        dump.groups.append(group)
    index = {(group.name, group.desc): at for at, group in enumerate(dump.groups)}
    for number in sorted(details):
        entry = read_entry(entries[number - first_number - 1], number, index)
        if entry is not None:
            dump.details[number] = entry


def _check_many(sizes: Any) -> None:
    """That sizes are lists of numbers and not too many of them."""
    if len(sizes) > _MAX_TENSORS or sum(map(len, sizes)) > _MAX_DIMENSIONS:
        raise ValueError
    sum(map(sum, sizes))


def _new_signature(
    dump: Dump, name: str, inputs: Any, outputs: Any, kinds: tuple[str, str]
) -> Signature:
    if len(name) > MAX_TEXT or len(kinds[0]) + len(kinds[1]) > 2 * MAX_TEXT:
        raise ValueError
    backend, _, op = name.rpartition(":")
    if backend and backend not in dump.backends and len(dump.backends) < 8:
        dump.backends.append(backend)
    return Signature(op, inputs, outputs, kinds)


def _new_log(logs: dict[str, list[_Log]], pair: Any, entry: Any) -> _Log:
    name, desc = pair[0], pair[1]
    if type(desc) is not str or len(logs) >= MAX_GROUPS or len(name) + len(desc) > 2 * MAX_TEXT:
        raise ValueError
    pg_id = whole(entry.get("pg_id"))
    log = _Log(name, desc, None if pg_id == ABSENT else pg_id)
    named = logs.setdefault(name, [])
    if len(named) >= 64:
        raise ValueError
    named.append(log)
    return log


def _note_special(
    log: _Log, signature: Signature, seq: int, done: bool, number: int, p2p: bool, created: int
) -> None:
    """A send, a receive, or the end of a batch."""
    half = signature.half
    if half is not None:
        log.own_rank = signature.own_rank
        counts = log.sent if half.sends else log.received
        counts[half.peer] = counts.get(half.peer, 0) + 1
    if signature.closes:
        _close_batch(log, seq, signature, done, number, p2p, created)
    else:
        log.units.append((seq, signature, done, number, p2p, created))


def _close_batch(
    log: _Log, seq: int, closer: Any, done: bool, number: int, p2p: bool, created: int
) -> None:
    """Join the entries of a batch to the entry that ends it.

    Within a batch torch marks only the last entry as finished (ProcessGroupNCCL::endCoalescing);
    its members stay ``scheduled`` for ever and share its sequence number.
    """
    units = log.units
    members: list[Any] = []
    while units and units[-1][0] == seq and not units[-1][1].closes and len(members) < 65_536:
        members.append(units.pop())
    if members:
        members.reverse()
        p2p = p2p or members[0][4]
        created = created or members[-1][5]
        closer = Batch(closer, [member[1] for member in members])
    units.append((seq, closer, done, number, p2p, created))


def _finish(dump: Dump, log: _Log) -> GroupLog:
    """A group's columns and its unfinished operations."""
    group = GroupLog(log.name, log.desc, pg_id=log.pg_id, own_rank=log.own_rank, pending=[])
    group.sent, group.received = log.sent, log.received
    if not log.units:  # its only entry was left out
        return group
    seqs, kinds, dones, _, exchanges, _ = zip(*log.units, strict=True)
    if any(exchanges):
        group.last_p2p = max(seq for seq, p2p in zip(seqs, exchanges, strict=True) if p2p)
        kept = [unit for unit in log.units if not unit[4]]
        seqs, kinds, dones = (tuple(unit[at] for unit in kept) for at in range(3))
    for signature in set(kinds):
        if len(dump.meanings) < 4096:
            dump.meanings.setdefault(signature.hash, signature.meaning)
    if seqs:
        group.last = max(seqs)
        ended = itertools.compress(seqs, dones)
        group.last_done = max(ended, default=-1)
        hashes = [signature.hash for signature in kinds]
        group.first, group.signatures = _column(list(seqs), hashes)
    unfinished = [unit for unit in log.units if not unit[2]]
    group.pending_count = len(unfinished)
    for seq, signature, _, number, p2p, created in unfinished[:_KEPT_PENDING]:
        parts = signature.parts[:_MAX_PARTS]
        group.pending.append(
            Unit(seq, bool(p2p), signature.op, number, signature.hash, parts, created)
        )
        dump.meanings.setdefault(signature.hash, signature.meaning)
    return group


def _column(seqs: list[int], hashes: list[int]) -> tuple[int, bytes]:
    """Signatures as one column from the first sequence number on, gaps filled with 0."""
    first, last = seqs[0], seqs[-1]
    if last - first + 1 == len(seqs) and all(map(int.__lt__, seqs, seqs[1:])):
        return first, array("Q", hashes).tobytes()
    start = max(0, len(seqs) - 1)
    while start and 0 <= seqs[start] - seqs[start - 1] <= 64:  # the newest run that only grows
        start -= 1
    first = seqs[start]
    column = array("Q", bytes(8 * (seqs[-1] - first + 1)))
    for seq, value in zip(seqs[start:], hashes[start:], strict=True):
        before = column[seq - first]
        # Several entries under one number: a batch whose end was not recorded.
        column[seq - first] = value if not before else (before * 31 + value) & ((1 << 63) - 1)
    return first, column.tobytes()


def _kinds(kinds: Any) -> str:
    if isinstance(kinds, str):
        return kinds
    if len(kinds) > _MAX_TENSORS or any(type(kind) is not str for kind in kinds):
        raise ValueError
    return ",".join(sorted({kind[:40] for kind in kinds}))
