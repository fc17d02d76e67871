"""The pages of ``unstall explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Styled

from unstall.model.text import Text, say

if TYPE_CHECKING:
    from unstall.causes.base import Cause


#: Headings of the families, as causes name them.
FAMILIES: dict[str, Text] = {
    "device": say("device"),
    "launch and configuration": say("launch and configuration"),
    "node and network": say("node and network"),
    "one process died first": say("one process died first"),
    "one rank is alive but late": say("one rank is alive but late"),
    "serving and RL coupling": say("serving and RL coupling"),
    "the ranks diverge": say("the ranks diverge"),
    "none": say("the evidence does not decide"),
}


def show_all(causes: Sequence[Cause], language: str, console: Console) -> None:
    """All causes in one table, by family; what is of none stands last."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(say("cause").render(language), no_wrap=True)
    table.add_column(say("what it is").render(language))
    family = None
    for cause in sorted(causes, key=lambda one: one.family == "none"):
        if cause.family != family:
            family = cause.family
            table.add_section()
            heading = FAMILIES[family].render(language)
            table.add_row(Styled(heading, style="bold"), "")
        table.add_row(Styled("  " + cause.id), Styled(cause.title.render(language)))
    console.print(table)


def show_one(cause: Cause, language: str, console: Console) -> None:
    """One cause's page."""
    console.print(Styled(cause.id, style="bold"), Styled(cause.title.render(language)))
    console.print()
    console.print(Styled(cause.about.render(language)))
    _section(console, say("How it shows"), cause.shows, language)
    _section(console, say("What decides"), (cause.decide,), language)
    _section(console, say("What fixes it"), cause.remedies, language, numbered=True)
    if cause.look_alikes:
        console.print()
        console.print(Styled(say("Look-alikes").render(language), style="bold"))
        for other in cause.look_alikes:
            line = Styled(f"{other.cause}: ", style="italic")
            line.append(other.difference.render(language), style="not italic")
            console.print(Padding(line, (0, 0, 0, 2)))
    if cause.sources:
        console.print()
        console.print(Styled(say("Sources").render(language), style="bold"))
        for source in cause.sources:
            console.print(Padding(Styled(source), (0, 0, 0, 2)))


def _section(
    console: Console,
    title: Text,
    items: Sequence[Text],
    language: str,
    *,
    numbered: bool = False,
) -> None:
    console.print()
    console.print(Styled(title.render(language), style="bold"))
    for number, item in enumerate(items, 1):
        mark = f"{number}. " if numbered else "- "
        console.print(Padding(Styled(mark + item.render(language)), (0, 0, 0, 2)))
