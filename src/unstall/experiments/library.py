"""All scenarios, found by their presence in ``scenarios/``."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import lru_cache

from unstall.experiments import scenarios
from unstall.experiments.not_here import WHY
from unstall.experiments.scenario import Scenario
from unstall.model.text import Text, say


@lru_cache(maxsize=1)
def all_scenarios() -> tuple[Scenario, ...]:
    """Every scenario by name. A module (or package) in ``scenarios/`` holds ``SCENARIO``."""
    found: list[Scenario] = []
    for module in pkgutil.iter_modules(scenarios.__path__):
        if not module.name.startswith("_"):
            loaded = importlib.import_module(f"{scenarios.__name__}.{module.name}")
            found.append(loaded.SCENARIO)
    return tuple(sorted(found, key=lambda one: one.name))


def find(name: str) -> list[Scenario]:
    """The scenario of that name, or those that stand for the cause of that name; may be empty."""
    every = all_scenarios()
    named = [one for one in every if one.name == name]
    if named:
        return named
    return sorted(
        (one for one in every if name in one.causes), key=lambda one: one.causes.index(name)
    )


def beside(name: str) -> Text | None:
    """What to tell of a name that is a cause's: which scenario of it is taken, which there are too.

    ``None`` where the name is a scenario's, or the cause's only scenario is taken.
    """
    found = find(name) or find(spelled(name))
    if len(found) < 2:
        return None
    return say(
        "{cause}: {scenario}; of the same cause: {others}",
        cause=spelled(name),
        scenario=found[0].name,
        others=", ".join(one.name for one in found[1:]),
    )


def spelled(name: str) -> str:
    """A name as scenarios and causes are written: ``Engine_Desync `` is ``engine-desync``."""
    return "-".join(name.strip().lower().replace("_", "-").split())


def near(name: str) -> list[str]:
    """Names of scenarios and causes that are written like this one, the nearest first.

    Causes of which nothing can be reproduced are among them: whoever misspells one is told so.
    """
    every = all_scenarios()
    names = sorted({one.name for one in every} | {c for one in every for c in one.causes} | {*WHY})
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    parts = [one for one in names if name and (name in one or one in name)]
    return list(dict.fromkeys([*close, *parts]))[:4]
