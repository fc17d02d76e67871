"""Whatever a script holds, reading it ends, soon and without an exception, and runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.launch.bash_scripts import scripts
from tests.launch.plans import plan
from unstall.launch import state
from unstall.launch.brackets import braces, split_words
from unstall.launch.evaluate import evaluate
from unstall.launch.patterns import match, replace, without_prefix, without_suffix
from unstall.launch.texts import Script
from unstall.model.facts import Place

_SHELL = st.text(alphabet="ab01 \n\t'\"\\$(){}[]<>|&;#=*?!-+:/,.`~^%@\x00é\u3000", max_size=300)


@given(_SHELL)
@settings(deadline=None)
def test_any_text_is_read(text: str) -> None:
    found = plan(text)
    assert len(found.programs) < 70


@given(scripts(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_damaged_scripts_are_read(script: str, random: object) -> None:
    letters = list(script)
    for _ in range(12):
        del letters[random.randrange(len(letters))]  # type: ignore[attr-defined]
    plan("".join(letters))


@pytest.mark.parametrize(
    "text",
    [
        "while true; do torchrun train.py; done",
        "until false; do :; done; vllm serve m",
        "f() { f; }; f",
        "f() { f & f; }; f",
        "for ((;;)); do :; done",
        "for i in {1..99999}; do for j in {1..99999}; do python train.py; done; done",
        "A=x; for i in {1..64}; do A=$A$A; done; torchrun $A train.py",
        'A=({1..200}); for i in {1..50}; do A=("${A[@]}" "${A[@]}"); done; prog "${A[@]}"',
        "eval 'eval \"eval x\"'",
        "bash -c 'bash -c \"bash -c x\"'",
        "x=$(" * 300 + ")" * 300,
        "${" * 2000,
        "((" * 2000,
        "{" * 3000 + "}" * 3000,
        "if " * 2000,
        "a=" + "{1..9}" * 30,
        "[ " + "a = a -a " * 2000 + " b ]",
        "x=${a/" + "*" * 500 + "b/c}",
        "cat <<A\n" * 200,
        "'" * 9999,
        "source a.sh",
        ". ./a.sh; . ./a.sh",
        "prog " + "--x 1 " * 20000,
    ],
)
def test_scripts_without_end_are_cut_short(text: str) -> None:
    reading = evaluate(
        Script(Place("a.sh", 1), text), at_hand={"a.sh": Script(Place("a.sh", 1), text)}
    )
    assert len(reading.calls) <= state.MOST_CALLS
    plan(text)


def test_mutually_sourcing_scripts_end() -> None:
    found = plan(". ./b.sh\ntorchrun train.py\n", ". ./a.sh\n")
    assert len(found.programs) < 70


def test_nothing_is_run_or_written(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"""
        touch {mark}
        X=$(touch {mark}; echo 1)
        Y=`touch {mark}`
        : > {mark}
        echo a > {mark}
        eval "touch {mark}"
        bash -c 'touch {mark}'
        cat <<EOF | bash
        touch {mark}
        EOF
        python3 -c 'open("{mark}", "w")'
        torchrun train.py > {mark}
        diff <(touch {mark}) {mark}
        """
    plan(text)
    assert not mark.exists()


@given(st.text("ab*?[]!-^\\", max_size=40), st.text("ab", max_size=200))
def test_patterns_end(pattern: str, text: str) -> None:
    match(text, pattern)
    assert text.endswith(without_prefix(text, pattern, True))
    assert text.startswith(without_suffix(text, pattern, True))
    replace(text, pattern, "", True)


@given(st.text("ab{},.12\"'\\$(", max_size=60))
def test_braces_end(word: str) -> None:
    assert 1 <= len(braces(word)) <= 256


@given(_SHELL)
def test_split_words_offsets_grow(text: str) -> None:
    offsets = [offset for _, offset in split_words(text)]
    assert offsets == sorted(offsets)
    assert all(0 <= o < len(text) for o in offsets)
