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
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any

from unstall.recorder.alike import Alike, Known
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
from unstall.recorder.logs import (
    PENDING_DETAILS,
    Block,
    Log,
    LoggedUnit,
    finish_log,
    note_special,
)
from unstall.recorder.records import Dump
from unstall.recorder.safety import DumpError
from unstall.recorder.scan import COLUMNS, Scan, UnscannableError
from unstall.recorder.signatures import P2P_NAME, Signature
from unstall.recorder.status import rank_inside, read_config, read_status

MAX_ENTRIES = 1_000_000
_MAX_TENSORS = 8192
_MAX_DIMENSIONS = 65_536
_KEPT_LAST = 8
_MAX_SIGNATURES = 100_000
_little = partial(int.from_bytes, byteorder="little")


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
    return reader.finish(raw, lambda some: {at: entries[at - 1] for at in some}, skipped)


def reduce_scan(scan: Scan, source: str, size: int, known: Known | None = None) -> Dump:
    """The same of a dump that was read the short way.

    Args:
        scan: the dump.
        source: its name.
        size: its bytes.
        known: what was seen in the dumps before, the same that the scan had.

    Raises:
        UnscannableError: something in it needs the long way after all.
    """
    reader = _Reader(Dump(source, size=size, entries=scan.count), known)
    try:
        for number, piece in scan.pieces:
            if isinstance(piece, dict):
                reader.add(piece, number)
            elif isinstance(piece, Alike):
                reader.add_alike(scan, piece, number)
            else:
                reader.add_rows(scan, piece, number)
    except (KeyError, TypeError, ValueError, IndexError):
        raise UnscannableError from None
    return reader.finish(scan.top, scan.entries, 0)


def as_dictionary(raw: Any) -> dict[Any, Any]:
    """A dump's top level; torch 2.2 wrote the bare list of entries."""
    if isinstance(raw, list):
        return {"entries": raw}
    if not isinstance(raw, dict):
        raise DumpError("foreign", f"a value of type {type(raw).__name__}")
    return raw


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and ("profiling_name" in value or "record_id" in value)


