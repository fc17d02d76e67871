"""The short way through a pickle gives what the long way gives, or nothing."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder.generate import Op, Run, grid, training
from unstall.recorder.safety import DumpError, parse
from unstall.recorder.scan import Scan, UnscannableError
from unstall.recorder.schema import reduce_dump, reduce_scan

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]
REAL = [p for p in sorted(DATA.glob("*/*")) if p.read_bytes()[:1] == b"\x80"]


def torch_form() -> Any:
    """The benchmark's pickler, which writes as torch's C++ does."""
    path = ROOT / "benchmarks" / "recorder" / "generate.py"
    spec = importlib.util.spec_from_file_location("recorder_benchmark_generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pickled


pickled = torch_form()


def both(data: bytes) -> tuple[Any, Any]:
    long = msgspec.to_builtins(reduce_dump(parse(data), "d_0", len(data)))
    return msgspec.to_builtins(reduce_scan(Scan(data), "d_0", len(data))), long


def dumps_of_a_run() -> list[dict[str, Any]]:
    run = Run(grid(2, 2), training(grid(2, 2), 12))
    run.programs[3] = run.programs[3][:41]
    run.programs[1].insert(30, Op(0, "send", (8,), peer=0))
    return [run.simulate().dump(rank) for rank in range(4)]


@pytest.mark.parametrize("path", REAL, ids=lambda p: f"{p.parent.name}{p.name}")
def test_real_dumps_read_the_same_both_ways(path: Path) -> None:
    short, long = both(path.read_bytes())
    assert short == long


@pytest.mark.parametrize("rank", range(4))
def test_long_dumps_read_the_same_both_ways_and_mostly_by_matching(rank: int) -> None:
    dump = dumps_of_a_run()[rank]
    data = pickled(dump)
    assert pickle.loads(data) == dump
    short, long = both(data)
    assert short == long
    pieces = Scan(data).pieces
    matched = sum(len(rows) for _, rows in pieces if isinstance(rows, list))
    assert matched > len(dump["entries"]) // 2


def test_python_s_own_form_is_left_to_the_unpickler() -> None:
    with pytest.raises(UnscannableError):
        Scan(pickle.dumps(dumps_of_a_run()[0], 2))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02}(",
        b"\x80\x02}(u.",
        b"\x80\x02cos\nsystem\n.",
        b"{}",
        b"\x80\x02}(X\xff\xff\xff\xff",
    ],
)
def test_anything_else_is_left_to_the_unpickler(data: bytes) -> None:
    with pytest.raises(UnscannableError):
        Scan(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_changed_bytes_read_the_same_both_ways_or_only_the_long_way(data: st.DataObject) -> None:
    content = bytearray(pickled(dumps_of_a_run()[data.draw(st.integers(0, 3))]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        short = msgspec.to_builtins(reduce_scan(Scan(bytes(content)), "d_0", len(content)))
    except (UnscannableError, DumpError):
        return
    try:
        long = msgspec.to_builtins(reduce_dump(parse(bytes(content)), "d_0", len(content)))
    except DumpError:
        return  # e.g. a text that is no UTF-8: refused there, harmless here
    assert short == long
