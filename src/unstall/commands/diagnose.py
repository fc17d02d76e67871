"""``unstall diagnose``: from a pasted report, logs, scripts, stacks and dumps to a verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer


class Language(str, Enum):
    """Language of the report."""

    auto = "auto"
    en = "en"
    zh = "zh"


def diagnose(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Logs, launch scripts, pasted issues, stack dumps, recorder dumps; folders, "
            "globs, archives and compressed files; - for standard input.",
        ),
    ],
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            help="All evidence, settings side by side, time line, excerpts.",
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown, to be pasted into an issue tracker.")
    ] = False,
    as_html: Annotated[bool, typer.Option("--html", help="One self-contained HTML page.")] = False,
    output: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Option("--output", "-o", metavar="FILE", help="Write the report there."),
    ] = None,
    language: Annotated[
        Language,
        typer.Option(help="Language of the report; auto is the input's."),
    ] = Language.auto,
) -> None:
    """Say which program, process group, rank and line did it, with the evidence.

    Give it whatever there is; the more of it, the surer the answer. Nothing in the input is
    executed.

    Examples:

      unstall diagnose issue.txt

      unstall diagnose run.log launch.sh dumps/

      unstall diagnose 'logs/*.log' -v

      kubectl logs job/train | unstall diagnose -

      unstall diagnose issue.txt --markdown --language zh

    Exit status: 0 a diagnosis was made, also that nothing failed; 1 the input holds nothing to
    diagnose; 2 the input could not be read or the call was wrong.
    """
    if as_json + as_markdown + as_html > 1:
        _fail("choose one of --json, --markdown and --html")
    from unstall.commands.output import readable
    from unstall.diagnosis import diagnose as make

    stdin = sys.stdin.buffer if "-" in paths else None
    with _progress() as tell:
        found = make(paths, stdin=stdin, progress=tell)
    chosen = found.language if language is Language.auto else language.value
    if language is Language.auto and output is None and not as_json + as_markdown + as_html:
        chosen = readable(chosen)

    for problem in found.unread:
        typer.echo(f"unstall: {problem.place.source}: {getattr(problem, 'reason', '')}", err=True)
    if found.counts.get("sources", 0) == 0 and found.unread:
        raise typer.Exit(2)

    if as_json:
        from unstall.reports.json import to_json

        _write(to_json(found, chosen).decode(), output)
    elif as_markdown:
        from unstall.reports.markdown import to_markdown

        _write(to_markdown(found, chosen), output)
    elif as_html:
        from unstall.reports.html import to_html

        _write(to_html(found, chosen), output)
    else:
        _to_terminal(found, chosen, verbose, output)
    if found.verdict == "inconclusive" and not found.causes:
        raise typer.Exit(1)


def _to_terminal(found: object, language: str, verbose: int, output: Path | None) -> None:
    from rich.console import Console

    from unstall.model.findings import Diagnosis
    from unstall.reports.terminal import render

    assert isinstance(found, Diagnosis)  # noqa: S101 - narrows the type for the checker
    if output is None:
        render(found, language=language, verbose=verbose, console=Console(highlight=False))
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            console = Console(file=file, width=100, highlight=False, no_color=True)
            render(found, language=language, verbose=verbose, console=console)
    except OSError as error:
        _fail(f"{output}: cannot be written: {error.strerror}")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        _fail(f"{output}: cannot be written: {error.strerror}")


def _fail(message: str) -> None:
    typer.echo(f"unstall: {message}", err=True)
    raise typer.Exit(2)


class _progress:  # noqa: N801 - used as a context manager, reads as a word
    """Shows bytes read on a terminal, once reading takes more than a second."""

    def __init__(self) -> None:
        self._shown = False
        self._begun = 0.0

    def __enter__(self) -> Callable[[int, int | None, str], None] | None:
        if not sys.stderr.isatty():
            return None
        import time

        self._begun = time.monotonic()
        last = [self._begun]

        def tell(done: int, total: int | None, name: str) -> None:
            now = time.monotonic()
            if now - self._begun < 1 or now - last[0] < 0.2:
                return
            last[0] = now
            share = f" of {total / 1e6:.0f}" if total else ""
            sys.stderr.write(f"\r\x1b[Kreading {done / 1e6:.0f}{share} MB  {name[-60:]}")
            sys.stderr.flush()
            self._shown = True

        return tell

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
