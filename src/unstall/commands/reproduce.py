"""``unstall reproduce``: a cause as real processes on this machine."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from unstall.commands.numbers import finite

if TYPE_CHECKING:
    from unstall.model.findings import Diagnosis


class Backend(str, Enum):
    """Back end of the process groups."""

    auto = "auto"
    gloo = "gloo"
    nccl = "nccl"


class Language(str, Enum):
    """Language of the report."""

    en = "en"
    zh = "zh"


def reproduce(
    name: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Argument(
            metavar="[CAUSE|SCENARIO]", help="What to reproduce; without it, all are listed."
        ),
    ] = None,
    ranks: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Trainer ranks; default: the scenario's."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, weights and timing.")] = 0,
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Steps after which a run that did not hang is finished."),
    ] = None,
    timeout: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=2, max=86400, callback=finite, help="Time-out of the process groups in seconds."
        ),
    ] = None,
    size: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME=NUMBER", help="A size of the scenario; can be repeated."),
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
    needed, torch is: pip install "unstall[lab]". The run is stopped once its evidence is gathered;
    nothing is left running.
    With --stack the software that a report names is installed once, at exactly these versions and
    apart from everything else, and is run instead of the scenario's own small programs.

    Examples:

      unstall reproduce

      unstall reproduce engine-desync

      unstall reproduce grpo-rollout-server --ranks 6 --size engines=4

      unstall reproduce --from run.log launch.sh

      unstall reproduce late-tokenizing --export repro.py

      unstall reproduce grpo-rollout-server --stack vllm==0.11.0

    Exit status: 0 it was reproduced and its evidence was diagnosed as its cause (or, for a
    control, it finished), 1 it was not, 2 the call was wrong or the machine cannot run it.
    """
    from unstall.experiments.interrupts import stop_once
    from unstall.experiments.nurse import LabError

    stop_once()
    try:
        code = _reproduce(
            name, ranks, seed, steps, timeout, size or [], backend.value, control, from_ or [],
            export, stack, output, as_json, language.value,
        )  # fmt: skip
    except LabError as error:
        typer.echo(f"unstall: {error.text.render(language.value)}", err=True)
        code = 2
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, a folder that was taken away
        typer.echo(f"unstall: {error}", err=True)
        code = 2
    raise typer.Exit(code)


def _reproduce(
    name: str | None,
    ranks: int | None,
    seed: int,
    steps: int | None,
    timeout: float | None,
    sizes: list[str],
    backend: str,
    control: str | None,
    report: list[str],
    export: Path | None,
    stack: str | None,
    output: Path | None,
    as_json: bool,
    language: str,
) -> int:
    from unstall.experiments.choose import scenario_named, settings_for
    from unstall.experiments.nurse import LabError
    from unstall.model.text import say

    given: Diagnosis | None = None
    if report:
        from unstall.experiments.from_report import choose

        chosen = choose(report, name)
        given, name = chosen.diagnosis, chosen.scenario
        ranks = ranks or chosen.ranks
        sizes = [*chosen.sizes, *sizes]
        typer.echo(f"unstall: {chosen.text.render(language)}", err=True)
    if name is None:
        _list(as_json, language)
        return 0
    choice = None
    if stack is not None:
        from unstall.experiments.stacks.sessions import choose as choose_stack

        choice = choose_stack(name, stack)
    scenario = choice.scenario if choice is not None else scenario_named(name)
    settings = settings_for(
        scenario, ranks=ranks, seed=seed, steps=steps, timeout=timeout, control=control,
        sizes=sizes, backend=backend,
    )  # fmt: skip
    if export is not None and choice is not None:
        raise LabError(say("--export writes a scenario; a stack's own script is in its evidence."))
    if export is not None:
        from unstall.experiments.export import export_scenario

        export_scenario(scenario, settings, export)
        typer.echo(str(export))
        return 0
    return _run(scenario, settings, given, choice, output, as_json, language)


def _list(as_json: bool, language: str) -> None:
    from unstall.experiments.library import all_scenarios

    if as_json:
        from unstall.reports.experiment_json import scenarios_json

        sys.stdout.write(scenarios_json(all_scenarios(), language))
        return
    from rich.console import Console

    from unstall.reports.experiment_terminal import listing

    listing(all_scenarios(), Console(highlight=False), language)


def _run(
    scenario: Any,
    settings: Any,
    given: Diagnosis | None,
    choice: Any,
    output: Path | None,
    as_json: bool,
    language: str,
) -> int:
    from unstall.experiments.closing import close
    from unstall.experiments.folders import new_folder
    from unstall.experiments.nurse import Nurse, require_lab
    from unstall.experiments.observed import features
    from unstall.experiments.runner import run_scenario
    from unstall.experiments.telling import Teller
    from unstall.model.text import say

    teller = Teller(language)
    if choice is not None:
        ready = choice.prepare(teller.note)
        folder = new_folder(output, scenario.name)
        teller.begin(scenario.name, say("starting its launch script"))
        run = ready.run(settings, folder, scenario.name, teller)
    else:
        require_lab()
        folder = new_folder(output, scenario.name)
        teller.begin(scenario.name, say("loading torch, starting its processes"))
        with Nurse() as nurse:
            run = run_scenario(scenario, settings, folder, nurse, name=scenario.name, tell=teller)
    teller.end(run)
    closing = None
    if run.outcome in ("hung", "failed"):
        teller("diagnose", run.step)
        closing = close(scenario, run)
    shared = features(given, run, closing.verdict if closing else None) if given else []
    if as_json:
        from unstall.reports.experiment_json import reproduction_json

        sys.stdout.write(reproduction_json(scenario, run, closing, language, shared))
    else:
        from rich.console import Console

        from unstall.experiments.stacks.recipe import written
        from unstall.reports.experiment_terminal import reproduction

        console = Console(highlight=False)
        stack = written(choice.recipe) if choice is not None else None
        reproduction(scenario, run, closing, console, language, shared=shared, stack=stack)
    if settings.control:
        return 0 if run.outcome == "finished" else 1
    return 0 if closing is not None and closing.closed else 1
