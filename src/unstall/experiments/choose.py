"""What the user asked for, checked before anything is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from unstall.experiments.devices import backend_for
from unstall.experiments.library import find, near
from unstall.experiments.nurse import LabError
from unstall.experiments.scenario import Scenario, Settings
from unstall.model.text import say


def scenario_named(name: str) -> Scenario:
    """The scenario of that name, or the first that stands for the cause of that name.

    Raises:
        LabError: there is none; says the nearest names.
    """
    found = find(name)
    if found:
        return found[0]
    alike = near(name)
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
    cores = os.cpu_count() or 1
    if count > 8 * cores:
        raise LabError(
            say(
                "{count} ranks are too many for the {cores} cores of this machine: at most {most}.",
                count=count,
                cores=cores,
                most=8 * cores,
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
        sizes={**scenario.sizes, **_sizes(scenario, sizes)},
    )


def _sizes(scenario: Scenario, given: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if name not in scenario.sizes or not 0 <= number < 1e9:
            raise LabError(
                say(
                    "“{text}” is not a size of {scenario}. Sizes: {names}",
                    text=text,
                    scenario=scenario.name,
                    names=", ".join(f"{k}={v:g}" for k, v in scenario.sizes.items()) or "-",
                )
            )
        least, most = _range(name)
        if not least <= number <= most:
            raise LabError(
                say(
                    "{name} can be {least} to {most} on this machine, not {value}.",
                    name=name,
                    least=f"{least:g}",
                    most=f"{most:g}",
                    value=value,
                )
            )
        found[name] = number
    return found


def _range(name: str) -> tuple[float, float]:
    """What a size may be: none of them is to bring the machine down, and no count is below one."""
    cores = os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError):
        memory = 8000.0
    counts = {
        "engines": 8.0 * cores,
        "prompts": 4096.0,
        "generations": 4096.0,
        "batch": 4096.0,
        "tokens": 100_000.0,
        "threads": 4096.0,
    }
    if name in counts:
        return 1.0, counts[name]
    other = {
        "megabytes": float(int(memory / 8)),
        "kilobytes": float(int(memory * 1000 / 8)),
        "kilopixels": 100_000.0,
        "times": 1000.0,
        "pause": 3600.0,
    }
    return 0.0, other.get(name, 1e9)


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
