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
    "drivers",
    "rendezvous",
    "counted",
    "started",
    "placed",
    "environment",
    "ports",
    "server",
    "weights",
    "inputs",
    "readiness",
    "timeouts",
    "batches",
    "offload",
    "network",
    "nccl",
    "container",
    "recorder",
    "releases",
    "defects",
)


def judge(context: Context) -> Iterator[Judgement]:
    """All judgements, in the order of :data:`MODULES`.

    A variable's row that says it is in order is left out where another module has more to say of
    that variable for the same program.
    """
    found: list[tuple[str, Judgement]] = []
    for name in MODULES:
        module = import_module(f"{__name__}.{name}")
        rows: Iterable[Judgement] = module.judge(context)
        found.extend((name, row) for row in rows)
    for name, row in found:
        told = any(
            other.name == row.name and set(other.values) & set(row.values)
            for module_name, other in found
            if module_name != "environment"
        )
        if not (name == "environment" and row.judgement == "ok" and told):
            yield row


__all__ = ["Context", "judge"]
