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
        python: versions of Python it runs with, as ``3.11``; none: whichever unstall runs with.
        machines: ``system-processor`` pairs that its builds exist for.
        base: the stack, as it is asked for, over which this one is laid: its packages are used
            where this one has none of that name. ``""``: it stands alone.
        download_mb, disk_mb: measured when the recipe was made, without its base; 1 MB is 10^6
            bytes.
        minutes: how long its installation took then, on two cores.
        steps: in order.
        versions: of every package that is installed, dependencies and its base's as well.
    """

    name: str
    asked: dict[str, str]
    python: tuple[str, ...]
    machines: tuple[str, ...] = ()
    base: str = ""
    download_mb: int
    disk_mb: int
    minutes: int
    steps: tuple[Step, ...]
    versions: dict[str, str]


class AnyVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package whose ordinary release runs on a CPU, and which is a stack at any version.

    Attributes:
        oldest: version from which on it does what its stack needs.
        why: what that is.
        download_mb, disk_mb, minutes: as of a recipe, for a machine where it is largest.
        tried: versions that were tried, with those of the dependencies they were tried with; of
            others the dependencies are pip's choice.
    """

    oldest: str
    why: str
    download_mb: int
    disk_mb: int
    minutes: int
    tried: dict[str, dict[str, str]] = {}


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
    found = tuple(
        recipe_from(tomllib.loads(entry.read_text(encoding="utf-8")))
        for entry in sorted(_data().iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml") and entry.name not in ("any.toml", "builds.toml")
    )
    return tuple(_laid_over(one, found) for one in found)


def recipe_from(table: dict[str, Any]) -> Recipe:
    """A recipe from its file's content, without what its base brings."""
    return msgspec.convert(table, Recipe)


def _laid_over(recipe: Recipe, known: tuple[Recipe, ...]) -> Recipe:
    """The recipe with its base's versions below its own."""
    if not recipe.base:
        return recipe
    below = recipe_for(recipe.base, known)
    return msgspec.structs.replace(recipe, versions={**below.versions, **recipe.versions})


@cache
def builds() -> dict[str, Builds]:
    """Packages whose ordinary release needs a GPU, with the builds that do not."""
    text = _data().joinpath("builds.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Builds])


@cache
def any_version() -> dict[str, AnyVersion]:
    """Packages that are a stack at any version, alone."""
    text = _data().joinpath("any.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, AnyVersion])


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
        if len(wanted) == 1 and name in any_version() and _numbers(version):
            return _alone(name, version, any_version()[name])
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
            names="; ".join(
                [*(written(one) for one in known), *(f"{name}==…" for name in any_version())]
            ),
        )
    )


def _alone(name: str, version: str, about: AnyVersion) -> Recipe:
    """The recipe of one package at any version.

    Raises:
        LabError: the version is too old for what is run.
    """
    if _numbers(version) < _numbers(about.oldest):
        raise LabError(
            say(
                "{name} {version} is too old: {oldest} or later is needed ({why}).",
                name=name,
                version=version,
                oldest=about.oldest,
                why=about.why,
            )
        )
    return Recipe(
        name=f"{name}-{version}",
        asked={name: version},
        python=(),
        download_mb=about.download_mb,
        disk_mb=about.disk_mb,
        minutes=about.minutes,
        steps=(Step(name=name, install=(name,)),),
        versions={**about.tried.get(version, {}), name: version},
    )


def _numbers(version: str) -> tuple[int, ...]:
    """``(2, 8, 0)`` of ``2.8.0+cu128``; empty where it does not begin with a number."""
    found = re.match(r"\d{1,6}(?:\.\d{1,6}){0,4}", version)
    return tuple(map(int, found[0].split("."))) if found is not None else ()


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
