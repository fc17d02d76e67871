"""Reports on terminals that cannot show every character."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.running import unstall

CASES = Path(__file__).parents[1] / "cases"
CHINESE = CASES / "l01-swift-packing-rank0-zh" / "report.md"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    "words",
    [("diagnose", CHINESE), ("diagnose", CHINESE, "-v"), ("explain", "engine-desync")],
    ids=["diagnose", "verbose", "explain"],
)
def test_a_terminal_without_unicode_gets_what_it_can_show(
    words: tuple[str | Path, ...], encoding: str
) -> None:
    """No traceback; English instead of Chinese, and dots and dashes for their typographic likes."""
    result = unstall(*words, encoding=encoding)
    assert result.returncode == 0
    assert result.stderr == b""
    text = result.stdout.decode(encoding)
    assert "slow-preprocessing" in text or "engine-desync" in text
    assert text.count("?") < 0.02 * len(text) or words[-1] == "-v"


def test_chinese_that_was_asked_for_is_written_as_far_as_it_goes() -> None:
    """The user's choice stands, even where only identifiers and numbers can be read."""
    result = unstall("diagnose", CHINESE, "--language", "zh", encoding="ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"slow-preprocessing" in result.stdout


def test_json_does_not_depend_on_the_terminal() -> None:
    """It is UTF-8 and in the language of the input, whatever the terminal shows."""
    plain, other = (unstall("diagnose", CHINESE, "--json", encoding=e) for e in ("utf-8", "ascii"))
    assert json.loads(plain.stdout) == json.loads(other.stdout)
    assert json.loads(plain.stdout)["language"] == "zh"
