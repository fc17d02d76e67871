"""What a comparison says of the runs that hung: their diagnosis, and whether B's is another."""

import io
import json

import msgspec
from rich.console import Console

from unstall.experiments.closing import Closing
from unstall.experiments.library import find
from unstall.experiments.outcome import Run, Verdict
from unstall.experiments.scenario import Settings
from unstall.experiments.trials import Tally, conclude
from unstall.model.text import say, verbatim
from unstall.reports.experiment_json import comparison_json
from unstall.reports.experiment_terminal import Page, comparison, reproduction


def hung(name, cause, operation):
    verdict = Verdict(
        cause=cause, confidence=0.9, summary=verbatim(f"a {cause}"), operation=operation,
        why=(verbatim("[rank 1] never came"),),
    )  # fmt: skip
    return Run(name=name, outcome="hung", step=7, seconds=3.0, folder="f", verdict=verdict)


def good(name):
    return Run(name=name, outcome="finished", step=20, seconds=3.0, folder="f")


def compared(a, b):
    return conclude(
        Tally(label=say("as it is"), runs=tuple(a)),
        Tally(label=verbatim("changed"), runs=tuple(b)),
        0.05,
        fixed=True,
    )


def shown(found):
    page = io.StringIO()
    comparison(found, Console(file=page, width=200, highlight=False), "en")
    return page.getvalue()


def test_the_hangs_of_a_are_told_with_their_diagnosis():
    text = shown(
        compared(
            [
                hung("A1", "engine-desync", "ALLREDUCE 66"),
                hung("A2", "engine-desync", "ALLREDUCE 98"),
            ],
            [good("B1"), good("B2")],
        )
    )
    assert "diagnosed as engine-desync in 2 of 2: a engine-desync" in text
    assert "in ALLREDUCE 66, ALLREDUCE 98" in text
    assert "[rank 1] never came" in text
    assert "another reason" not in text


def test_causes_are_counted_apart():
    text = shown(
        compared(
            [
                hung("A1", "uneven-batches", ""),
                hung("A2", "unknown", ""),
                hung("A3", "unknown", ""),
            ],
            [good("B1")],
        )
    )
    assert text.index("diagnosed as unknown in 2 of 3") < text.index("uneven-batches in 1 of 3")


def test_another_hang_of_b_is_told():
    text = shown(compared([hung("A1", "engine-desync", "")], [hung("B1", "host-oom", "")]))
    assert "B hung or failed for another reason than A: host-oom" in text


def test_programs_get_the_verdict_of_each_run():
    found = compared([hung("A1", "engine-desync", "ALLREDUCE 66")], [good("B1")])
    content = json.loads(comparison_json(found, "x", "en"))
    assert content["a"]["runs"][0]["verdict"] == {
        "cause": "engine-desync",
        "confidence": 0.9,
        "summary": "a engine-desync",
        "operation": "ALLREDUCE 66",
        "why": ["[rank 1] never came"],
    }
    assert content["b"]["runs"][0]["verdict"] is None


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


def test_what_is_confirmed_is_told_apart_from_what_is_not():
    """Four good runs of B are no proof that it never hangs; 29 leave at most 10 % (0.9^29)."""
    text = " ".join(
        shown(
            compared([hung(f"A{n}", "x", "") for n in range(4)], [good(f"B{n}") for n in range(4)])
        ).split()
    )
    assert "B hung in 0 of 4 runs" in text
    assert "up to 53 %" in text
    assert "Confirmed: the change makes the difference. A hung and B did not" in text
    assert "Not shown: that B never hangs. 29 runs of B without a hang (-n 29)" in text
    assert "no longer hangs" not in text


def test_the_next_bound_is_named_where_one_is_reached():
    many = [good(f"B{n}") for n in range(30)]
    text = " ".join(shown(compared([hung("A1", "x", "")] * 30, many)).split())
    assert "59 runs of B without a hang (-n 59) would bring that bound down to 5 %" in text


def test_nothing_is_said_of_more_runs_where_it_is_not_confirmed():
    text = shown(compared([hung("A1", "x", "")], [hung("B1", "x", "")]))
    assert "Not shown" not in text


def test_a_stopped_comparison_shows_its_runs_and_no_probabilities():
    going = msgspec.structs.replace(good("B2"), outcome="stopped", step=12)
    found = msgspec.structs.replace(
        compared([hung("A1", "x", "")], [good("B1"), going]), answer="stopped"
    )
    text = shown(found)
    assert "hung or failed 1 of 1" in text
    assert "stopped by you at step 12" in text
    assert "without a clear outcome" not in text
    assert "Stopped by you after 1 runs of A and 1 of B" in text
    assert "Fisher" not in text


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


def whole(text, width=40, language="en"):
    page = io.StringIO()
    Page(Console(file=page, width=width, highlight=False), language).whole(say("evidence"), text)
    return page.getvalue().splitlines()


def test_a_path_longer_than_the_line_stays_whole():
    path = "/home/u/[a] b/unstall-two-group-order-20261130-193519/evidence"
    assert whole(path) == [f"evidence       {path}"]


def test_chinese_labels_take_two_columns_a_character():
    (line,) = whole("x", language="zh")
    label = line.removesuffix("x")
    assert label.strip() == "证据"
    assert len(label) == 13


def test_the_evidence_of_a_run_can_be_copied():
    page = io.StringIO()
    run = msgspec.structs.replace(good("A1"), outcome="stopped", folder="/home/u/" + "long" * 20)
    reproduction(find("late-saving")[0], run, None, Console(file=page, width=60), "en")
    assert run.evidence in page.getvalue()
    assert f"unstall diagnose {run.evidence}" in page.getvalue()
