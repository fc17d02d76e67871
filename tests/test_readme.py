"""What the README shows is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands.running import unstall

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- output: (unstall [^\n]+) -->\n```text\n(.*?)```", README, re.DOTALL)


def test_there_is_an_output_to_check() -> None:
    """The first screen shows a real one."""
    assert SHOWN


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_output_is_real(command: str, output: str) -> None:
    """Run from the repository's root, 80 columns wide, not on a terminal."""
    result = unstall(*command.split()[1:], cwd=ROOT)
    printed = "\n".join(line.rstrip() for line in result.stdout.decode().splitlines())
    assert output.rstrip("\n") == printed.rstrip("\n")


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    """Files named in the README exist."""
    assert (ROOT / target).exists()
