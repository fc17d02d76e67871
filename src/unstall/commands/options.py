"""Options of the command line that a call does not use: they are refused, not passed over."""

from __future__ import annotations

from collections.abc import Collection

import typer


def given(ctx: typer.Context, but: Collection[str] = ()) -> str:
    """The options that stand on the command line, as they are written there, joined by commas.

    Args:
        ctx: of the command.
        but: names of parameters that are not meant.

    Returns:
        ``--ranks, --size``; empty where there is none.
    """
    found = []
    for one in ctx.command.params:
        source = ctx.get_parameter_source(one.name or "")
        if one.param_type_name != "option" or one.name in but:
            continue
        if source is not None and source.name == "COMMANDLINE":
            found.append(max(one.opts, key=len))
    return ", ".join(found)


def one_of(ctx: typer.Context, names: Collection[str]) -> str:
    """Those of these parameters that stand on the command line, as :func:`given` tells them."""
    every = {one.name or "" for one in ctx.command.params}
    return given(ctx, every - set(names))
