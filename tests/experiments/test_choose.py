"""What the user asks for, checked before anything starts."""

import pytest

from unstall.causes import all_causes
from unstall.experiments.choose import scenario_named
from unstall.experiments.folders import new_folder
from unstall.experiments.library import find
from unstall.experiments.not_here import WHY
from unstall.experiments.nurse import LabError
from unstall.experiments.scripts.edit import plan_of
from unstall.experiments.sessions import Request, confirm_scenario
from unstall.experiments.telling import Teller
from unstall.model.text import say


def test_no_steps_are_no_end(tmp_path):
    request = Request(name="late-tokenizing", until="step>=0", output=tmp_path / "out")
    with pytest.raises(LabError, match="at once"):
        confirm_scenario(request, None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("cause", all_causes(), ids=lambda one: one.id)
def test_every_cause_can_be_reproduced_or_it_is_said_why_not(cause):
    assert bool(find(cause.id)) != (cause.id in WHY)
    if cause.id in WHY:
        with pytest.raises(LabError, match=f"is a cause.*unstall explain {cause.id}"):
            scenario_named(cause.id)
    else:
        assert cause.id in scenario_named(cause.id).causes


def test_reasons_are_of_causes_that_there_are():
    assert set(WHY) <= {one.id for one in all_causes()}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Engine_Desync", "grpo-rollout-server"),
        (" two-group-order ", "two-group-order"),
        ("Late Saving", "late-saving"),
        ("UNEVEN_DDP", "uneven-ddp"),
    ],
)
def test_another_spelling_of_a_name_is_that_name(written, name):
    assert scenario_named(written).name == name


@pytest.mark.parametrize(
    ("written", "near"), [("cuda-oon", "cuda-oom"), ("gpu_hardwear", "gpu-hardware")]
)
def test_near_names_are_of_all_causes(written, near):
    with pytest.raises(LabError, match=near):
        scenario_named(written)


def test_calls_in_one_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda _form: "20260101-000000")
    assert len({new_folder(None, "x") for _ in range(3)}) == 3


def test_a_path_that_is_no_text_is_told(tmp_path):
    with pytest.raises(LabError, match="UTF-8"):
        new_folder(tmp_path / "a\udcffb", "x")
    with pytest.raises(LabError, match="UTF-8"):
        plan_of(tmp_path / "a\udcffb.sh")


def test_a_closed_standard_error_is_no_trouble(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    teller = Teller()
    teller.begin("A1", say("as it is"))
    teller("step", 3)
    teller.note(say("as it is"))
