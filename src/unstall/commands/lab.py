"""How a command that runs experiments ends where nothing was run, or where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def ended_early(language: str) -> Iterator[None]:
    """Tell on standard error, in one line, why a call ends before it could report anything.

    Args:
        language: of the line.

    Raises:
        typer.Exit: 2 where the call was wrong or a file could not be written, 130 where the user
            stopped it.
        BrokenPipeError: as it was; whoever read the report has gone.
    """
    from unstall.experiments.nurse import LabError
    from unstall.experiments.stopping import STOPPED
    from unstall.model.text import say

    try:
        yield
    except LabError as error:
        typer.echo(f"unstall: {error.text.render(language)}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        text = say("stopped by you before anything was run")
        typer.echo(f"unstall: {text.render(language)}", err=True)
        raise typer.Exit(STOPPED) from error
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, a folder that was taken away
        typer.echo(f"unstall: {error}", err=True)
        raise typer.Exit(2) from error
