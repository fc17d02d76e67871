"""The environment that unstall itself runs in, where it has a stack's versions already."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.recipe import Recipe, normal


def running(recipe: Recipe) -> Environment | None:
    """This interpreter's environment, ``None`` unless it has exactly the versions asked for.

    A local part of a version (``+cpu``) says how it was built: it counts only where it was asked
    for.
    """
    for name, version in recipe.asked.items():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            return None
        if version not in (found, found.partition("+")[0]):
            return None
    versions: dict[str, str] = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:
            versions.setdefault(normal(name), one.version)
    python = Path(sys.executable)
    return Environment(
        place=Path(sys.prefix), python=python, versions=dict(sorted(versions.items()))
    )
