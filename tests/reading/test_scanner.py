"""From bytes to logical lines: numbers, returns, very long lines, cut lines."""

from __future__ import annotations

import io
import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.model.facts import NOBODY, Moment, Speaker
from unstall.reading.line import Line
from unstall.reading.scanner import LONGEST, Kept, Scanner, physical_lines, scan
from unstall.reading.sources import Source

E0 = "[rank0]:[E1003 09:00:00.000000001 ProcessGroupNCCL.cpp:632] [Rank 0] a."


def lines(text: str | bytes, kept: Kept | None = None) -> list[Line]:
    raw = text.encode() if isinstance(text, str) else text
    return list(scan(Source("x.log", io.BytesIO(raw)), kept))


def told(text: str | bytes) -> list[tuple[int, str]]:
    return [(line.place.line, line.text) for line in lines(text)]


def test_numbers_count_line_feeds_only() -> None:
    text = "a\r\n\n 10%|\r 20%|\rdone\nb\x0bc\u2028d\x85e\nlast"
    assert told(text) == [
        (1, "a"), (2, ""), (3, " 10%|"), (3, " 20%|"), (3, "done"), (4, "bc de"), (5, "last"),
    ]  # fmt: skip


def test_a_record_behind_a_bar_and_two_records_on_a_line() -> None:
    text = f" 7%|▋  | 3/44 [00:18<09:02,  7.94s/it]{E0}{E0.replace('rank0', 'rank1')}\n"
    found = lines(text)
    assert [line.place.line for line in found] == [1, 1, 1]
    assert [line.speaker for line in found] == [NOBODY, Speaker(rank=0), Speaker(rank=1)]
    assert found[1].text == E0[8:]
    assert found[1].raw == E0


def test_another_writers_record_keeps_only_what_holds_for_the_whole_line() -> None:
    first, second = lines(f"trainer-1  | (W pid=7) text {E0}")
    assert first.speaker == Speaker(container="trainer-1", name="W", pid=7)
    assert second.speaker == Speaker(container="trainer-1", rank=0)


def test_lines_that_a_terminal_wrapped() -> None:
    record = (
        E0 + " Some NCCL operations have failed or timed out. Due to their nature, more follows."
    )
    parts = [record[at : at + 80] for at in range(0, len(record), 80)]
    assert len(parts) == 2
    found = lines("\n".join(["start", *parts, *parts, *parts, "end"]))
    assert [line.place.line for line in found] == [1, 2, 4, 6, 8]
    assert found[1].text == record[8:]


def test_lines_that_a_container_runtime_cut() -> None:
    cut = "2026-11-30T10:00:00Z {} {} {}"
    text = "\n".join([
        cut.format("stderr", "P", "[rank1]: Run"), cut.format("stdout", "F", "other"),
        cut.format("stderr", "P", "time"), cut.format("stderr", "F", "Error: x"),
        cut.format("stderr", "P", "unfinished"),
    ])  # fmt: skip
    found = lines(text)
    assert [(line.place.line, line.text) for line in found] == [
        (2, "other"), (1, "RuntimeError: x"), (5, "unfinished"),
    ]  # fmt: skip
    assert found[1].speaker == Speaker(rank=1, stream="stderr")
    assert found[1].moment == Moment(datetime(2026, 11, 30, 10), zone=0)


def test_several_lines_in_one_object() -> None:
    text = json.dumps(
        {"time": "x", "message": "[rank1]: Traceback\n[rank1]:   File\n\x1b[31mE\x1b[0m"}
    )
    assert told(f"first\n{text}\n") == [(1, "first"), (2, "Traceback"), (2, "  File"), (2, "E")]


def test_viewer_numbers_quotes_fences_and_colours() -> None:
    text = "\n".join([
        "```text", *[f"> [{n}] \x1b[36m(W pid={n})\x1b[0m l{n}" for n in range(70, 75)], "```",
    ])  # fmt: skip
    found = lines(text.replace("> [", "["))
    assert [(line.place.line, line.text) for line in found] == [
        (n, f"l{n + 68}") for n in range(2, 7)
    ]
    assert found[0].speaker == Speaker(name="W", pid=70)
    assert found[0].raw == "[70] (W pid=70) l70"


