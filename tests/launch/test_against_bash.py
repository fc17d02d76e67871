"""For scripts without unknowns, the calls found are those that bash makes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.launch.bash_scripts import NAMES, run_bash, scripts, shown
from unstall.launch.evaluate import evaluate
from unstall.launch.texts import Script
from unstall.model.facts import Place

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def read(script: str) -> list[tuple[list[str], dict[str, str]]]:
    """What we say that ``probe`` is given."""
    reading = evaluate(Script(Place("script", 1), script))
    assert not reading.exhausted
    found = []
    for call in reading.calls:
        if call.words[0].text != "probe":
            continue
        assert all(w.known for w in call.words), call.words
        environment = {n: v.text for n, v in call.environment.items() if n in NAMES}
        found.append(([w.text for w in call.words[1:]], environment))
    return found


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts())
def test_calls_equal_those_of_bash(tmp_path_factory: pytest.TempPathFactory, script: str) -> None:
    folder: Path = tmp_path_factory.getbasetemp() / "bash-probe"
    expected = run_bash(script, folder)
    if expected is None:
        return
    expected = [(words, {n: v for n, v in env.items() if n in NAMES}) for words, env in expected]
    actual = read(script)
    assert actual == expected, f"{script}\nbash: {shown(expected)}\nread: {shown(actual)}"


def test_a_test_that_the_grammar_would_let_swallow_the_rest() -> None:
    """tree-sitter-bash 0.25 takes the last ``]`` for the end of the first ``[ … ]`` here."""
    script = (
        "D=ab,cd\nG='x y'\nA=(1)\nE=()\n"
        '[ 2 -eq 5 ] && B="${D##[ab]*}" probe one || true\n'
        'B="${D%/*}" probe ${A[0]} "${E[@]}""$(seq 1 2)" "$((12 == 31))"$((57 == 82))\n'
        "probe ${G/b*/} > /dev/null\n"
        '{\n[ 2 -eq 5 ] && B="${D##[ab]*}" probe two || true\nexport D\n}\n'
    )
    calls = [words for words, _ in read(script)]
    assert calls == [["1", "1\n2", "00"], ["x", "y"]]
