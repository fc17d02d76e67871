"""What a comparison says of the runs that hung: their diagnosis, and whether B's is another."""

import io
import json

import msgspec
from rich.console import Console

from tests.reports.runs import good, hung
from unstall.experiments.trials import Tally, conclude
from unstall.model.text import say, verbatim
from unstall.reports.comparison_terminal import comparison
from unstall.reports.experiment_json import comparison_json


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
