"""``unstall explain``: the page of one cause, or the table of all."""

from __future__ import annotations

import difflib
from typing import Annotated, Optional

import typer

from unstall.commands.diagnose import Language


def explain(
    identifier: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Argument(metavar="[CAUSE]", help="An identifier such as engine-desync."),
    ] = None,
    language: Annotated[Language, typer.Option(help="Language of the page.")] = Language.auto,
) -> None:
    """Show one cause: what happens, how it shows, its look-alikes and what fixes it.

    Without a cause, all causes are listed.

    Examples:

      unstall explain

      unstall explain engine-desync

      unstall explain uneven-batches --language zh
    """
    from rich.console import Console

    from unstall.causes import all_causes, cause
    from unstall.reports.explain import show_all, show_one

    chosen = "en" if language is Language.auto else language.value
    console = Console(highlight=False)
    if identifier is None:
        show_all(all_causes(), chosen, console)
        return
    found = cause(identifier.strip().lower().replace("_", "-"))
    if found is None:
        known = [one.id for one in all_causes()]
        near = difflib.get_close_matches(identifier, known, n=3, cutoff=0.4)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        typer.echo(
            f"unstall: no cause is called {identifier!r}{hint} (unstall explain lists them all)",
            err=True,
        )
        raise typer.Exit(2)
    show_one(found, chosen, console)
