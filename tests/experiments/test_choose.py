"""What the user asks for, checked before anything starts."""

import pytest

from unstall.experiments.choose import _range, settings_for
from unstall.experiments.folders import new_folder
from unstall.experiments.library import all_scenarios, find
from unstall.experiments.nurse import LabError
from unstall.experiments.script_edit import plan_of
from unstall.experiments.sessions import Request, confirm_scenario
from unstall.experiments.telling import Teller
from unstall.model.text import say


@pytest.mark.parametrize("scenario", all_scenarios(), ids=lambda one: one.name)
def test_every_size_as_declared_is_one_that_can_be_asked_for(scenario):
    for name, value in scenario.sizes.items():
        least, most = _range(name)
        assert least <= value <= most


@pytest.mark.parametrize(
    "size",
    [
        "engines=1e8", "engines=0", "engines=0.5", "engines=nan", "engines=inf", "engines=-1",
        "engines=", "engines", "=1", "", "prompts=1e8", "kilopixels=9e8", "tokens=0", "nothing=1",
    ],
)  # fmt: skip
def test_a_size_that_would_bring_the_machine_down_is_refused(size):
    with pytest.raises(LabError):
        settings_for(find("grpo-rollout-server")[0], sizes=[size])


def test_memory_stays_far_below_the_machines_own():
    with pytest.raises(LabError, match="on this machine"):
        settings_for(find("rank-killed")[0], sizes=["megabytes=9e8"])


def test_no_steps_are_no_end(tmp_path):
    request = Request(name="late-tokenizing", until="step>=0", output=tmp_path / "out")
    with pytest.raises(LabError, match="step>=N"):
        confirm_scenario(request, None)
    assert not (tmp_path / "out").exists()


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
