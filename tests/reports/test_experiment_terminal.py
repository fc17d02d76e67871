"""What a reproduction says of its run: the verdict, and what to do next."""

import io

import msgspec
from rich.console import Console

from tests.reports.runs import good, hung
from unstall.experiments.closing import Closing
from unstall.experiments.library import find
from unstall.experiments.scenario import Settings
from unstall.reports.experiment_terminal import reproduction


def test_the_next_command_names_the_stack():
    page = io.StringIO()
    scenario = find("grpo-rollout-server")[0]
    console = Console(file=page, width=200, highlight=False)
    reproduction(scenario, good("A1"), None, console, "en", stack="vllm==0.11.0")
    assert "--change independent-engines --stack vllm==0.11.0" in page.getvalue()


def test_a_control_that_finishes_is_as_it_should_be():
    page = io.StringIO()
    scenario = find("grpo-rollout-server")[0]
    run = msgspec.structs.replace(good("A1"), settings=Settings(control="uneven-lengths"))
    reproduction(scenario, run, None, Console(file=page, width=200, highlight=False), "en")
    assert "as it should" in page.getvalue()
    assert "another --seed" not in page.getvalue()


def closed(scenario, cause):
    diagnosis = None
    return Closing(
        verdict=cause, confidence=0.4, named=cause == scenario.causes[0], marks=(),
        diagnosis=diagnosis,
    )  # fmt: skip


def reproduced(name, cause):
    page = io.StringIO()
    scenario = find(name)[0]
    run = msgspec.structs.replace(hung("A1", cause, ""), settings=Settings())
    console = Console(file=page, width=200, highlight=False)
    reproduction(scenario, run, closed(scenario, cause), console, "en")
    return page.getvalue()


def test_where_undecided_is_right_the_loop_leads_to_no_cause():
    text = reproduced("rank-killed", "unknown")
    assert "undecided, expected undecided" in text
    assert "does not tell the cause, and the diagnosis says so" in text
    assert "leads to the cause" not in text
    assert "leads to the cause" in reproduced("late-saving", "slow-checkpoint-or-eval")
    assert "The loop is not closed" in reproduced("rank-killed", "host-oom")


def test_a_stopped_reproduction_does_not_say_that_it_did_not_hang():
    for outcome in ("stopped", "hung"):
        page = io.StringIO()
        run = msgspec.structs.replace(good("A1"), outcome=outcome)
        console = Console(file=page, width=200, highlight=False)
        reproduction(find("late-saving")[0], run, None, console, "en")
        assert "Stopped by you" in page.getvalue()
        assert "unstall diagnose f/evidence" in page.getvalue()
        assert "did not hang" not in page.getvalue()


def test_the_evidence_of_a_run_can_be_copied():
    page = io.StringIO()
    run = msgspec.structs.replace(good("A1"), outcome="stopped", folder="/home/u/" + "long" * 20)
    reproduction(find("late-saving")[0], run, None, Console(file=page, width=60), "en")
    assert run.evidence in page.getvalue()
    assert f"unstall diagnose {run.evidence}" in page.getvalue()
