"""The answer of A and B, with runs made up."""

import pytest

from unstall.experiments.outcome import Run
from unstall.experiments.trials import compare
from unstall.model.text import say


def runs(outcomes):
    def one(side, number):
        outcome, step = outcomes(side, number)
        return Run(name=f"{side}{number}", outcome=outcome, step=step, seconds=1.0, folder="f")

    return one


def ask(outcomes, **more):
    return compare(runs(outcomes), say("as it is"), say("changed"), **more)


def test_confirmed_as_soon_as_it_is_clear():
    found = ask(lambda side, _n: ("hung", 10) if side == "A" else ("finished", 100))
    assert found.answer == "confirmed"
    assert len(found.a.runs) == len(found.b.runs) == 4


def test_refuted_where_b_hangs_too():
    assert ask(lambda _side, _n: ("hung", 10)).answer == "refuted"


def test_nothing_is_proved_where_a_never_hangs():
    found = ask(lambda _side, _n: ("finished", 10))
    assert found.answer == "not-reproduced"
    assert len(found.a.runs) == 4


def test_a_fixed_number_of_runs_is_kept():
    found = ask(
        lambda side, _n: ("failed", 1) if side == "A" else ("finished", 9), count=2, alpha=0.05
    )
    assert found.answer == "unclear"
    assert found.p == pytest.approx(1 / 6)
    assert len(found.a.runs) == 2


def test_runs_without_an_outcome_are_not_counted():
    found = ask(lambda side, _n: ("hung", 1) if side == "A" else ("slow", 9), count=5)
    assert found.b.counted == 0
    assert found.answer == "unclear"
