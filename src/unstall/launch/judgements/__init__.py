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
    "offload",
    "network",
    "nccl",
    "container",
    "recorder",
    "releases",
)


def judge(context: Context) -> Iterator[Judgement]:
    """All judgements, in the order of :data:`MODULES`.

    A variable's row that says it is in order is left out where another row of that name says for
    the same program what is wrong with it.
    """
    found: list[tuple[str, Judgement]] = []
    for name in MODULES:
        module = import_module(f"{__name__}.{name}")
        rows: Iterable[Judgement] = module.judge(context)
        found.extend((name, row) for row in rows)
    for name, row in found:
        doubted = any(
            other.name == row.name
            and other.judgement != "ok"
            and set(other.values) & set(row.values)
            for _, other in found
        )
        if not (name == "environment" and row.judgement == "ok" and doubted):
            yield row


__all__ = ["Context", "judge"]
