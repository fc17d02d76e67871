"""Sizes of a scenario: what each may be, and what the user asked for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.scenario import Scenario
from unstall.model.text import say


class Bounds(msgspec.Struct, frozen=True):
    """What a size may be, both ends included; ``whole``: only whole numbers."""

    least: float
    most: float
    whole: bool = False


def bounds(name: str) -> Bounds:
    """What a size of that name may be on this machine.

    None of them is to bring the machine down, and none to take the fault away unseen: one engine
    has no other to fall out of step with, one completion of a prompt no spread.

    Raises:
        KeyError: no size is called so.
    """
    cores = os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError):
        memory = 8000.0
    share = max(int(memory / 8), 256)  # megabytes that one size may take
    return {
        "engines": Bounds(2, max(8 * cores, 2), True),
        "prompts": Bounds(1, 4096, True),
        "generations": Bounds(2, 4096, True),
        "batch": Bounds(1, 4096, True),
        "tokens": Bounds(1, 100_000, True),
        "threads": Bounds(3, 390, True),  # beyond it the higher limit is reached as well
        "megabytes": Bounds(1, share),
        "kilobytes": Bounds(64, min(share * 1000, 1 << 19)),  # a size of 0 would be no limit
        "kilopixels": Bounds(0.1, 100_000),
        "spread": Bounds(0, 5),
        "times": Bounds(0.1, 9),  # a time-out ten times as long covers it
        "threshold": Bounds(0.5, 19),
        "pause": Bounds(0, 3600),
    }[name]


def most_ranks() -> int:
    """How many ranks this machine can bear: they mostly wait."""
    return 8 * (os.cpu_count() or 1)


def plain(number: float) -> str:
    """A number as a user writes it."""
    return str(int(number)) if number == int(number) else f"{number:g}"


def chosen(scenario: Scenario, given: Sequence[str]) -> dict[str, float]:
    """The sizes that ``NAME=NUMBER`` words ask for; of several of one name the last.

    Raises:
        LabError: a name is none of the scenario's, or a number is not one that it may be.
    """
    return dict(_one(scenario, text) for text in given)


def _one(scenario: Scenario, text: str) -> tuple[str, float]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if name not in scenario.sizes:
        near = difflib.get_close_matches(name.lower(), scenario.sizes, n=2, cutoff=0.5)
        if near:
            raise LabError(
                say(
                    "“{text}” is not a size of {scenario}; near: {near}. Sizes: {names}",
                    text=text,
                    scenario=scenario.name,
                    near=", ".join(near),
                    names=_known(scenario),
                )
            )
        raise LabError(
            say(
                "“{text}” is not a size of {scenario}. Sizes: {names}",
                text=text,
                scenario=scenario.name,
                names=_known(scenario),
            )
        )
    limits = bounds(name)
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if equals and limits.least <= number <= limits.most:
        if not limits.whole:
            return name, number
        if number == int(number):
            return name, int(number)
    places = {
        "name": name,
        "least": plain(limits.least),
        "most": plain(limits.most),
        "value": value or "-",
        "default": plain(scenario.sizes[name]),
    }
    if limits.whole:
        raise LabError(
            say(
                "{name} is a whole number from {least} to {most} on this machine, not “{value}”: "
                "--size {name}={default}",
                **places,
            )
        )
    raise LabError(
        say(
            "{name} is a number from {least} to {most} on this machine, not “{value}”: "
            "--size {name}={default}",
            **places,
        )
    )


def _known(scenario: Scenario) -> str:
    return ", ".join(f"{name}={plain(value)}" for name, value in scenario.sizes.items()) or "-"
