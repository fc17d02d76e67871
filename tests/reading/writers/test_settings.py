from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.writers.settings import call_body, settings_of


def test_nesting_and_quotes():
    text = "model='/a, b', sizes=[1, 2, {3: 4}], none=None, call=F(x=1, y=2), eager=True"
    assert settings_of(text) == {
        "model": "/a, b",
        "sizes": "[1, 2, {3: 4}]",
        "none": "None",
        "call": "F(x=1, y=2)",
        "eager": "True",
    }


def test_dictionaries():
    assert settings_of("{'loss': 0.5, \"lr\": '1e-05', 'a/b': [1]}", separators=":") == {
        "loss": "0.5",
        "lr": "1e-05",
        "a/b": "[1]",
    }


def test_a_cut_list_keeps_what_is_whole():
    assert settings_of("a=1, b='cut off here") == {"a": "1", "b": "'cut off here"}


def test_the_body_of_a_call():
    assert call_body("args: Namespace(a=')', b=(1)) and more", 0) == "a=')', b=(1)"


names = st.text(string.ascii_lowercase + "_", min_size=1, max_size=20).filter(
    lambda name: name.strip("_")
)


@given(st.dictionaries(names, st.integers() | st.booleans() | st.none(), max_size=30))
def test_what_python_prints_comes_back(values):
    text = ", ".join(f"{name}={value!r}" for name, value in values.items())
    assert settings_of(text) == {name: repr(value) for name, value in values.items()}


@given(st.text(max_size=400))
def test_any_text(text):
    found = settings_of(text)
    assert all(name and len(value) <= 300 for name, value in found.items())
    assert len(call_body(text, 0)) <= len(text)
