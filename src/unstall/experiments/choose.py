"""What the user asked for, checked before anything is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from unstall.experiments.devices import backend_for
from unstall.experiments.library import find, near, spelled
from unstall.experiments.not_here import not_here
from unstall.experiments.nurse import LabError
from unstall.experiments.scenario import Scenario, Settings
from unstall.experiments.sizes import chosen, most_ranks
from unstall.model.text import say


def scenario_named(name: str) -> Scenario:
    """The scenario of that name, or the first that stands for the cause of that name.

    Raises:
        LabError: there is none; says the nearest names, or why nothing of that cause can be
            reproduced here.
    """
    found = find(name) or find(spelled(name))
    if found:
        return found[0]
    if (why := not_here(spelled(name))) is not None:
        raise LabError(why)
    alike = near(spelled(name))
    if alike:
        raise LabError(
            say(
                "There is no scenario or cause “{name}”. Near: {names}. All: unstall reproduce",
                name=name,
                names=", ".join(alike),
            )
        )
    raise LabError(say("There is no scenario or cause “{name}”. All: unstall reproduce", name=name))


def settings_for(
    scenario: Scenario,
    *,
    ranks: int | None = None,
    seed: int = 0,
    steps: int | None = None,
    timeout: float | None = None,
    changes: Sequence[str] = (),
    control: str | None = None,
    sizes: Sequence[str] = (),
    fault: bool = True,
    backend: str = "auto",
) -> Settings:
    """The settings of a run.

    Raises:
        LabError: what is asked for does not exist or does not fit the scenario or the machine.
    """
    check_machine(scenario)
    count = scenario.ranks if ranks is None else ranks
    if not scenario.least <= count <= scenario.most:
        raise LabError(
            say(
                "{name} runs with {least} to {most} ranks, not {count}.",
                name=scenario.name,
                least=scenario.least,
                most=scenario.most,
                count=count,
            )
        )
    if count > most_ranks():
        raise LabError(
            say(
                "{count} ranks are too many for the {cores} cores of this machine: at most {most}.",
                count=count,
                cores=os.cpu_count() or 1,
                most=most_ranks(),
            )
        )
    for name in changes:
        if scenario.change(name) is None:
            raise LabError(
                say(
                    "{scenario} has no change “{name}”. Changes: {names}",
                    scenario=scenario.name,
                    name=name,
                    names=", ".join(one.name for one in scenario.changes) or "-",
                )
            )
    if control is not None and control not in {one.name for one in scenario.controls}:
        raise LabError(
            say(
                "{scenario} has no control “{name}”. Controls: {names}",
                scenario=scenario.name,
                name=control,
                names=", ".join(one.name for one in scenario.controls) or "-",
            )
        )
    return Settings(
        fault=fault,
        changes=tuple(changes),
        control=control or "",
        backend=backend_for(scenario, backend, count),
        ranks=count,
        seed=seed,
        steps=scenario.steps if steps is None else steps,
        timeout=scenario.timeout if timeout is None else timeout,
        sizes={**scenario.sizes, **chosen(scenario, sizes)},
    )


def check_machine(scenario: Scenario) -> None:
    """Whether this machine can run a scenario.

    Raises:
        LabError: it cannot; says what is missing.
    """
    if "linux" in scenario.needs and sys.platform != "linux":
        raise LabError(say("{name} needs Linux.", name=scenario.name))
    if "root" in scenario.needs and hasattr(os, "geteuid") and os.geteuid() != 0:
        raise LabError(
            say(
                "{name} needs root: it limits what the system gives to its processes.",
                name=scenario.name,
            )
        )
    if "memory-cgroup" in scenario.needs and not _memory_cgroup():
        raise LabError(
            say("{name} needs a memory cgroup that it may write to.", name=scenario.name)
        )
    if sys.platform == "win32":
        raise LabError(say("Experiments need Linux or macOS: they fork processes."))


def _memory_cgroup() -> bool:
    from pathlib import Path

    first = Path("/sys/fs/cgroup/memory")
    if first.is_dir():
        return os.access(first, os.W_OK)
    root = Path("/sys/fs/cgroup")
    try:
        delegated = "memory" in (root / "cgroup.subtree_control").read_text()
    except OSError:
        return False
    return delegated and os.access(root, os.W_OK)
