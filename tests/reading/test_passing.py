"""Lines that are passed over say nothing: with and without it, readers get the same."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.model.facts import Fact, Phase
from unstall.reading import reading
from unstall.reading.line import Line
from unstall.reading.passing import Passing
from unstall.reading.reading import read
from unstall.reading.scanner import LONGEST, Scanner, blocks
from unstall.reading.sources import HEAD, Source
from unstall.reading.triage import Marks, Triage


class Words:
    """Takes lines with ``alarm``, and two more lines behind each ``begin:``."""

    marks: tuple[str, ...] = ("alarm", "begin:", "警报")

    def __init__(self) -> None:
        self._left = 0

    @property
    def wants_more(self) -> bool:
        return self._left > 0

    def feed(self, line: Line) -> Iterable[Fact]:
        self._left = 2 if "begin:" in line.text else max(0, self._left - 1)
        yield Phase(place=line.place, quote=line.raw, kind="train", detail=line.text)

    def finish(self) -> Iterable[Fact]:
        return ()


def told(raw: bytes, *, passing: bool) -> tuple[list[Fact], int, int]:
    """Facts, physical lines, and how many lines came out."""
    marks = Marks([Words])
    triage = Triage([Words], marks)
    scanner = Scanner(
        Source("x.log", io.BytesIO(raw)),
        passing=Passing(marks.words) if passing else None,
        waiting=lambda: not triage.idle,
    )
    facts: list[Fact] = []
    lines = 0
    for line in scanner:
        lines += 1
        facts.extend(triage.feed(line))
    return facts, scanner.lines, lines


def test_only_lines_that_count_come_out_and_keep_their_numbers() -> None:
    raw = b"dull\n" * 1000 + b"an alarm\r\n" + b"\n" * 1000 + b"begin: x\na\nb\nc\nd"
    facts, lines, came = told(raw, passing=True)
    assert [(fact.place.line, fact.quote) for fact in facts] == [
        (1001, "an alarm"), (2002, "begin: x"), (2003, "a"), (2004, "b"),
    ]  # fmt: skip
    assert lines == 2006
    assert came == 5  # the last line has no end yet


@pytest.mark.parametrize(
    "hidden",
    [
        b"al\x1b[0marm", b"al[36marm[0m", b"al\x00arm", b"al\xe2\x80\x8barm", b"begin&#39;: alarm",
        b'{"log":"an al\\u0061rm","time":"x"}', b"[al](https://example.org)arm", b"al<b></span>arm",
        b"\xef\xbb\xbfalarm", b"dull\ralarm\r", "警报：训练停了很久，请检查".encode("gb18030"),
        b"2026-11-30T10:00:00Z stdout P al\n2026-11-30T10:00:00Z stdout F arm", b"\xff alarm",
        b"text" * LONGEST + b" alarm " + b"text" * LONGEST, b"dull\\nTraceback\\nalarm",
        b"x" * LONGEST + b"al\x1b[0marm",
        b"Watchdog caught collective operation timeout:".ljust(78) + b"al\narm before timing out",
    ],
)  # fmt: skip
def test_what_comes_to_light_only_when_a_line_is_tidied(hidden: bytes) -> None:
    raw = b"dull\n" * 100 + hidden + b"\n" + b"dull\n" * 100
    with_, without = told(raw, passing=True), told(raw, passing=False)
    assert with_[:2] == without[:2]
    assert with_[2] < without[2]


_PIECES = st.sampled_from([
    "dull", "alarm", "begin:", "警报", "al", "arm", "\x1b[0m", "[36m", "\r", "\n", "\r\n", "\x00",
    "\u200b", "&lt;", "\\n", "\\", "](https://x)", "[", "<a href=x>", "</a>", "<br/>", '{"log":"',
    '{"message": "', '","time":"1"}', "stdout P ", "2026-11-30T10:00:00Z ", "stderr F ", "# --- ",
    "`torchrun --nproc_per_node 2 t.py`", "+ torchrun a.py", "[rank3]: ", "(W pid=7) ", "frame  #1",
    "Watchdog caught collective operation timeout: WorkNCCL(", "milliseconds before timing out",
    "trainer-1  | ", " ", "1: ", "\xa0", "\u2028", "[rank1]:[E1003 09:00:00.000000001 a.cpp:6] ",
])  # fmt: skip
_TEXTS = st.lists(st.sampled_from(["al", "arm"]) | _PIECES, max_size=40).map("".join)


@settings(max_examples=300, deadline=None)
@given(_TEXTS | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")), st.booleans())
def test_readers_get_the_same(text: str, eight: bool) -> None:
    raw = ("dull\n\n" + text).encode("gb18030" if eight else "utf-8", "replace")
    assert told(raw, passing=True)[:2] == told(raw, passing=False)[:2]


class _Every(Passing):
    def places(self, block: bytes) -> list[int]:
        return [at for at, byte in enumerate(block) if not at or block[at - 1] == 10 or byte == 10]


@pytest.mark.parametrize(
    "case", ["f02-grpo-rollout-server", "h03-vllm-serving", "n09-loopback-fallback-zh"]
)
def test_a_long_log_is_read_as_line_by_line(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All readers, notes and commands of real logs, from the first lines on."""
    monkeypatch.setattr(reading, "REGIONS", 300)
    folder = Path(__file__).parents[1] / "cases" / case
    paths = sorted(path for path in folder.iterdir() if path.name != "expected.json")
    fast = read(paths)
    monkeypatch.setattr(reading, "Passing", _Every)
    assert read(paths) == fast
    assert fast.facts


@pytest.mark.parametrize(
    "line",
    [
        "+ torchrun --nproc_per_node 2 a.py", "I ran `torchrun --nproc_per_node 2 a.py` there",
        "run sh: `torchrun --nproc_per_node 2 a.py`", "Command: torchrun --nproc_per_node 2 a.py",
        "+Running: torchrun --nproc_per_node 2 a.py", "# --- no output for 3 h ---",
        "#\t-- nothing for 20 minutes, all GPUs at 100% --", "[rank1]: + torchrun -m a.b",
        "x cmd = torchrun --nproc_per_node 2 a.py", "+Executing: torchrun --nproc_per_node 2 a.py",
    ],
)  # fmt: skip
def test_notes_and_commands_behind_the_first_lines(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "REGIONS", 10)
    monkeypatch.chdir(tmp_path)
    text = "dull and dull\n" * (HEAD // 10) + line + "\n" + "dull\n" * 100
    Path("x.log").write_text(text, encoding="utf-8")
    fast = read(["x.log"])
    assert fast.scripts or fast.facts
    monkeypatch.setattr(reading, "Passing", _Every)
    assert read(["x.log"]) == fast


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 50))
def test_blocks_hold_all_bytes_and_count_lines(parts: list[bytes], size: int) -> None:
    raw = b"\n".join(parts)
    found = list(blocks(raw[at : at + size] for at in range(0, len(raw), size)))
    assert b"".join(block for _, block, _ in found) == raw
    before = 0
    for number, block, whole in found:
        assert whole
        assert number == before + 1
        before += block.count(b"\n")


def test_blocks_part_long_lines() -> None:
    raw = b"a\n" + b"x" * (LONGEST + 5) + b"\n" + b"y" * LONGEST + b"\nz"
    found = [(number, len(block), whole) for number, block, whole in blocks([raw])]
    assert found == [
        (1, 2, True), (2, LONGEST, False), (2, 5, False), (3, LONGEST + 1, True), (4, 1, True),
    ]  # fmt: skip
