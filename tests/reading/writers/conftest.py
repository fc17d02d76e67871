"""A stand-in for the scanner: offers a reader only what the protocol says it gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from unstall.model.facts import Fact, Place, Speaker
from unstall.reading.line import Line, Reader

SAMPLES = Path(__file__).parent / "samples"
_RANK = re.compile(r"^\[rank(\d+)\]:\s?")
_TEE = re.compile(r"^\[(?:default|trainer)(\d+)\]:\s?")
_NAMED = re.compile(r"^\((\w+)(?: rank=(\d+))? pid=(\d+)(?:, ip=([\w.]+))?\) ")


def lines_of(text: str, source: str = "log") -> list[Line]:
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        rank = local = pid = name = host = None
        rest = raw
        if found := _TEE.match(rest):
            local, rest = int(found[1]), rest[found.end() :]
        if found := _NAMED.match(rest):
            name, pid, host = found[1], int(found[3]), found[4]
            rank = int(found[2]) if found[2] else None
            rest = rest[found.end() :]
        if found := _RANK.match(rest):
            rank, rest = int(found[1]), rest[found.end() :]
        speaker = Speaker(rank=rank, local_rank=local, pid=pid, name=name, host=host)
        lines.append(
            Line(place=Place(source, number), text=rest[:65536], raw=raw[:600], speaker=speaker)
        )
    return lines


def facts_of(reader: type[Reader], text: str) -> list[Fact]:
    one = reader()
    facts: list[Fact] = []
    for line in lines_of(text):
        if one.wants_more or any(mark in line.text for mark in one.marks):
            facts += one.feed(line)
    return [*facts, *one.finish()]


@pytest.fixture
def read() -> Callable[[type[Reader], str], list[Fact]]:
    """Facts that a reader makes of a text, in the order it gives them."""
    return facts_of


@pytest.fixture
def sample() -> Callable[[str], str]:
    """Text of a file under ``samples``."""
    return lambda name: (SAMPLES / name).read_text(encoding="utf-8", errors="replace")
