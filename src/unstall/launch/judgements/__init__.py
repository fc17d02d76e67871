"""Judgements of a launch plan: one module each, every one a function ``judge(context)``.

A new judgement is one module and one line in :data:`MODULES`; the order is the table's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module

from unstall.launch.judgements.context import Context
from unstall.model.plan import Judgement

MODULES = (
    "devices",
    "parallel",
    "rendezvous",
    "environment",
    "ports",
    "server",
    "weights",
    "readiness",
    "timeouts",
    "batches",
    "network",
    "nccl",
    "container",
    "recorder",
    "releases",
)


def judge(context: Context) -> Iterator[Judgement]:
    """All judgements, in the order of :data:`MODULES`."""
    for name in MODULES:
        module = import_module(f"{__name__}.{name}")
        found: Iterable[Judgement] = module.judge(context)
        yield from found


__all__ = ["Context", "judge"]
