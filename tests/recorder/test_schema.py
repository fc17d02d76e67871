"""Every schema version reads the same; what a version lacks is not invented."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from tests.recorder.generate import Run, one_group, training
from unstall.recorder import analyse, load
from unstall.recorder.records import Dump

STAGES = ("started", "completed")
VERSIONS = ("2.2", "2.3", "2.4", "2.5", "2.8", "2.9", "json")


def as_version(dump: dict[str, Any], torch: str) -> bytes:
    """A current dump as an older torch wrote it (formats by release: FlightRecorder.hpp)."""
    dump = copy.deepcopy(dump)
    order = {version: at for at, version in enumerate(VERSIONS)}[torch]
    entries = dump["entries"]
    for entry in entries:
        if order < order_of("2.8"):
            del entry["thread_id"], entry["thread_name"]
        if order < order_of("2.5"):
            del entry["timeout_ms"]
        if order < order_of("2.4"):
            entry["seq_id"] = entry.pop("collective_seq_id")
            for key in ("p2p_seq_id", "process_group", "input_dtypes", "output_dtypes", "is_p2p"):
                del entry[key]
        if order < order_of("2.3"):
            entry["time_created_us"] = entry.pop("time_created_ns") // 1000
            for key in ("record_id", "op_id", *(f"time_discovered_{s}_ns" for s in STAGES)):
                del entry[key]
    if torch == "2.2":
        return pickle.dumps(entries, 2)
    dump["version"] = {"2.3": "1.4", "2.4": "2.1", "2.5": "2.4", "2.8": "2.9"}.get(torch, "2.10")
    if order < order_of("2.5"):
        del dump["pg_status"]
    if order < order_of("2.9"):
        library = dump.pop("comm_lib_version")
        if order == order_of("2.8"):
            dump["nccl_version"] = library
    if torch == "json":
        for entry in entries:
            del entry["frames"]
            entry["process_group"] = list(entry["process_group"])
            for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                entry[key] = entry[key] or 0
        dump["pg_status"] = {
            pg: {key: str(value) for key, value in status.items()}
            for pg, status in dump["pg_status"].items()
        }
        return json.dumps(dump).encode()
    return pickle.dumps(dump, 2)


def order_of(version: str) -> int:
    return VERSIONS.index(version)


def hung_run() -> Run:
    run = Run(one_group(4), training(one_group(4), 4))
    run.programs[2] = run.programs[2][:5]
    return run.simulate()


@pytest.mark.parametrize("torch", VERSIONS)
def test_the_absent_rank_is_found_in_every_version(torch: str) -> None:
    run = hung_run()
    files = [(f"trace_rank_{rank}", as_version(run.dump(rank), torch)) for rank in range(4)]
    loaded = load(files)
    assert loaded.unread == ()
    assert [dump.odd for dump in loaded.dumps] == [0, 0, 0, 0]
    verdict = analyse(loaded)
    assert [(s.rank, s.kind) for s in verdict.suspects] == [(2, "absent")]
    assert verdict.suspects[0].operation.seq == 6


def test_mixed_versions_are_compared_and_told() -> None:
    run = hung_run()
    kinds = ["2.4", "2.5", "2.9", "json"]
    files = [(f"r/rank_{rank}", as_version(run.dump(rank), kinds[rank])) for rank in range(4)]
    verdict = analyse(load(files))
    assert [s.rank for s in verdict.suspects] == [2]
    assert any("mix schema versions: 2.1, 2.10, 2.4" in str(note) for note in verdict.notes)


def reduced(raw: Any) -> Dump:
    (dump,) = load([("trace_0", pickle.dumps(raw, 2))]).dumps
    return dump


def test_a_group_without_entries_gets_its_status_by_order_of_creation() -> None:
    raw = hung_run().dump(0)
    raw["pg_config"] = {
        name: {"name": name, "desc": f"g{name}", "ranks": "[0, 1]"} for name in ("0", "112", "7")
    }
    raw["entries"] = []
    raw["pg_status"] = {
        str(pg): {"last_enqueued_collective": value, "last_completed_collective": value}
        for pg, value in ((0, 10), (4, 20), (9, 30))
    }
    groups = {group.name: (group.pg_id, group.enqueued) for group in reduced(raw).groups}
    assert groups == {"0": (0, 10), "7": (4, 20), "112": (9, 30)}


@pytest.mark.parametrize("odd", ["--5", "²", "٣", "", "-", "1e3", " 7"])
def test_digits_of_another_kind_are_no_numbers(odd: str) -> None:
    raw = hung_run().dump(0)
    raw["pg_status"] = {
        odd: {"last_enqueued_collective": odd},
        "0": {"last_enqueued_collective": odd},
    }
    raw["pg_config"][odd] = {"name": odd, "desc": "x", "ranks": odd}
    dump = reduced(raw)
    assert dump.state == "ok"
    assert {group.enqueued for group in dump.groups} == {None}


def test_a_coalesced_batch_ends_with_its_last_entry() -> None:
    """Members of a batch stay "scheduled" for ever, only the closing entry is marked."""
    raw = hung_run().dump(0)
    first = raw["entries"][0]
    members = [
        {**first, "profiling_name": name, "is_p2p": True, "p2p_seq_id": 1, "collective_seq_id": 0,
         "state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
        for name in ("nccl:send 0->1", "nccl:recv 0<-1")
    ]  # fmt: skip
    close = {
        **members[0],
        "profiling_name": "nccl:coalesced",
        "input_sizes": [],
        "output_sizes": [],
    }
    raw["entries"] = [*members, {**close, "state": "completed", "retired": True}]
    assert [group.pending_count for group in reduced(raw).groups] == [0]
    raw["entries"] = [*members, close]
    (group,) = reduced(raw).groups
    assert group.pending_count == 1
    assert [(half.sends, half.peer) for half in group.pending[0].parts] == [(True, 1), (False, 1)]


def test_a_dictionary_that_is_no_dump_is_foreign() -> None:
    for raw in ({"a": 1}, {"entries": [1, 2]}, [1, 2], "text", 7, {"entries": {"a": 1}}):
        assert reduced(raw).state == "foreign"
    assert reduced({"entries": []}).state == "idle"
    assert reduced([]).state == "idle"
