"""``--stack`` of ``reproduce`` and ``confirm``: the software itself instead of the replica."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import msgspec

from unstall.experiments.nurse import PSUTIL_MISSING, LabError
from unstall.experiments.outcome import Run
from unstall.experiments.runner import Tell
from unstall.experiments.scenario import Change, Scenario, Settings
from unstall.experiments.stacks.drive import run_stack, tiny_model
from unstall.experiments.stacks.environment import Environment, build
from unstall.experiments.stacks.here import running
from unstall.experiments.stacks.levels import Level, level_for
from unstall.experiments.stacks.recipe import Recipe, check_machine, recipe_for, written
from unstall.model.text import Text, say


class Choice(msgspec.Struct, frozen=True):
    """A stack and what it runs, before anything is installed."""

    recipe: Recipe
    level: Level

    @property
    def scenario(self) -> Scenario:
        """What is declared of it."""
        return self.level.scenario

    def prepare(self, tell: Callable[[Text], None], changes: tuple[Change, ...] = ()) -> Ready:
        """Build its environment and its model, unless what is needed is here already.

        Those of the changes that are other versions of its software are built as well, so that
        all of it is there before the first run.

        Raises:
            LabError: that does not work here.
        """
        others = {one.name: recipe_for(one.stack) for one in changes if one.stack}
        for other in others.values():
            check_machine(other)
        environment = running(self.recipe) if self.level.own_environment else None
        if environment is not None:
            tell(
                say(
                    "{stack} is here already: {python} is used, nothing is installed",
                    stack=written(self.recipe),
                    python=str(environment.python),
                )
            )
        else:
            environment = build(self.recipe, tell)
        elsewhere = {name: build(other, tell) for name, other in others.items()}
        if self.level.needs_model:
            for one in (environment, *elsewhere.values()):
                tiny_model(one)
        return Ready(self.level, environment, elsewhere)


class Ready(msgspec.Struct, frozen=True):
    """A stack that can run.

    Attributes:
        level: what is run.
        environment: with which software.
        elsewhere: name of a change to the software that it brings.
    """

    level: Level
    environment: Environment
    elsewhere: dict[str, Environment] = {}

    def run(self, settings: Settings, folder: Path, name: str, tell: Tell) -> Run:
        """Run it once."""
        environment = self.environment
        for change in settings.changes:
            environment = self.elsewhere.get(change, environment)
        return run_stack(self.level, environment, settings, folder, name=name, tell=tell)


def choose(name: str, stack: str) -> Choice:
    """The stack that was asked for, and how it runs a scenario.

    Raises:
        LabError: there is no such stack, it does not run this, or this machine cannot.
    """
    recipe = recipe_for(stack)
    level = level_for(name, recipe)
    check_machine(recipe)
    if importlib.util.find_spec("psutil") is None:
        raise LabError(PSUTIL_MISSING)
    return Choice(recipe, level)
