"""Causes: one module each, found by their presence in this package.

A module's name is its cause's identifier with ``_`` for ``-``; it holds ``CAUSE``. Modules that
hold no cause are named in :data:`SHARED`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from unstall.causes.base import Cause

SHARED = frozenset(
    {
        "activity",
        "aftermath",
        "apart",
        "base",
        "deaths",
        "deciding",
        "divergence",
        "engine_signs",
        "further_on",
        "hccl",
        "headlines",
        "known_bugs",
        "libfabric",
        "reasons",
        "scene",
        "servers",
        "told",
        "weight_exchange",
        "weight_stall",
    }
)

__all__ = ["Cause", "all_causes", "cause"]


@lru_cache(maxsize=1)
def all_causes() -> tuple[Cause, ...]:
    """Every cause, by family and identifier."""
    found: list[Cause] = []
    for module in pkgutil.iter_modules(__path__):
        if module.name in SHARED:
            continue
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        found.append(loaded.CAUSE)
    return tuple(sorted(found, key=lambda one: (one.family, one.id)))


def cause(identifier: str) -> Cause | None:
    """The cause with that identifier."""
    return next((one for one in all_causes() if one.id == identifier), None)
