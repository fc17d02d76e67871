"""The frameworks' own rows, gathered from ``unstall/programs/<framework>/stacks.py``.

Such a module has ``SIGNS: tuple[FrameSign, ...]``, ``CIRCUMSTANCES: tuple[Circumstance, ...]`` and
``ROLES: tuple[RoleSign, ...]``; any may be missing. A framework is added by adding its file.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module, resources
from types import ModuleType

from unstall.stacks import signs_libraries, signs_python, signs_torch
from unstall.stacks.rows import Circumstance, FrameSign, RoleSign


@lru_cache(maxsize=1)
def _modules() -> tuple[ModuleType, ...]:
    found = []
    for entry in sorted(resources.files("unstall.programs").iterdir(), key=lambda e: e.name):
        if entry.name.isidentifier() and entry.joinpath("stacks.py").is_file():
            found.append(import_module(f"unstall.programs.{entry.name}.stacks"))
    return tuple(found)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@lru_cache(maxsize=1)
def signs() -> dict[str, tuple[FrameSign, ...]]:
    """All frame signs by the last part of their functions' names, the general ones first."""
    found: dict[str, list[FrameSign]] = {}
    general = (*signs_torch.SIGNS, *signs_python.SIGNS, *signs_libraries.SIGNS)
    special = (sign for module in _modules() for sign in getattr(module, "SIGNS", ()))
    for sign in (*general, *special):
        for function in dict.fromkeys(map(_last, sign.functions)):
            found.setdefault(function, []).append(sign)
    return {name: tuple(rows) for name, rows in found.items()}


@lru_cache(maxsize=1)
def circumstances() -> dict[str, tuple[Circumstance, ...]]:
    """What the frameworks' frames add to a wait, by the last part of their functions' names."""
    found: dict[str, list[Circumstance]] = {}
    for module in _modules():
        for row in getattr(module, "CIRCUMSTANCES", ()):
            for function in dict.fromkeys(map(_last, row.functions)):
                found.setdefault(function, []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


@lru_cache(maxsize=1)
def role_signs() -> tuple[RoleSign, ...]:
    """By what the frameworks' processes are known, the weightiest first."""
    rows: list[RoleSign] = []
    for module in _modules():
        rows.extend(getattr(module, "ROLES", ()))
    return tuple(sorted(rows, key=lambda row: -row.weight))