#: Entries sorted once for several dumps: kinds as cut out, and by group: as cut out, its number
#: among the process's groups, its entries.
_Blocks = tuple[dict[tuple[bytes, bytes], Signature], list[tuple[bytes, Any, Block]]]

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

    def __init__(self, dump: Dump, known: Known | None = None) -> None:
        self.dump = dump
        self.known = known
        self.logs: dict[str, list[Log]] = {}
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
            note_special(log, signature, seq, done, number, bool(p2p), created)
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
            signature = self._new_signature(key, name, inputs, outputs, (kind_in, kind_out))
            if len(self.signatures) < _MAX_SIGNATURES:
                self.signatures[key] = signature
        return signature

    def _log(self, pair: Any, pg_id: Any) -> Log:
        name = pair[0]
        if type(name) is not str:
            raise ValueError
        for log in self.logs.get(name, ()):
            if log.desc == pair[1]:
                return log
        return _new_log(self.logs, pair, pg_id)

    def _new_signature(
        self, key: bytes, name: str, inputs: Any, outputs: Any, kinds: tuple[str, str]
    ) -> Signature:
        """The signature of a kind of operation that is new in this dump."""
        dump, signature = self.dump, None
        if self.known is not None:
            signature = self.known.signatures.get(key)
        if signature is None:
            if len(name) > MAX_TEXT or len(kinds[0]) + len(kinds[1]) > 2 * MAX_TEXT:
                raise ValueError
            signature = Signature(name.rpartition(":")[2], inputs, outputs, kinds)
            if self.known is not None:
                self.known.remember(key, signature)
        backend = name.rpartition(":")[0]
        if backend and backend not in dump.backends and len(dump.backends) < 8:
            dump.backends.append(backend)
        return signature

    def add_rows(self, scan: Scan, rows: list[tuple[bytes, ...]], number: int) -> None:
        """Take many entries as the scanner cut them, a column at a time."""
        table = scan.columns(rows)
        names, tensors, pairs, exchanges, seqs, p2p_seqs = (table[name] for name in COLUMNS)

        def log_of(pair: bytes) -> Log:
            return self._log_at(scan, number + pairs.index(pair))

        kinds: _Filled = _Filled(partial(self._signature_of, scan))
        logs = _Filled(log_of)
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
                    note_special(log, signature, seq, done, at, p2p, time)
                else:
                    log.units.append(unit)
        else:
            for log, unit in zip(places, units, strict=True):
                log.units.append(unit)

    def _signature_of(self, scan: Scan, kind: tuple[bytes, bytes]) -> Signature:
        """The signature of a name and tensors as the scanner cut them."""
        (name,) = scan.machine.values(kind[0])
        inputs, _, kinds_in, _, outputs, _, kinds_out = scan.machine.values(kind[1])
        return self._signature(name, inputs, outputs, kinds_in, kinds_out)

    def _log_at(self, scan: Scan, number: int) -> Log:
        """The group of an entry."""
        return self._log(*scan.group_at(number))

    def add_alike(self, scan: Scan, alike: Alike, number: int) -> None:
        """Take entries that are those of a dump read before, sorted once for all such dumps.

        The bytes are the same; what they stand for is looked up in this dump, once for each kind of
        operation and each group.
        """
        place = (number, alike.count)
        blocks = alike.reference.blocks
        if place not in blocks:
            blocks[place] = self._blocks(scan, alike, number)
        if not self._take(scan, blocks[place]):
            self.add_rows(scan, alike.reference.rows[: alike.count], number)

    def _take(self, scan: Scan, blocks: _Blocks | None) -> bool:
        """Take entries sorted before; ``False``, and nothing is taken, where they do not fit."""
        if blocks is None:
            return False
        kinds, groups = blocks
        for cut, signature in kinds.items():
            if self._signature_of(scan, cut) is not signature:
                return False
        logs = [self._log(scan.machine.values(pair)[0], pg_id) for pair, pg_id, _ in groups]
        if len({id(log) for log in logs}) < len(logs) or any(log.block for log in logs):
            return False
        for log, (_, _, block) in zip(logs, groups, strict=True):
            log.block, log.before = block, len(log.units)
        return True

    def _blocks(self, scan: Scan, alike: Alike, number: int) -> _Blocks | None:
        """Entries sorted by group; ``None`` where they hold sends, receives or batches."""
        table = scan.columns(alike.reference.rows[: alike.count])
        names, tensors, pairs, exchanges, seqs, _ = (table[name] for name in COLUMNS)
        kinds: dict[tuple[bytes, bytes], Signature] = {}
        sorted_units: dict[bytes, list[LoggedUnit]] = {}
        for at, (cut, pair, seq) in enumerate(
            zip(zip(names, tensors, strict=True), pairs, seqs, strict=True), number
        ):
            signature = kinds.get(cut)
            if signature is None:
                signature = kinds[cut] = self._signature_of(scan, cut)
            unit = (_little(seq) >> 8, signature, True, at, False, 0)
            sorted_units.setdefault(pair, []).append(unit)
        if b"\x88" in exchanges or any(kind.special for kind in kinds.values()):
            return None
        groups = [
            (pair, scan.group_at(units[0][3])[1], Block(units))
            for pair, units in sorted_units.items()
        ]
        return kinds, groups

    def finish(
        self,
        top: dict[Any, Any],
        entries_at: Callable[[Iterable[int]], dict[int, Any]],
        skipped: int,
    ) -> Dump:
        """The dump, once all entries were taken.

        Args:
            top: the dump's top level.
            entries_at: gives entries by their numbers.
            skipped: so many oldest entries were left out.
        """
        dump = self.dump
        if not {"entries", "pg_config", "pg_status"} & top.keys():
            raise DumpError("foreign", "no entries of a Flight Recorder dump")
        dump.version = text_of(top.get("version"))
        dump.library = text_of(top.get("comm_lib_version") or top.get("nccl_version"))
        dump.wrapped = skipped > 0
        details = set(range(max(skipped, dump.entries - _KEPT_LAST) + 1, dump.entries + 1))
        for log in (log for named in self.logs.values() for log in named):
            group = finish_log(dump, log)
            details.update(unit.number for unit in group.pending[:PENDING_DETAILS])
            dump.groups.append(group)
        index = {(group.name, group.desc): at for at, group in enumerate(dump.groups)}
        full = entries_at({*details, 1} if dump.entries else ())
        if isinstance(first := full.get(1), dict):
            dump.wrapped |= whole(first.get("record_id"), 0) > 0
        for number in sorted(details):
            entry = read_entry(full[number], number, index)
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


def _new_log(logs: dict[str, list[Log]], pair: Any, number: Any) -> Log:
    name, desc = pair[0], pair[1]
    if type(desc) is not str or len(logs) >= MAX_GROUPS or len(name) + len(desc) > 2 * MAX_TEXT:
        raise ValueError
    pg_id = whole(number)
    log = Log(name, desc, None if pg_id == ABSENT else pg_id)
    named = logs.setdefault(name, [])
    if len(named) >= 64:
        raise ValueError
    named.append(log)
    return log


def _kinds(kinds: Any) -> str:
    if isinstance(kinds, str):
        return kinds
    if len(kinds) > _MAX_TENSORS or any(type(kind) is not str for kind in kinds):
        raise ValueError
    return ",".join(sorted({kind[:40] for kind in kinds}))
