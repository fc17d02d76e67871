"""``unstall confirm``: A and B in turn, and how sure the answer is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from unstall.commands.choices import Backend, Language
from unstall.commands.numbers import finite


def confirm(
    ctx: typer.Context,
    name: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Argument(
            metavar="CAUSE|SCENARIO", help="What unstall reproduce lists, by either name."
        ),
    ] = None,
    change: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME",
            help="The scenario's change (unstall reproduce NAME --about); default: its first.",
        ),
    ] = None,
    script: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="A launch script of your own instead of a scenario."),
    ] = None,
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--set",
            metavar="PROGRAM.FLAG[=VALUE]",
            help="With --script: set a program's flag in B; a switch has no value.",
        ),
    ] = None,
    unset: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="PROGRAM.FLAG", help="With --script: remove a program's flag in B."),
    ] = None,
    env: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="[PROGRAM.]NAME=VALUE", help="With --script: set a variable in B."),
    ] = None,
    until: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="'step>=N'|PATTERN|SECONDS",
            help="When a run counts as finished: a step, a line of the log, or so many seconds "
            "without a hang; by default when it ends by itself.",
        ),
    ] = None,
    until_confirmed: Annotated[
        bool,
        typer.Option(
            "--until-confirmed", help="Try the changes in their order until one is confirmed."
        ),
    ] = False,
    from_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--from",
            metavar="REPORT",
            help="With --script and --until-confirmed: take the changes from this diagnosis.",
        ),
    ] = None,
    runs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("-n", "--runs", min=1, max=1000, help="Runs of A and of B each."),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(min=1e-6, max=0.5, callback=finite, help="Allowed chance of a wrong yes."),
    ] = 0.05,
    stall: Annotated[
        float,
        typer.Option(
            min=1,
            callback=finite,
            help="With --script: seconds without progress that count as a hang.",
        ),
    ] = 120.0,
    start_up: Annotated[
        float,
        typer.Option(
            "--start-up",
            min=1,
            callback=finite,
            help="With --script: the same before its first step is seen, where nothing may come "
            "for longer; no less than --stall.",
        ),
    ] = 600.0,
    limit: Annotated[
        float,
        typer.Option(
            min=1, callback=finite, help="With --script: seconds after which a run is given up."
        ),
    ] = 3600.0,
    timeout: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=2,
            max=86400,
            callback=finite,
            help="Time-out of the process groups in seconds; with --script it is set in both "
            "copies, where a program has a flag for it.",
        ),
    ] = None,
    ranks: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Trainer ranks of a scenario."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**31 - 1001, help="Seed of the first run; later ones add 1."),
    ] = 0,
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=10**9, help="Steps after which a scenario's run has finished."),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="Let B run on to the scenario's long end.")
    ] = False,
    size: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="NAME=NUMBER",
            help="A size of the scenario (unstall reproduce NAME --about), of A and of B alike; "
            "can be repeated.",
        ),
    ] = None,
    backend: Annotated[
        Backend,
        typer.Option(
            help="Of a scenario: gloo runs on the CPU; nccl needs a GPU for each rank, and not "
            "every scenario can; auto is gloo unless a scenario says otherwise."
        ),
    ] = Backend.auto,
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
    """Prove that a change removes a hang: A (as it is) and B (changed) in turn, until it is clear.

    With a scenario everything runs on this machine's CPU (unless --backend nccl is asked for). With --script your own launch script
    runs on your own devices: A as it stands, B as a changed copy beside it; the file itself is
    never touched, and the difference is shown first.

    Examples:

      unstall confirm grpo-rollout-server --change independent-engines

      unstall confirm grpo-rollout-server --until-confirmed

      unstall confirm late-tokenizing --change longer-timeout -n 10

      unstall confirm grpo-rollout-server --stack vllm==0.11.0 --change independent-engines

      unstall confirm --script launch.sh --set 'rollout server.vllm_use_async_engine=true' --until 'step>=200'

      unstall confirm --script launch.sh --env trainer.NCCL_P2P_DISABLE=1 --until 600

    Exit status: 0 the change is confirmed, 1 it is not, 2 the call was wrong or nothing could run,
    130 it was stopped (Ctrl-C).
    """  # noqa: E501 - a command is not broken
    from unstall.commands.lab import ended_early
    from unstall.commands.output import readable
    from unstall.experiments import sessions
    from unstall.experiments.interrupts import stop_once
    from unstall.experiments.statistics import fisher, least_runs
    from unstall.model.text import say

    chosen = readable(language.value)
    stop_once()
    with ended_early(chosen):
        _refuse(ctx, name, script)
        if runs is not None and runs < (least := least_runs(alpha)):
            note = say(
                "-n {runs} cannot confirm anything: even if all of A hang and none of B, that is "
                "chance with p = {p}, allowed {alpha}. -n {least} or more can.",
                runs=runs,
                p=f"{fisher(runs, runs, 0, runs):.2g}",
                alpha=f"{alpha:g}",
                least=least,
            )
            typer.echo(f"unstall: {note.render(chosen)}", err=True)
        if script is not None:
            from unstall.experiments.scripts import session

            request = session.Request(
                script=script,
                set=tuple(set_ or ()),
                unset=tuple(unset or ()),
                env=tuple(env or ()),
                until=until,
                stall=stall,
                start_up=start_up,
                limit=limit,
                timeout=timeout,
                runs=runs,
                alpha=alpha,
                output=output,
                report=tuple(from_ or ()),
                until_confirmed=until_confirmed,
                as_json=as_json,
                language=chosen,
            )
            code = session.confirm_script(request, sys.stdout)
        else:
            code = sessions.confirm_scenario(
                sessions.Request(
                    name=name or "",
                    change=change,
                    until=until,
                    until_confirmed=until_confirmed,
                    runs=runs,
                    alpha=alpha,
                    timeout=timeout,
                    ranks=ranks,
                    seed=seed,
                    steps=steps,
                    long=long,
                    sizes=tuple(size or ()),
                    backend=backend.value,
                    stack=stack,
                    output=output,
                    as_json=as_json,
                    language=chosen,
                ),
                sys.stdout,
            )
    raise typer.Exit(code)


#: Parameters that only one way of calling uses.
_OF_SCENARIOS = ("change", "ranks", "seed", "steps", "long", "size", "backend", "stack")
_OF_SCRIPTS = ("set_", "unset", "env", "from_", "stall", "start_up", "limit")


def _refuse(ctx: typer.Context, name: str | None, script: Path | None) -> None:
    """Refuse a call that names nothing, two things, or options that it would not use.

    Raises:
        LabError: it does.
    """
    from unstall.commands.options import one_of
    from unstall.experiments.nurse import LabError
    from unstall.model.text import say

    if name is not None and script is not None:
        raise LabError(say("a scenario or --script, not both"))
    if name is None and script is None:
        raise LabError(
            say(
                "name a scenario (unstall reproduce lists them), or a script of your own with "
                "--script"
            )
        )
    if script is None and (unused := one_of(ctx, _OF_SCRIPTS)):
        raise LabError(
            say(
                "{options} is for a script of your own (--script FILE); a scenario has changes of "
                "its own (--change)",
                options=unused,
            )
        )
    if script is not None and (unused := one_of(ctx, _OF_SCENARIOS)):
        raise LabError(
            say(
                "{options} is for scenarios; a script is changed by --set, --unset and --env and "
                "says the rest itself",
                options=unused,
            )
        )
    ways = ("change", "set_", "unset", "env")
    if one_of(ctx, ("until_confirmed",)) and (named := one_of(ctx, ways)):
        raise LabError(
            say("--until-confirmed tries all changes, {options} names one", options=named)
        )
    if one_of(ctx, ("from_",)) and not one_of(ctx, ("until_confirmed",)):
        raise LabError(
            say("--from says which changes to try: it goes with --until-confirmed alone")
        )
    if one_of(ctx, ("until",)) and one_of(ctx, ("steps",)):
        raise LabError(say("--until 'step>=N' and --steps say the same: give one of them"))
    if one_of(ctx, ("stack",)) and one_of(ctx, ("timeout",)):
        raise LabError(say("--timeout is for scenarios; a stack's software says its own"))
