"""What a size may be, and what is said of one that it may not."""

import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.library import all_scenarios, find
from unstall.experiments.nurse import LabError
from unstall.experiments.sizes import bounds, chosen
from unstall.experiments.stacks.grpo import GRPO
from unstall.experiments.stacks.levels import ENGINES
from unstall.experiments.stacks.torchrun import TORCHRUN
from unstall.experiments.stacks.trl import TRL

EVERY = [*all_scenarios(), *(one.scenario for one in (ENGINES, GRPO, TRL, TORCHRUN))]
SIZES = [(name, value, one) for one in EVERY for name, value in one.sizes.items()]
FOUNDING = find("grpo-rollout-server")[0]


@pytest.mark.parametrize(("name", "value", "scenario"), SIZES)
def test_every_size_as_declared_is_one_that_can_be_asked_for(name, value, scenario):
    assert bounds(name).least <= value <= bounds(name).most
    found = chosen(scenario, [f"{name}={value:g}"])
    assert found == {name: value}
    assert isinstance(found[name], int) == bounds(name).whole


@pytest.mark.parametrize(("name", "scenario"), [(name, one) for name, _, one in SIZES])
@pytest.mark.parametrize(
    "wrong", ["-1", "nan", "inf", "-inf", "1e99", "", "x", "2 3", "1,5", "0x10"]
)
def test_no_number_out_of_bounds_is_taken_and_the_range_is_told(name, scenario, wrong):
    least, most = f"{bounds(name).least:g}", str(bounds(name).most)
    with pytest.raises(LabError) as told:
        chosen(scenario, [f"{name}={wrong}"])
    assert f"from {least} to {most}" in str(told.value)
    assert f"--size {name}=" in str(told.value)


@pytest.mark.parametrize("name", ["engines", "prompts", "generations", "tokens"])
@pytest.mark.parametrize("wrong", ["3.5", "2.0001", "1e-3"])
def test_counts_are_whole_numbers(name, wrong):
    with pytest.raises(LabError, match="whole number"):
        chosen(FOUNDING, [f"{name}={wrong}"])


def test_a_whole_number_may_be_written_otherwise():
    assert chosen(FOUNDING, ["engines=3.0", " prompts = 1e1 "]) == {"engines": 3, "prompts": 10}


@pytest.mark.parametrize("size", ["engines=1", "generations=1", "engines=0", "engines"])
def test_a_size_with_which_the_fault_cannot_show_is_refused(size):
    with pytest.raises(LabError, match="from 2 to"):
        chosen(FOUNDING, [size])


@pytest.mark.parametrize(
    ("size", "near"), [("engine=2", "engines"), ("Tokens=5", "tokens"), ("kilopixel=9", "kilopix")]
)
def test_a_name_that_is_none_gives_the_nearest(size, near):
    with pytest.raises(LabError, match=f"near: {near}.*Sizes: engines=2, prompts=8"):
        chosen(FOUNDING, [size])


@pytest.mark.parametrize("size", ["nothing=1", "=1", ""])
def test_a_name_like_no_other_gives_all(size):
    with pytest.raises(LabError, match="Sizes: engines=2, prompts=8"):
        settings_for(FOUNDING, sizes=[size])


def test_a_scenario_without_sizes_says_so():
    with pytest.raises(LabError, match="Sizes: -"):
        chosen(find("size-mismatch")[0], ["engines=2"])


def test_memory_stays_far_below_the_machines_own():
    with pytest.raises(LabError, match="on this machine"):
        settings_for(find("rank-killed")[0], sizes=["megabytes=9e8"])
