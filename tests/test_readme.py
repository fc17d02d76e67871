"""What the README shows is what the commands print."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.commands.running import unstall
from unstall.experiments.choose import scenario_named
from unstall.experiments.outcome import Run
from unstall.experiments.trials import Tally, conclude
from unstall.model.text import say
from unstall.reports.comparison_terminal import comparison

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RUN = re.findall(r"<!-- a run of: (unstall [^\n]+) -->\n```text\n(.*?)```", README, re.DOTALL)[0]
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


def test_the_comparison_shown_follows_from_its_runs() -> None:
    """Which step a run hangs at differs from time to time; what follows from the steps does not."""
    command, shown = RUN
    words = command.split()
    scenario = scenario_named(words[2])
    text = " ".join(shown.split())
    hung = re.search(r"hung or failed (\d+) of \1, at step ([\d, ]+?) diagnosed as (\S+)", text)
    good = re.search(r"finished (\d+) of \1, (\d+) steps each", text)
    assert hung is not None
    assert good is not None
    assert hung[3] == scenario.causes[0]
    assert int(good[2]) == scenario.steps

    def side(outcome: str, steps: list[int]) -> Tally:
        return Tally(
            label=say("as it is"),
            runs=tuple(
                Run(name="", outcome=outcome, step=step, seconds=1, folder="") for step in steps
            ),
        )

    steps = [int(one) for one in hung[2].split(",")]
    assert len(steps) == int(hung[1])
    found = conclude(
        side("hung", steps), side("finished", [int(good[2])] * int(good[1])), 0.05, fixed=False
    )
    page = io.StringIO()
    comparison(found, Console(file=page, width=80, highlight=False), "en")
    follows = page.getvalue()[page.getvalue().index("how sure") :]
    assert " ".join(follows.split()) in text
    assert scenario.changes[0].name in text


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    """Files named in the README exist."""
    assert (ROOT / target).exists()
