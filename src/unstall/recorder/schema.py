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
from collections.abc import Callable, Iterable
from functools import partial
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
from unstall.recorder.scan import COLUMNS, Scan, UnscannableError
from unstall.recorder.signatures import P2P_NAME, Batch, Signature
from unstall.recorder.status import rank_inside, read_config, read_status

MAX_ENTRIES = 1_000_000
_MAX_TENSORS = 8192
_MAX_DIMENSIONS = 65_536
_KEPT_LAST = 8
_KEPT_PENDING = 16
_PENDING_DETAILS = 3
_MAX_SIGNATURES = 100_000
_MAX_PARTS = 1024
_little = partial(int.from_bytes, byteorder="little")


class _Log:
    """A group while its entries are read."""

    __slots__ = ("desc", "name", "own_rank", "pg_id", "received", "sent", "units")

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
    entries = raw.get("entries") or []
    if not isinstance(entries, list) or (entries and not _is_entry(entries[0])):
        raise DumpError("foreign", "entries that are no recorded operations")
    reader = _Reader(Dump(source, size=size, entries=len(entries)))
    skipped = max(0, len(entries) - MAX_ENTRIES)
    for number, entry in enumerate(entries[skipped:], skipped + 1):
        reader.add(entry, number)
    return reader.finish(raw, lambda number: entries[number - 1], skipped)


def reduce_scan(scan: Scan, source: str, size: int) -> Dump:
    """The same of a dump that was read the short way.

    Raises:
        UnscannableError: something in it needs the long way after all.
    """
    reader = _Reader(Dump(source, size=size, entries=scan.count))
    try:
        for number, piece in scan.pieces:
            if isinstance(piece, dict):
                reader.add(piece, number)
            else:
                reader.add_rows(scan, piece, number)
    except (KeyError, TypeError, ValueError, IndexError):
        raise UnscannableError from None
    return reader.finish(scan.top, scan.entry, 0)


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


