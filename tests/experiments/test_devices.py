"""gloo or NCCL: the choice, without any GPU."""

import msgspec
import pytest

from unstall.experiments import devices
from unstall.experiments.choose import settings_for
from unstall.experiments.library import all_scenarios, find
from unstall.experiments.nurse import LabError

SCENARIO = find("late-saving")[0]
EAGER = msgspec.structs.replace(SCENARIO, cuda="auto")
NEVER = msgspec.structs.replace(SCENARIO, cuda="no")


@pytest.mark.parametrize(
    ("scenario", "wanted", "gpus", "chosen"),
    [
        (SCENARIO, "auto", 8, "gloo"),
        (SCENARIO, "gloo", 8, "gloo"),
        (SCENARIO, "nccl", 4, "nccl"),
        (EAGER, "auto", 4, "nccl"),
        (EAGER, "auto", 3, "gloo"),
        (EAGER, "gloo", 4, "gloo"),
        (NEVER, "auto", 8, "gloo"),
    ],
)
def test_the_choice_for_four_ranks(monkeypatch, scenario, wanted, gpus, chosen):
    monkeypatch.setattr(devices, "gpus", lambda: gpus)
    assert devices.backend_for(scenario, wanted, 4) == chosen


def test_too_few_gpus_are_told_with_the_numbers(monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: 1)
    with pytest.raises(LabError, match=r"3 ranks, 1 GPUs"):
        settings_for(SCENARIO, ranks=3, backend="nccl")


def test_a_scenario_of_the_cpu_refuses(monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: 8)
    with pytest.raises(LabError, match="size-mismatch runs with gloo"):
        settings_for(find("size-mismatch")[0], backend="nccl")


def test_the_number_of_gpus_is_not_asked_without_need(monkeypatch):
    def asked():
        raise AssertionError("a process was started for nothing")

    monkeypatch.setattr(devices, "gpus", asked)
    assert settings_for(SCENARIO).backend == "gloo"


def test_no_driver_no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "_DRIVERS", ())
    devices.gpus.cache_clear()
    try:
        assert devices.gpus() == 0
    finally:
        devices.gpus.cache_clear()


def test_no_scenario_takes_a_gpu_by_itself_until_it_was_run_on_one():
    assert {one.cuda for one in all_scenarios()} == {"no", "asked"}
