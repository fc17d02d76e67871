"""NCCL variables that differ between programs which form one communicator."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, table
from unstall.model.plan import Judgement
from unstall.model.text import say

_HARMLESS = (
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE",
    "NCCL_TIMEOUT",
    "NCCL_ASYNC_ERROR_HANDLING",
)


def judge(context: Context) -> Iterator[Judgement]:
    """A row for each variable that differs."""
    for one, other in context.pairs():
        if not context.communicates(one, other):
            continue
        names = dict.fromkeys(
            n
            for launch in (one, other)
            for n in launch.environment
            if n.startswith("NCCL_") and n not in _HARMLESS
        )
        for name in names:
            first, second = one.environment.get(name), other.environment.get(name)
            if first is not None and second is not None and first.same_as(second) is not False:
                continue
            yield Judgement(
                name,
                table((one, other), name),
                "suspicious",
                say(
                    "{one} and {other} form one NCCL communicator for the weights, and NCCL "
                    "expects this "
                    "variable to be the same on every rank of it",
                    one=one.label,
                    other=other.label,
                ),
                places(first, second, one.place, other.place),
                None,
                ("weight-sync-failure",),
            )
