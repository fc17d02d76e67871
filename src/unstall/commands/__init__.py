"""The ``unstall`` command: one module for each subcommand."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unstall import __version__
from unstall.commands import check as _check
from unstall.commands import confirm as _confirm
from unstall.commands import diagnose as _diagnose
from unstall.commands import explain as _explain
from unstall.commands import reproduce as _reproduce
from unstall.commands import run as _run
from unstall.commands import trace as _trace
from unstall.commands.output import forgiving, outliving_readers

app = typer.Typer(
    name="unstall",
    help="Says which program, process group, rank and line made a multi-GPU job hang or crash.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unstall {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command("diagnose")(_diagnose.diagnose)
app.command("check")(_check.check)
app.command("trace")(_trace.trace)
app.command("reproduce")(_reproduce.reproduce)
app.command("confirm")(_confirm.confirm)
app.command("run", context_settings={"allow_interspersed_args": False})(_run.run)
app.command("explain")(_explain.explain)


def main() -> None:
    """Run the command; a reader that has gone or Ctrl-C brings no traceback."""
    outliving_readers()
    forgiving()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
