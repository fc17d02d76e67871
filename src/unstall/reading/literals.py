"""Many literals looked for at once, in time that does not depend on how many they are.

Aho and Corasick's automaton, as the ``ahocorasick_rs`` library has it: a hundred times as fast as
an alternation of :mod:`re` where hundreds of literals are looked for in plain text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick, Implementation


class Literals:
    """Literals that are looked for in texts.

    Args:
        words: the literals, none of them empty; they are known by their position here.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._find = AhoCorasick(words).find_matches_as_indexes

    def found(self, text: str) -> set[int]:
        """Positions of the literals that stand in the text, those within others included."""
        return {at for at, _, _ in self._find(text, overlapping=True)}


class ByteLiterals:
    """Literals that are looked for in blocks of UTF-8."""

    def __init__(self, words: Sequence[str]) -> None:
        self._find = BytesAhoCorasick(
            [word.encode() for word in words], implementation=Implementation.DFA
        ).find_matches_as_indexes

    def places(self, block: bytes) -> list[int]:
        """Where literals begin, rising; of those that overlap each other at least one."""
        return [start for _, start, _ in self._find(block)]
