"""When a run counts as started: from then on the shorter wait for a hang applies."""

from unstall.processes.steps import Steps


def test_step_zero_is_a_start():
    steps = Steps()
    assert not steps.started
    steps.look(["loading the model", "2 front ends are ready"])
    assert not steps.started
    steps.look(["step 0/100: 96 completions in 9.10 s to warm up"])
    assert steps.started
    assert steps.step == 0


def test_the_bar_of_a_loading_model_is_no_step_where_their_number_is_known():
    steps = Steps(150)
    steps.look(["Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 9it/s]"])
    assert not steps.started
    steps.look(["Processed prompts: 100%|####| 480/480 [00:00<00:00, 48.1it/s]"])
    assert not steps.started
    steps.look(["  0%|          | 0/150 [00:00<?, ?it/s]"])
    assert steps.started
    assert steps.step == 0
    steps.look(
        ["  2%|2         | 3/150 [00:06<05:01,  2.05s/it]", "Adding requests: | 6/6 [00:00<"]
    )
    assert steps.step == 3
