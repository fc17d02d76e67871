"""Many literals at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.literals import ByteLiterals, Literals

WORDS = ["ab", "abc", "bc", "é训", "训"]
_TEXT = st.text(alphabet="abcé训 ", max_size=40)


def test_literals_within_others_are_found_too() -> None:
    assert Literals(WORDS).found("xabcx") == {0, 1, 2}
    assert Literals([]).found("abc") == set()


@given(_TEXT)
def test_found_is_what_stands_in_the_text(text: str) -> None:
    assert Literals(WORDS).found(text) == {at for at, word in enumerate(WORDS) if word in text}


@given(_TEXT)
def test_places_rise_and_lie_on_literals(text: str) -> None:
    raw = text.encode()
    places = ByteLiterals(WORDS).places(raw)
    assert places == sorted(places)
    assert all(raw.startswith(tuple(word.encode() for word in WORDS), at) for at in places)
    assert bool(places) == any(word in text for word in WORDS)
