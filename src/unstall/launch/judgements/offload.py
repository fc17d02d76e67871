"""States that are kept in host memory: what they cost there."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement
from unstall.model.text import say

_SETTINGS = ("offload optimizer", "offload param")


def judge(context: Context) -> Iterator[Judgement]:
    """One row for all programs, where one of them keeps states on the CPU."""
    found = {
        la.label: [la.settings[name] for name in _SETTINGS if name in la.settings]
        for la in context.launches
    }
    values = [value for several in found.values() for value in several]
    if not any(value.text == "cpu" for value in values):
        return
    yield Judgement(
        "offload",
        {label: show(several[0]) if several else "-" for label, several in found.items()},
        "ok",
        say(
            "the optimizer's states are in host memory: 12 bytes for each parameter (weights and "
            "two moments in 32 bits) over all ranks of a node, and more while they are loaded"
        ),
        places(*values),
    )