def test_encodings() -> None:
    assert told("看门狗\n超时".encode("utf-16"))[1] == (2, "超时")
    assert told("看门狗超时了，进程退出\nok".encode("gb18030"))[0] == (1, "看门狗超时了，进程退出")
    assert told(b"\xef\xbb\xbfa\0\0b \xff") == [(1, "ab \ufffd")]


def test_a_very_long_line_is_taken_in_parts_of_one_number() -> None:
    filler = "word " * 40_000
    found = lines(f"first\n{filler}{E0}\n{E0}\n")
    assert max(len(line.text) for line in found) <= LONGEST
    assert sorted({line.place.line for line in found}) == [1, 2, 3]
    assert [line.place.line for line in found if line.speaker.rank == 0] == [2, 3]
    assert sum(len(line.text) for line in found if line.place.line == 2) >= len(filler) - 10


def test_memory_for_an_endless_line_is_bounded() -> None:
    biggest = 0

    def endless() -> object:
        for _ in range(200):
            yield b"x" * 100_000

    for number, part, whole in physical_lines(endless()):  # type: ignore[arg-type]
        assert (number, whole) == (1, False)
        biggest = max(biggest, len(part))
    assert biggest == LONGEST


def test_what_is_kept_for_regions_has_one_line_for_each_line() -> None:
    kept = Kept(1 << 20)
    text = f"> quoted\n\x1b[1mbold\x1b[0m\na\rb\n{E0}{E0}\n{'y' * 200_000}\n"
    lines(text, kept)
    assert kept.whole
    assert kept.lines[:3] == ["quoted", "bold", "b"]
    assert len(kept.lines) == 5
    small = Kept(100)
    lines("x" * 30 + "\n" + "y" * 30 + "\n", small)
    assert (small.lines, small.whole) == (["x" * 30], False)


def test_progress_is_told() -> None:
    sizes: list[int] = []
    list(Scanner(Source("x", io.BytesIO(b"a\n" * 600_000)), on_bytes=sizes.append))
    assert sum(sizes) == 1_200_000
    assert len(sizes) > 1


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes_give_bounded_lines_in_order(raw: bytes) -> None:
    found = lines(raw)
    numbers = [line.place.line for line in found]
    assert numbers == sorted(numbers)
    if not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert all(1 <= number <= raw.count(b"\n") + 1 for number in numbers)
    assert sum(len(line.text) for line in found) <= 3 * len(raw) + 3
    assert all(len(line.raw) <= 600 for line in found)
    assert not any("\x1b" in line.text or "\0" in line.text for line in found)


PIECES = st.sampled_from([
    "\n", "\r", "\r\n", " ", "a", "[rank0]:", "[E1003 09:00:00.000000001 P.cpp:6] ", "\x1b[36m",
    "Watchdog caught collective operation timeout: WorkNCCL(", "[00:18<09:02,  7.94s/it]", "> ",
    "2026-11-30T10:00:00Z stderr P ", '{"log":"', '\\n","stream":"stderr","time":"x"}', "0: ",
    "Traceback (most recent call last):\\n", "```", "(W pid=3) ", "frame #1: ", "x" * 80, "&lt;",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_any_mixture_of_forms_gives_bounded_lines(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = lines(text)
    assert all(1 <= line.place.line <= text.count("\n") + 1 for line in found)
    assert sum(len(line.text) for line in found) <= 2 * len(text) + 10


@pytest.mark.parametrize("size", [LONGEST - 1, LONGEST, LONGEST + 1, 3 * LONGEST])
def test_parts_lose_nothing(size: int) -> None:
    raw = ("é" * size).encode()[: size + 1] + b"\nnext"
    parts = list(physical_lines([raw[:1000], raw[1000:70_000], raw[70_000:]]))
    assert b"".join(part for number, part, _ in parts if number == 1) == raw[:-5]
    assert parts[-1] == (2, b"next", True)
