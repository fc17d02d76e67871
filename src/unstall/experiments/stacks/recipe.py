"""Which stacks there are, and what each installs."""

from __future__ import annotations

import platform
import re
import sys
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from unstall.experiments.nurse import LabError
from unstall.model.text import say

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser for Python 3.10
    import tomli as tomllib

_ASKED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]{0,80})\s*==\s*([A-Za-z0-9.+!_-]{1,40})\s*\Z")


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of an installation.

    Attributes:
        name: as recorded and shown.
        install: packages; each has its version in the recipe's ``versions``.
        dependencies: whether pip also installs what they ask for. Without it their metadata is
            not heeded: for builds whose metadata asks for what no index has.
        stand_in: ``name==version`` of a distribution whose metadata alone is made, for software
            that looks a name up which its CPU build does not have.
        why: what is special about it.
    """

    name: str
    install: tuple[str, ...] = ()
    dependencies: bool = True
    stand_in: str | None = None
    why: str = ""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stack: versions that run together on a CPU.

    Attributes:
        name: of its folder.
        asked: what a user asks for: package to version.
        python: versions of Python it runs with, as ``3.11``.
        machines: ``system-processor`` pairs that its builds exist for.
        download_mb, disk_mb: measured when the recipe was made; 1 MB is 10^6 bytes.
        minutes: how long its installation took then, on two cores.
        steps: in order.
        versions: of every package that is installed, dependencies as well.
    """

    name: str
    asked: dict[str, str]
    python: tuple[str, ...]
    machines: tuple[str, ...] = ()
    download_mb: int
    disk_mb: int
    minutes: int
    steps: tuple[Step, ...]
    versions: dict[str, str]


class Builds(msgspec.Struct, frozen=True, kw_only=True):
    """Which versions of a package have a build for a CPU.

    Attributes:
        package: name under which the CPU build is published.
        versions: of them.
        read: date on which the index was read.
    """

    package: str
    versions: tuple[str, ...]
    read: str


def asked(text: str) -> dict[str, str]:
    """``ms-swift==3.10.3,vllm==0.11.0`` as names and versions.

    Raises:
        LabError: it is not written like that.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        one = _ASKED.match(part)
        if one is None:
            raise LabError(
                say(
                    "“{text}” is no stack: write package==version, separated by commas, as in "
                    "ms-swift==3.10.3,vllm==0.11.0",
                    text=text,
                )
            )
        found[normal(one[1])] = one[2]
    return found


def normal(name: str) -> str:
    """A distribution's name as the packaging standards compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def recipes() -> tuple[Recipe, ...]:
    """All stacks, by name."""
    return tuple(
        recipe_from(tomllib.loads(entry.read_text(encoding="utf-8")))
        for entry in sorted(_data().iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml") and entry.name != "builds.toml"
    )


def recipe_from(table: dict[str, Any]) -> Recipe:
    """A recipe from its file's content."""
    return msgspec.convert(table, Recipe)


@cache
def builds() -> dict[str, Builds]:
    """Packages whose ordinary release needs a GPU, with the builds that do not."""
    text = _data().joinpath("builds.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Builds])


def _data() -> Any:
    return resources.files("unstall.experiments.stacks") / "data"


def recipe_for(text: str, known: tuple[Recipe, ...] | None = None) -> Recipe:
    """The stack that was asked for.

    Raises:
        LabError: there is none of these versions; says why and which there are.
    """
    wanted = asked(text)
    known = recipes() if known is None else known
    for recipe in known:
        if recipe.asked == wanted:
            return recipe
    for name, version in wanted.items():
        built = builds().get(name)
        if built is not None and not _has(built.versions, version):
            raise LabError(
                say(
                    "{name} {version} has no build for a CPU: {package} has been published for "
                    "{versions} (read {date}).",
                    name=name,
                    version=version,
                    package=built.package,
                    versions=", ".join(built.versions),
                    date=built.read,
                )
            )
    raise LabError(
        say(
            "There is no stack “{text}”: its versions are not known to run together on a CPU. "
            "Stacks: {names}",
            text=text,
            names="; ".join(written(one) for one in known) or "-",
        )
    )


def _has(versions: tuple[str, ...], version: str) -> bool:
    return any(one == version or one.startswith(f"{version}.post") for one in versions)


def written(recipe: Recipe) -> str:
    """A stack as it is asked for."""
    return ",".join(f"{name}=={version}" for name, version in recipe.asked.items())


def check_machine(recipe: Recipe) -> None:
    """Whether a stack's builds exist for this machine.

    Raises:
        LabError: they do not.
    """
    here = f"{platform.system().lower()}-{platform.machine().lower()}"
    if recipe.machines and here not in recipe.machines:
        raise LabError(
            say(
                "{stack} has CPU builds for {machines}; this machine is {here}.",
                stack=written(recipe),
                machines=", ".join(recipe.machines),
                here=here,
            )
        )
