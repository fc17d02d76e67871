"""The answer of A and B, with runs made up."""

import pytest

from unstall.experiments.outcome import Run, Verdict
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


def test_a_run_of_b_that_ends_before_any_step_at_which_a_hung_is_not_counted():
    """``torchrun … | tee log`` ends with code 0 when the changed program refuses its arguments."""
    found = ask(
        lambda side, n: ("hung", 10 + n) if side == "A" else ("finished", 0), count=5, own_end=True
    )
    assert found.answer == "unclear"
    assert [run.outcome for run in found.b.runs] == ["short"] * 5
    deserved = ask(lambda side, n: ("hung", 10 + n) if side == "A" else ("finished", 12), count=5)
    assert deserved.answer == "confirmed"


def test_where_the_end_was_asked_for_the_step_is_not_looked_at():
    found = ask(lambda side, _n: ("hung", 10) if side == "A" else ("finished", 0), count=5)
    assert found.answer == "confirmed"


def test_a_change_with_which_it_fails_early_neither_cures_nor_refutes():
    found = ask(lambda side, _n: ("hung", 10) if side == "A" else ("failed", 0), count=5)
    assert (found.answer, found.elsewhere) == ("unclear", True)
    late = ask(lambda side, _n: ("hung", 10) if side == "A" else ("failed", 10), count=5)
    assert (late.answer, late.elsewhere) == ("refuted", False)
    both = ask(lambda side, _n: ("failed", 10) if side == "A" else ("failed", 0), count=5)
    assert (both.answer, both.elsewhere) == ("refuted", False)


def test_a_failure_diagnosed_as_something_else_is_another_trouble():
    def one(side, number):
        cause = "engine-desync" if side == "A" else "python-exception"
        return Run(
            name=f"{side}{number}", outcome="hung" if side == "A" else "failed", step=3,
            seconds=1.0, folder="f", verdict=Verdict(cause=cause, confidence=1, summary=say("x")),
        )  # fmt: skip

    assert compare(one, say("as it is"), say("changed"), count=3).answer == "unclear"


def test_neither_side_always_comes_first():
    order = []

    def outcomes(side, number):
        order.append(f"{side}{number}")
        return ("hung", 1) if side == "A" else ("finished", 9)

    ask(outcomes, count=3)
    assert order == ["A1", "B1", "B2", "A2", "A3", "B3"]


def failed(name, error, *, started=False, step=0):
    return Run(
        name=name, outcome="failed", step=step, seconds=1.0, folder="f", started=started,
        errors=(error,), last=(error,),
    )  # fmt: skip


def of(runs_of):
    made = []

    def one(side, number):
        made.append(f"{side}{number}")
        return runs_of(side, number)

    return one, made


def test_a_program_that_never_runs_is_no_unclear_answer_and_no_refutation():
    one, made = of(lambda side, n: failed(f"{side}{n}", "ValueError: a"))
    found = compare(one, say("as it is"), say("changed"))
    assert (found.answer, found.same_failure) == ("not-run", True)
    assert made == ["A1", "B1"]


def test_another_error_before_the_first_step_is_tried_once_more():
    one, made = of(lambda side, n: failed(f"{side}{n}", f"ValueError: {side}"))
    found = compare(one, say("as it is"), say("changed"))
    assert (found.answer, found.same_failure) == ("not-run", False)
    assert made == ["A1", "B1", "B2", "A2"]


def test_a_start_that_fails_by_chance_is_not_given_up():
    """A port that is taken every other time: that is what B is to cure."""

    def one(side, number):
        if side == "A":
            return failed(f"A{number}", "OSError: address in use")
        return Run(
            name=f"B{number}", outcome="finished", step=9, seconds=1.0, folder="f", started=True
        )

    found = compare(one, say("as it is"), say("changed"))
    assert (found.answer, len(found.a.runs)) == ("confirmed", 4)


def test_a_change_with_which_nothing_starts_is_not_tried_for_ever():
    def one(side, number):
        if side == "B":
            return failed(f"B{number}", "error: unrecognized arguments")
        return Run(name=f"A{number}", outcome="hung", step=9, seconds=1.0, folder="f", started=True)

    found = compare(one, say("as it is"), say("changed"), count=10)
    assert (found.answer, found.elsewhere, len(found.b.runs)) == ("unclear", True, 2)


def test_failures_after_the_first_step_count_as_before():
    one, _ = of(lambda side, n: failed(f"{side}{n}", "ValueError: a", started=True, step=3))
    found = compare(one, say("as it is"), say("changed"))
    assert (found.answer, found.same_failure) == ("refuted", True)


def test_runs_of_a_that_are_known_are_not_made_again():
    first, made = of(
        lambda side, n: Run(
            name=f"{side}{n}", outcome="hung", step=2, seconds=1.0, folder="f", started=True
        )
    )
    before = compare(first, say("as it is"), say("useless"), count=3)
    assert (before.answer, before.shared) == ("refuted", 0)
    second, made = of(
        lambda side, n: Run(
            name=f"{side}{n}", outcome="hung" if side == "A" else "finished", step=2, seconds=1.0,
            folder="f", started=True,
        )
    )  # fmt: skip
    after = compare(second, say("as it is"), say("good"), known=before.a.runs)
    assert after.answer == "confirmed"
    assert after.a.runs[:3] == before.a.runs
    assert after.shared == 3
    assert made == ["B1", "B2", "B3", "B4", "A4"]
    # no more of A's runs are counted than B has
    few = compare(second, say("as it is"), say("good"), count=2, known=before.a.runs)
    assert (len(few.a.runs), len(few.b.runs), few.shared) == (2, 2, 2)