class _Filled(dict[Any, Any]):
    """A dictionary that makes the value of a key when it is first asked for."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self._make(key)
        return value


class _Reader:
    """Takes a dump's entries one after the other."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.logs: dict[str, list[_Log]] = {}
        self.signatures: dict[bytes, Signature] = {}

    def add(self, entry: Any, number: int) -> None:
        """Take one entry; what is paid here is paid two thousand times a rank."""
        dump = self.dump
        try:
            try:
                values = _FIELDS(entry)
            except KeyError:
                values = _other_fields(entry)
            (name, inputs, outputs, kinds_in, kinds_out, pair, p2p, seq, p2p_seq, state, retired,
             ended, created) = values  # fmt: skip
            signature = self._signature(name, inputs, outputs, kinds_in, kinds_out)
            log = self._log(pair, entry.get("pg_id"))
            if p2p:
                seq = p2p_seq
            if type(seq) is not int or not -1 <= seq < NUMBER_LIMIT:
                seq = whole(seq)
                if seq < -1:
                    raise ValueError
            if type(created) is not int or not 0 <= created < NUMBER_LIMIT:
                created = created_of(entry)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            dump.odd += 1
            return
        dump.last_created = created or dump.last_created
        dump.first_created = dump.first_created or created
        done = state == "completed" or bool(retired) or bool(ended)
        if signature.special:
            _note_special(log, signature, seq, done, number, bool(p2p), created)
        else:
            log.units.append((seq, signature, done, number, p2p, created))

    def _signature(
        self, name: Any, inputs: Any, outputs: Any, kinds_in: Any, kinds_out: Any
    ) -> Signature:
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
        key = marshal.dumps((name, inputs, outputs, kind_in, kind_out), 2)
        signature = self.signatures.get(key)
        if signature is None:
            signature = _new_signature(self.dump, name, inputs, outputs, (kind_in, kind_out))
            if len(self.signatures) < _MAX_SIGNATURES:
                self.signatures[key] = signature
        return signature

    def _log(self, pair: Any, pg_id: Any) -> _Log:
        name = pair[0]
        if type(name) is not str:
            raise ValueError
        for log in self.logs.get(name, ()):
            if log.desc == pair[1]:
                return log
        return _new_log(self.logs, pair, pg_id)

    def add_rows(self, scan: Scan, rows: list[tuple[bytes, ...]], number: int) -> None:
        """Take many entries as the scanner cut them, a column at a time."""
        table = scan.columns(rows)
        names, tensors, pairs, exchanges, seqs, p2p_seqs = (table[name] for name in COLUMNS)

        def signature_of(kind: tuple[bytes, bytes]) -> Signature:
            (name,) = scan.machine.values(kind[0])
            inputs, _, kinds_in, _, outputs, _, kinds_out = scan.machine.values(kind[1])
            return self._signature(name, inputs, outputs, kinds_in, kinds_out)

        def log_of(pair: bytes) -> _Log:
            first = scan.entry(number + pairs.index(pair))
            return self._log(first["process_group"], first.get("pg_id"))

        kinds, logs = _Filled(signature_of), _Filled(log_of)
        found = list(map(kinds.__getitem__, zip(names, tensors, strict=True)))
        places = list(map(logs.__getitem__, pairs))
        numbers = [value >> 8 for value in map(_little, seqs)]
        if b"\x88" in exchanges:
            others = [value >> 8 for value in map(_little, p2p_seqs)]
            numbers = [
                other if p2p == b"\x88" else mine
                for p2p, mine, other in zip(exchanges, numbers, others, strict=True)
            ]
        times: Iterable[int] = itertools.repeat(0)  # of ended operations nobody asks it
        if not scan.done:
            times = [value >> 16 for value in map(_little, table["time_created_ns"])]
            if max(times) >= NUMBER_LIMIT:
                raise ValueError
        dones = itertools.repeat(scan.done)
        p2ps = [exchange == b"\x88" for exchange in exchanges]
        units = zip(numbers, found, dones, itertools.count(number), p2ps, times)
        if any(kind.special for kind in kinds.values()):
            for log, unit in zip(places, units, strict=True):
                seq, signature, done, at, p2p, time = unit
                if signature.special:
                    _note_special(log, signature, seq, done, at, p2p, time)
                else:
                    log.units.append(unit)
        else:
            for log, unit in zip(places, units, strict=True):
                log.units.append(unit)

    def finish(self, top: dict[Any, Any], entry_at: Callable[[int], Any], skipped: int) -> Dump:
        """The dump, once all entries were taken.

        Args:
            top: the dump's top level.
            entry_at: gives an entry by its number.
            skipped: so many oldest entries were left out.
        """
        dump = self.dump
        if not {"entries", "pg_config", "pg_status"} & top.keys():
            raise DumpError("foreign", "no entries of a Flight Recorder dump")
        dump.version = text_of(top.get("version"))
        dump.library = text_of(top.get("comm_lib_version") or top.get("nccl_version"))
        dump.wrapped = skipped > 0
        if dump.entries and isinstance(first := entry_at(1), dict):
            dump.wrapped |= whole(first.get("record_id"), 0) > 0
        details = set(range(max(skipped, dump.entries - _KEPT_LAST) + 1, dump.entries + 1))
        for log in (log for named in self.logs.values() for log in named):
            group = _finish(dump, log)
            details.update(unit.number for unit in group.pending[:_PENDING_DETAILS])
            dump.groups.append(group)
        index = {(group.name, group.desc): at for at, group in enumerate(dump.groups)}
        for number in sorted(details):
            entry = read_entry(entry_at(number), number, index)
            if entry is not None:
                dump.details[number] = entry
                dump.last_created = entry.created or dump.last_created
        read_config(dump, top.get("pg_config"))
        read_status(dump, top.get("pg_status"))
        dump.inside = rank_inside(dump)
        dump.state = "ok" if dump.entries else "idle"
        return dump


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


def _new_log(logs: dict[str, list[_Log]], pair: Any, number: Any) -> _Log:
    name, desc = pair[0], pair[1]
    if type(desc) is not str or len(logs) >= MAX_GROUPS or len(name) + len(desc) > 2 * MAX_TEXT:
        raise ValueError
    pg_id = whole(number)
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
    for signature in dict.fromkeys(kinds):
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
