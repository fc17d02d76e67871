"""``unstall check``: what every launched program is given, before the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from unstall.commands.choices import Language

if TYPE_CHECKING:
    from unstall.model.plan import Plan


MOST_PROBLEMS = 20


def check(
    scripts: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Argument(
            metavar="SCRIPT...",
            help="Launch scripts, job files (Slurm, Kubernetes, compose), configuration files, or "
            "a pasted report that holds a script; - for standard input.",
        ),
    ] = None,
    given: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--with",
            metavar="PACKAGE=VERSION",
            help="A package's version, for defaults and known bugs; may be repeated.",
        ),
    ] = None,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment",
            help="Add what this machine has: devices, ports in use, /dev/shm, limits, versions.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown, to be pasted into an issue tracker.")
    ] = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="SARIF 2.1.0, for code hosts.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every port, time-out and reason.")
    ] = False,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Write the report there."),
    ] = None,
    language: Annotated[Language, typer.Option(help="Language of the report.")] = Language.en,
) -> None:
    """Show what every launched program is given, side by side, and what conflicts.

    The scripts are read, never run. Files that they source, and the configuration files that they
    name, are read too where they stand beside them.

    Examples:

      unstall check run_grpo.sh

      unstall check server.sh trainer.sh ds_zero3.json --with vllm=0.11.0

      unstall check job.slurm --sarif -o check.sarif

      unstall check --environment train.sh || exit 1

    Exit status: 0 nothing conflicts, 1 something conflicts, 2 the input could not be read, holds
    no launch, or the call was wrong.
    """
    if sum((as_json, as_markdown, as_sarif)) > 1:
        _fail("choose one of --json, --markdown and --sarif")
    if not scripts and not environment:
        _fail("name a script, or give --environment")
    versions = _versions(given or [])
    from unstall.launch import read_plan
    from unstall.launch.files import gather

    found = gather(scripts or [], sys.stdin.buffer if "-" in (scripts or []) else None)
    for problem in found.problems[:MOST_PROBLEMS]:
        typer.echo(f"unstall: {problem}", err=True)
    if len(found.problems) > MOST_PROBLEMS:
        more = len(found.problems) - MOST_PROBLEMS
        typer.echo(f"unstall: and {more} more that could not be read", err=True)
    if environment:
        from unstall.launch.machine import look, with_machine

        machine = look()
        versions = {**machine.versions, **found.versions, **versions}
        plan = read_plan(found.scripts, found.configs, versions, found.at_hand, found.searched)
        plan = with_machine(plan, machine)
    else:
        versions = {**found.versions, **versions}
        plan = read_plan(found.scripts, found.configs, versions, found.at_hand, found.searched)
    _report(plan, as_json, as_markdown, as_sarif, verbose, output, language.value)
    if any(j.judgement == "conflict" for j in plan.judgements):
        raise typer.Exit(1)
    if scripts and not plan.programs:
        if not found.problems:
            typer.echo("unstall: docs/check.md tells what is read", err=True)
        raise typer.Exit(2)


def _versions(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in given:
        name, equals, version = item.partition("=")
        version = version.lstrip("=")
        if not equals or not name.strip() or not version[:1].isdigit():
            _fail(f"--with {item}: expected PACKAGE=VERSION, such as vllm=0.11.0")
        found[name.strip()] = version
    return found


def _report(
    plan: Plan,
    as_json: bool,
    as_markdown: bool,
    as_sarif: bool,
    verbose: bool,
    output: Path | None,
    language: str,
) -> None:
    if as_json:
        from unstall.reports.plan_json import plan_json

        _write(plan_json(plan, language), output)
    elif as_sarif:
        from unstall.reports.plan_sarif import plan_sarif

        _write(plan_sarif(plan, language), output)
    elif as_markdown:
        from unstall.reports.plan_markdown import plan_markdown

        _write(plan_markdown(plan, language).encode("utf-8", "replace"), output)
    else:
        from rich.console import Console

        from unstall.reports.plan_terminal import render_plan

        if output is None:
            render_plan(plan, language=language, verbose=verbose, console=Console(highlight=False))
            return
        try:
            with output.open("w", encoding="utf-8") as file:
                console = Console(file=file, width=100, highlight=False, no_color=True)
                render_plan(plan, language=language, verbose=verbose, console=console)
        except OSError as error:
            _fail(f"{output}: cannot be written: {error.strerror}")


def _write(data: bytes, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        output.write_bytes(data)
    except OSError as error:
        _fail(f"{output}: cannot be written: {error.strerror}")


def _fail(message: str) -> None:
    typer.echo(f"unstall: {message}", err=True)
    raise typer.Exit(2)
