"""When a run counts as started: from then on the shorter wait for a hang applies."""

from unstall.experiments.script_run import Steps


def test_step_zero_is_a_start():
    steps = Steps()
    assert not steps.started
    steps.look(["loading the model", "2 front ends are ready"])
    assert not steps.started
    steps.look(["step 0/100: 96 completions in 9.10 s to warm up"])
    assert steps.started
    assert steps.step == 0
