from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.guard.output import Kept, Stream


def carried(folder: Path, data: bytes, target: int | None = None) -> tuple[Stream, Kept]:
    log = Kept(folder)
    stream = Stream(target, log, threading.Lock())
    writer = os.dup(stream.write_end)
    stream.started()
    os.write(writer, data)
    os.close(writer)
    stream.settle(10)
    return stream, log


def test_all_of_it_goes_on_and_whole_lines_are_kept(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    stream, log = carried(tmp_path, b"one\ntwo \xff\nthr", writer)
    os.close(writer)
    assert os.read(reader, 100) == b"one\ntwo \xff\nthr"
    os.close(reader)
    assert stream.news() == (["one", "two \ufffd"], "thr")
    assert stream.news() == ([], "thr")
    log.whole(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo \xff\n"
    stream.flush()
    log.whole(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo \xff\nthr\n"
    log.close()
    assert [one.name for one in tmp_path.iterdir()] == ["log"]


def test_a_reader_that_has_gone_does_not_end_the_job(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream, log = carried(tmp_path, b"one\ntwo\n", writer)
    os.close(writer)
    assert stream.news()[0] == ["one", "two"]
    log.close()


def test_a_reader_that_does_not_read_is_known_and_waited_for(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    log = Kept(tmp_path)
    stream = Stream(writer, log, threading.Lock())
    source = os.dup(stream.write_end)
    stream.started()
    data = b"x" * 99 + b"\n"

    def feed() -> None:
        for _ in range(3000):
            os.write(source, data)
        os.close(source)

    feeder = threading.Thread(target=feed)
    feeder.start()
    end = time.monotonic() + 20
    while stream.blocked < 0.3 and time.monotonic() < end:
        time.sleep(0.05)
    assert stream.blocked >= 0.3
    assert stream.news()[0]  # what was printed is heard all the same
    taken = 0

    def take() -> None:
        nonlocal taken
        while piece := os.read(reader, 1 << 16):
            taken += len(piece)
            time.sleep(0.05)

    slow = threading.Thread(target=take)
    slow.start()
    stream.settle(2.0)
    os.close(writer)
    feeder.join()
    slow.join()
    os.close(reader)
    log.close()
    assert taken == 300_000


def test_a_flood_costs_bounded_memory_and_its_latest_lines_are_heard(tmp_path: Path) -> None:
    log = Kept(tmp_path)
    stream = Stream(None, log, threading.Lock())
    writer = os.dup(stream.write_end)
    stream.started()
    with os.fdopen(writer, "wb") as file:
        for number in range(300_000):
            file.write(b"step %d\n" % number)
    stream.settle(20)
    lines, _ = stream.news()
    assert lines == [f"step {number}" for number in range(298_000, 300_000)]
    log.whole(tmp_path / "log")
    assert (tmp_path / "log").read_bytes().count(b"\n") == 300_000
    log.close()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_long_log_keeps_its_beginning_and_its_end(tmp_path: Path, size: int) -> None:
    lines = [b"%06d" % number + b"x" * size + b"\n" for number in range(2000)]
    log = Kept(tmp_path, head=1000, tail=2000)
    for line in lines:
        log.add(line)
    log.whole(tmp_path / "log")
    log.close()
    kept = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    marker = next(n for n, line in enumerate(kept) if line.startswith(b"[unstall: "))
    head, tail = kept[:marker], kept[marker + 1 :]
    assert head == lines[: len(head)]
    assert tail == lines[-len(tail) :]
    assert 900 < sum(map(len, head)) <= 1000
    assert sum(map(len, tail)) + size + 7 >= 2000
    assert sum(map(len, tail)) <= 4000
    told = int(kept[marker].split()[1])
    assert told == sum(map(len, lines)) - sum(map(len, head)) - sum(map(len, tail))


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 200), st.integers(1, 200))
def test_nothing_is_lost_within_the_bounds(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], head: int, tail: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = Kept(folder, head, tail)
    for piece in pieces:
        log.add(piece)
    log.whole(folder / "whole")
    log.close()
    whole = (folder / "whole").read_bytes()
    everything = b"".join(pieces)
    if not log.left_out:
        assert whole == everything
    else:
        assert len(whole) < len(everything) + 60
    assert log.left_out <= len(everything)
