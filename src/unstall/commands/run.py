"""``unstall run``: a command under guard."""

from __future__ import annotations

import re
import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from unstall.commands.choices import Language
from unstall.commands.numbers import finite


class OnStall(str, Enum):
    """What is done with a job that stands still."""

    report = "report"
    stop = "stop"


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command and its own options.")
    ],
    stall: Annotated[
        Optional[float],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Option(
            min=1,
            callback=finite,
            metavar="SECONDS",
            help="Seconds without progress after which the processes are looked at; by default "
            "five times the longest of the last steps, from 10 seconds to 10 minutes.",
        ),
    ] = None,
    start_up: Annotated[
        float,
        typer.Option(
            "--start-up",
            min=1,
            callback=finite,
            metavar="SECONDS",
            help="The same before the first steps, while models load and kernels compile; ranks "
            "that stand in a collective are told after a minute.",
        ),
    ] = 600.0,
    on_stall: Annotated[
        OnStall,
        typer.Option(
            help="report: keep the evidence and let the job be; stop: end it as well, if nothing "
            "has moved at another look."
        ),
    ] = OnStall.report,
    restarts: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            metavar="N",
            help="Start the command again, up to N times, when it fails or stalls (a stalled job "
            "is ended for that).",
        ),
    ] = 0,
    resume_with: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="'WORDS'",
            help="Words that are added to the command at a restart (a script must hand them on, "
            'with "$@"); {checkpoint} stands for the newest whole checkpoint.',
        ),
    ] = None,
    checkpoints: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="'PATTERN'",
            help="Where checkpoints are: 'output/checkpoint-*'. Those that were there before do "
            "not count.",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            min=0,
            callback=finite,
            metavar="SECONDS",
            help="Between SIGTERM and SIGKILL, when the job is ended.",
        ),
    ] = 30.0,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare", help="Add nothing to the command's environment: no Flight Recorder."
        ),
    ] = False,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="For the evidence; by default unstall-run-DATE here, if there is any.",
        ),
    ] = None,
    language: Annotated[Language, typer.Option(help="Language of what is said.")] = Language.en,
) -> None:
    """Run a command under guard: see a stall early, keep the evidence, start again.

    The command's output, exit status and signals are its own. When its steps (or, before the first,
    its lines) stop coming, the stacks of its processes are taken twice: only if nothing moves is
    that a stall. Then stacks, Flight Recorder dumps, log and command are kept and diagnosed.

    Examples:

      unstall run -- torchrun --nproc-per-node 8 train.py

      unstall run --on-stall stop -- bash launch.sh

      unstall run --restarts 3 --checkpoints 'out/checkpoint-*' --resume-with
      '--resume_from_checkpoint {checkpoint}' -- torchrun --nproc-per-node 8 train.py

    Exit status: the command's own, 128 and the number of the signal that ended it; 124 if it was
    ended because it stalled; 126 or 127 if it could not be started, 2 if unstall could not.
    """
    from importlib.util import find_spec

    from unstall.guard.startable import Unfit, fit

    words = fit(command)
    if isinstance(words, Unfit):
        typer.echo(f"unstall: {words.said.render(language.value)}", err=True)
        raise typer.Exit(words.status)
    from unstall.processes.evidence import py_spy

    missing = "psutil" if find_spec("psutil") is None else "py-spy" if py_spy() is None else ""
    if missing:
        typer.echo(
            f"unstall: {missing} is missing: pip install '.[run]' in the folder of unstall's "
            "source (or pip install psutil py-spy)",
            err=True,
        )
        raise typer.Exit(2)
    if sys.platform == "win32":
        typer.echo("unstall: run needs Linux or macOS", err=True)
        raise typer.Exit(2)
    from unstall.experiments.nurse import LabError
    from unstall.guard.record import Rules
    from unstall.guard.session import PLACE, Request, guard

    wrong = _without_sense(command, restarts, resume_with, checkpoints, PLACE)
    if wrong is not None:
        typer.echo(f"unstall: {wrong}", err=True)
        raise typer.Exit(2)
    rules = Rules(
        stall=stall,
        start_up=start_up,
        stop=on_stall is OnStall.stop or restarts > 0,
        grace=grace,
        bare=bare,
    )
    try:
        status = guard(
            Request(
                command=words,
                rules=rules,
                restarts=restarts,
                resume_with=resume_with,
                checkpoints=checkpoints,
                output=output,
                language=language.value,
            )
        )
    except LabError as error:
        typer.echo(f"unstall: {error.text.render(language.value)}", err=True)
        raise typer.Exit(2) from error
    except OSError as error:  # the folder in which it was started has gone, no process may start
        typer.echo(f"unstall: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(status)


def _without_sense(
    command: list[str],
    restarts: int,
    resume_with: str | None,
    checkpoints: str | None,
    place: str,
) -> str | None:
    """What is wrong with the options for restarts: after days is too late to tell."""
    if resume_with is None and checkpoints is None:
        return None
    if not restarts:
        return "--resume-with and --checkpoints are for restarts: say how many with --restarts"
    if resume_with is None:
        return None
    try:
        shlex.split(resume_with)
    except ValueError as error:
        return f"--resume-with {resume_with}: {error}"
    if place in resume_with and not checkpoints:
        return f"--resume-with has {place}: say with --checkpoints where"
    shell = Path(command[0]).name in ("sh", "bash", "dash", "zsh", "ksh") and "-c" in command[:-1]
    if shell and not re.search(r"\$\{?[@*0-9]", command[command.index("-c") + 1]):
        return (
            "--resume-with adds words behind bash -c 'LINE', where LINE takes none: write "
            '$UNSTALL_CHECKPOINT into LINE (it is empty at first), or "$@"'
        )
    return None
