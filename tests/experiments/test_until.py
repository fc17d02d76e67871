"""What --until takes for a step, for seconds, for a line of the log, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.experiments.nurse import LabError
from unstall.experiments.sessions import Request, confirm_scenario
from unstall.experiments.until import Until, parse_until, step_of


@pytest.mark.parametrize(
    ("text", "step"), [("step>=200", 200), (" step >= 7 ", 7), ("step>9", 10), ("step>0", 1)]
)
def test_a_step(text, step):
    assert parse_until(text) == Until(step=step)


@pytest.mark.parametrize(
    "text",
    [
        "step>=x", "step>=", "step>=2e3", "step>=1_000", "step>=1,000", "step>=-5", "step>=1.5",
        "step>=99999999999", "step=200", "step==200", "step=>200", "step<=200", "step≥200",
        "steps>=200", "STEP>=200", "Step > 200", "global_step>=200", "iteration>=200",
        "epoch>=2", "iter >= 10", "train_step>=1", ">=200", "> 200", "200<=step", "step is 200",
        "step>=N", "max_steps>=3", "step>=٣",
    ],
)  # fmt: skip
def test_what_looks_like_a_step_and_is_none_is_refused_with_an_example(text):
    with pytest.raises(LabError, match="step>=200"):
        parse_until(text)


@pytest.mark.parametrize(
    "text", ["10m", "600s", "10 min", "2 hours", "1.5h", "200 steps", "600 seconds", "100it"]
)
def test_what_looks_like_a_time_and_is_none_is_refused_with_an_example(text):
    with pytest.raises(LabError, match="--until 600"):
        parse_until(text)


@pytest.mark.parametrize(
    "text",
    [
        "Training completed", "step 200", "saved checkpoint-200", r"'global_step': 200\b", "done$",
        "[s]tep=200", "eval_loss: 0", "epoch 3 finished", "stepping down", "loss=0",
    ],
)  # fmt: skip
def test_a_line_of_the_log(text):
    assert parse_until(text) == Until(pattern=text)


def test_seconds():
    assert parse_until("600") == Until(seconds=600.0)


@pytest.mark.parametrize("text", ["step>=0", "0", "-3", "nan", "inf", ".*", ""])
def test_what_holds_at_once_is_refused(text):
    with pytest.raises(LabError, match="at once"):
        parse_until(text)


@given(st.text(max_size=200))
def test_any_text_is_taken_or_refused(text):
    try:
        found = parse_until(text)
    except LabError:
        return
    assert sum(one is not None for one in (found.step, found.seconds, found.pattern)) == 1


@given(st.integers(1, 999_999_998))
def test_every_step(number):
    assert step_of(f"step>={number}") == number
    assert step_of(f"step>{number}") == number + 1


@pytest.mark.parametrize("text", ["step>=x", "600", "done", "steps>=3"])
def test_a_scenario_takes_a_step_alone(text, tmp_path):
    request = Request(name="late-tokenizing", until=text, output=tmp_path / "out")
    with pytest.raises(LabError, match="step>="):
        confirm_scenario(request, None)
    assert not (tmp_path / "out").exists()
