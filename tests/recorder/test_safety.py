"""Nothing in a dump runs, and no dump takes memory out of proportion."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.recorder import Dumps, analyse, load
from unstall.recorder.safety import DumpError, parse, walk_operations

DATA = Path(__file__).parent / "data"


def check(loaded: Dumps) -> None:
    """That every file was understood or refused on purpose, and that a verdict comes of it."""
    assert "unexpected" not in {dump.state for dump in loaded.dumps}
    analyse(loaded)


class Runs:
    """Pickles to a call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("walk", [True, False])
def test_a_pickle_that_calls_is_refused_and_says_what_it_asked_for(
    tmp_path: Path, protocol: int, walk: bool
) -> None:
    target = tmp_path / "ran"
    data = pickle.dumps({"entries": [Runs(target)]}, protocol)
    with pytest.raises(DumpError) as caught:
        parse(data, walk=walk)
    assert caught.value.state == "refused"
    assert "system" in caught.value.found
    assert not target.exists()


def test_a_refused_file_is_told_by_name_and_costs_only_itself(tmp_path: Path) -> None:
    good = (DATA / "gloo" / "hang__dump_fr_trace_rank0").read_bytes()
    bad = pickle.dumps({"entries": [Runs(tmp_path / "ran")]}, 2)
    loaded = load([("d/trace_0", good), ("d/trace_1", bad)])
    assert [dump.state for dump in loaded.dumps] == ["ok", "refused"]
    (fact,) = loaded.unread
    assert fact.place.source == "d/trace_1"
    assert "posix.system" in fact.reason
    assert analyse(loaded).suspects[0].kind == "dump-unreadable"
    assert not (tmp_path / "ran").exists()


CRAFTED = {
    "a memo number far beyond the file": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a memo number in digits": b"\x80\x02}p99999999999\n.",
    "a persistent identifier": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "a persistent identifier of protocol 0": b"\x80\x02Pabc\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a byte array of 2^60": b"\x80\x05\x96" + struct.pack("<Q", 1 << 60) + b".",
    "an out-of-band buffer": b"\x80\x05\x97.",
    "a built object": b"\x80\x02}}b.",
    "an instance": b"\x80\x02(ios\nsystem\n.",
}


@pytest.mark.parametrize("data", CRAFTED.values(), ids=CRAFTED.keys())
def test_operations_that_no_dump_needs_are_refused(data: bytes) -> None:
    with pytest.raises(DumpError) as caught:
        walk_operations(data)
    assert caught.value.state == "refused"


def test_a_text_longer_than_the_file_is_a_truncation() -> None:
    with pytest.raises(DumpError) as caught:
        parse(b"\x80\x02X\xff\xff\xff\x7fabc")
    assert caught.value.state == "truncated"


def test_lists_shared_to_the_power_of_forty_cost_nothing() -> None:
    """40 lists, each twice in the next: 2**40 leaves for whoever walks them."""
    sizes: Any = [1]
    for _ in range(40):
        sizes = [sizes, sizes]
    entry = {
        "record_id": 0, "profiling_name": "nccl:all_reduce", "process_group": ("0", "g"),
        "collective_seq_id": 1, "p2p_seq_id": 0, "is_p2p": False, "input_sizes": sizes,
        "output_sizes": sizes, "input_dtypes": sizes, "output_dtypes": sizes, "state": sizes,
        "frames": [{"name": sizes, "filename": sizes, "line": sizes}], "time_created_ns": sizes,
        "retired": False, "time_discovered_completed_ns": None,
    }  # fmt: skip
    nested: Any = ("0", "g")
    for _ in range(40):
        nested = (nested, nested)
    other = {**entry, "input_sizes": [[1]], "output_sizes": [[1]], "input_dtypes": nested,
             "output_dtypes": ["Float"], "process_group": nested}  # fmt: skip
    raw = {"version": sizes, "pg_config": {"0": sizes}, "pg_status": {"0": sizes}}
    raw["entries"] = [entry, other]
    (dump,) = load([("trace_0", pickle.dumps(raw, 2))]).dumps
    assert (dump.state, dump.entries, dump.odd) == ("ok", 2, 2)


def test_deeply_nested_input_is_refused_without_a_crash() -> None:
    assert load([("trace_0", b"[" * 100_000)]).dumps[0].state in ("refused", "truncated")
    deep = b"\x80\x02" + b"](" * 50_000 + b"e" * 50_000 + b"."
    assert load([("trace_0", deep)]).dumps[0].state in ("foreign", "idle")


@pytest.mark.parametrize("number", [1 << 62, 1 << 200, -5, 1.5, None, "x", [1]])
def test_numbers_that_no_counter_reaches_cost_their_entry(number: Any) -> None:
    raw = pickle.loads((DATA / "gloo" / "hang__dump_fr_trace_rank0").read_bytes())
    raw["entries"][3]["collective_seq_id"] = number
    raw["entries"][4]["time_created_ns"] = number
    raw["entries"][5]["input_sizes"] = [[number]]
    raw["pg_status"]["0"]["last_enqueued_collective"] = number
    (dump,) = load([("trace_0", pickle.dumps(raw, 2))], jobs=1).dumps
    assert dump.state == "ok"
    assert dump.odd <= 2
    check(load([("trace_0", pickle.dumps(raw, 2))]))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_in_no_crash(data: bytes) -> None:
    for lead in (b"", b"\x80\x02", b"\x80\x02}(X\x07\x00\x00\x00entries", b'{"entries":['):
        loaded = load([("trace_0", lead + data)])
        assert len(loaded.dumps) == 1
        check(loaded)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_real_dump_with_bytes_changed_or_cut_never_crashes(data: st.DataObject) -> None:
    names = ("hang__dump_fr_trace_rank0", "hang__dump_fr_trace_json_rank0")
    files = [*(f"gloo/{name}" for name in names), "lock_gil_1st/_dump_8"]
    name = data.draw(st.sampled_from(files))
    content = bytearray((DATA / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for version in (bytes(content), bytes(content[:cut])):
        check(load([(name, version), ("other_1", version)]))


words = st.text(max_size=5)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
TOP = ("version", "pg_config", "pg_status", "comm_lib_version")
KEYS = (
    "record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "seq_id", "is_p2p",
    "profiling_name", "time_created_ns", "time_created_us", "input_sizes", "output_sizes",
    "input_dtypes", "output_dtypes", "state", "retired", "frames", "timeout_ms", "duration_ms",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), plain), max_size=4),
    st.dictionaries(st.sampled_from(TOP), plain),
    st.booleans(),
)
def test_values_of_any_type_in_any_field_never_crash(
    changes: list[dict[str, Any]], top: dict[str, Any], replace: bool
) -> None:
    raw = pickle.loads((DATA / "gloo" / "hang__dump_fr_trace_rank0").read_bytes())
    for entry, change in zip(raw["entries"], changes, strict=False):
        if replace:
            entry.clear()
            entry["profiling_name"] = "nccl:all_reduce"
        entry.update(change)
    raw.update(top)
    check(load([("trace_0", pickle.dumps(raw, 2)), ("trace_1", pickle.dumps(raw, 4))]))
