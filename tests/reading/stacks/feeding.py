"""Gives text to the readers as the scanner does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unstall.model.facts import NOBODY, Fact, Place, ProcessStack, Speaker
from unstall.reading.line import Line, Reader
from unstall.reading.stacks import STACK_READERS

SAMPLES = Path(__file__).parent / "samples"


def feed(
    lines: Iterable[tuple[str, Speaker]], readers: Iterable[Reader] | None = None
) -> list[Fact]:
    chosen = list(readers) if readers is not None else [reader() for reader in STACK_READERS]
    found: list[Fact] = []
    for number, (text, speaker) in enumerate(lines, 1):
        line = Line(Place("dump.txt", number), text, text, speaker)
        for reader in chosen:
            if reader.wants_more or any(mark in text for mark in reader.marks):
                found.extend(reader.feed(line))
    for reader in chosen:
        found.extend(reader.finish())
    return found


def read(text: str) -> list[Fact]:
    return feed((line, NOBODY) for line in text.split("\n"))


def stacks(text: str) -> list[ProcessStack]:
    return [fact for fact in read(text) if isinstance(fact, ProcessStack)]


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")
