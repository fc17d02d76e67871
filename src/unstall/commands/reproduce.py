"""``unstall reproduce``: a cause as real processes on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from unstall.commands.choices import Backend, Language
from unstall.commands.numbers import finite


def reproduce(
    ctx: typer.Context,
    names: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Argument(
            metavar="CAUSE|SCENARIO",
            help="What to reproduce; without it, all are listed. After --from also more of the "
            "report.",
        ),
    ] = None,
    about: Annotated[
        bool,
        typer.Option(
            "--about",
            help="Describe it instead of running it: causes, changes, controls, sizes and their "
            "bounds.",
        ),
    ] = False,
    ranks: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Trainer ranks; default: the scenario's."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1001, help="Seed of data, weights and timing.")
    ] = 0,
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, max=10**9, help="Steps after which a run that did not hang is finished."
        ),
    ] = None,
    timeout: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=2, max=86400, callback=finite, help="Time-out of the process groups in seconds."
        ),
    ] = None,
    size: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="NAME=NUMBER",
            help="A size of the scenario (--about tells them); can be repeated.",
        ),
    ] = None,
    backend: Annotated[
        Backend,
        typer.Option(
            help="gloo runs on the CPU; nccl needs a GPU for each rank, and not every scenario "
            "can; auto is gloo unless a scenario says otherwise."
        ),
    ] = Backend.auto,
    control: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="Run a control instead: it looks alike, no hang."),
    ] = None,
    from_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--from",
            metavar="REPORT",
            help="Take scenario and sizes from a report: logs, scripts, dumps, as for diagnose.",
        ),
    ] = None,
    export: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE", help="Write the scenario as one Python file that only needs torch."
        ),
    ] = None,
    stack: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="PACKAGE==VERSION,...",
            help="Run this software itself on the CPU, in an environment made for it.",
        ),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FOLDER", help="Where the evidence goes."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    language: Annotated[Language, typer.Option(help="Language of the report.")] = Language.en,
) -> None:
    """Run a cause as real processes, watch it hang, and diagnose the evidence of that run.

    Everything runs on this machine's CPU with gloo unless --backend nccl is asked for; no GPU is
    needed, torch is: pip install '.[lab]' in the folder of unstall's source. The run is stopped
    once its evidence is gathered; nothing is left running.

    With --stack the software that a report names is installed once, at exactly these versions and
    apart from everything else, and is run instead of the scenario's own small programs.

    Examples:

      unstall reproduce

      unstall reproduce grpo-rollout-server --about

      unstall reproduce engine-desync

      unstall reproduce grpo-rollout-server --ranks 6 --size engines=4

      unstall reproduce --from run.log launch.sh

      unstall reproduce late-tokenizing --export repro.py

      unstall reproduce grpo-rollout-server --stack vllm==0.11.0

    Exit status: 0 it was reproduced and its evidence was diagnosed as its cause (or, for a
    control, it finished), 1 it was not, 2 the call was wrong or the machine cannot run it, 130 it
    was stopped (Ctrl-C).
    """
    from unstall.commands.lab import ended_early
    from unstall.commands.options import given, one_of
    from unstall.commands.output import readable
    from unstall.experiments import reproducing
    from unstall.experiments.interrupts import stop_once
    from unstall.experiments.nurse import LabError
    from unstall.model.text import say

    chosen = readable(language.value)
    stop_once()
    with ended_early(chosen):
        request = reproducing.Request(
            names=tuple(names or ()),
            ranks=ranks,
            seed=seed,
            steps=steps,
            timeout=timeout,
            sizes=tuple(size or ()),
            backend=backend.value,
            control=control,
            report=tuple(from_ or ()),
            export=export,
            stack=stack,
            output=output,
            as_json=as_json,
            language=chosen,
        )
        if about:
            if unused := given(ctx, ("about", "stack", "as_json", "language")):
                raise LabError(
                    say("--about only describes: {options} is for a run", options=unused)
                )
            code = reproducing.described(request, sys.stdout)
        elif not names and not from_:
            if unused := given(ctx, ("as_json", "language")):
                raise LabError(
                    say(
                        "{options} is for a run: say of what, unstall reproduce NAME {options}. "
                        "All scenarios: unstall reproduce",
                        options=unused,
                    )
                )
            code = reproducing.listed(request, sys.stdout)
        else:
            if stack is not None and timeout is not None:
                raise LabError(say("--timeout is for scenarios; a stack's software says its own"))
            if export is not None and (unused := one_of(ctx, ("output", "as_json"))):
                raise LabError(
                    say("--export only writes a file: {options} is for a run", options=unused)
                )
            code = reproducing.reproduced(request, sys.stdout)
    raise typer.Exit(code)
