"""A change that is another version of the software: installed beforehand, run in its own place."""

from pathlib import Path

import msgspec
import pytest

from unstall.experiments.choose import settings_for
from unstall.experiments.outcome import Run
from unstall.experiments.stacks import sessions
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import level_for
from unstall.experiments.stacks.recipe import recipe_for, written

STACK = "ms-swift==3.10.3,vllm==0.11.0"


@pytest.fixture
def choice(monkeypatch):
    def build(recipe, _tell):
        place = Path("/") / recipe.name
        return Environment(place=place, python=place / "python", versions={})

    def run_stack(_level, environment, _settings, _folder, *, name, **_):
        return Run(name=name, outcome="finished", step=0, seconds=0, folder=str(environment.place))

    models: list[str] = []
    monkeypatch.setattr(sessions, "build", build)
    monkeypatch.setattr(sessions, "check_machine", lambda _recipe: None)
    monkeypatch.setattr(sessions, "tiny_model", lambda one: models.append(str(one.place)))
    monkeypatch.setattr(sessions, "run_stack", run_stack)
    recipe = recipe_for(STACK)
    return sessions.Choice(recipe, level_for("grpo-rollout-server", recipe)), models


def place_of_a_run(ready, level, *changes: str) -> str:
    settings = msgspec.structs.replace(settings_for(level.scenario), changes=changes)
    return ready.run(settings, Path("/x"), "A1", lambda *_: None).folder


def test_every_change_runs_in_its_own_environment(choice):
    one, models = choice
    assert written(one.recipe) == STACK
    ready = one.prepare(lambda _text: None, one.scenario.changes)
    reported, fixed = "/ms-swift-3.10.3-vllm-0.11.0", "/ms-swift-4.3.0-vllm-0.11.0"
    assert models == [reported, fixed]
    assert place_of_a_run(ready, one.level) == reported
    assert place_of_a_run(ready, one.level, "upstream-fix") == fixed
    assert place_of_a_run(ready, one.level, "async-engine") == reported


def test_what_no_change_needs_is_not_installed(choice):
    one, models = choice
    one.prepare(lambda _text: None, (one.scenario.change("async-engine"),))
    assert models == ["/ms-swift-3.10.3-vllm-0.11.0"]
