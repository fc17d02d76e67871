"""``unstall trace``: Flight Recorder dumps to one ranked verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from unstall.commands.choices import Language

if TYPE_CHECKING:
    from unstall.model.facts import Unreadable


def trace(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="DUMPS...",
            help="Flight Recorder dumps, pickle or JSON; folders, globs, archives and compressed "
            "files of them; - for standard input.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown, to be pasted into an issue tracker.")
    ] = False,
    perfetto: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this on Python 3.10
        typer.Option(
            metavar="FILE",
            help="Also write a time line for https://ui.perfetto.dev: a track per rank and group.",
        ),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Write the report there."),
    ] = None,
    language: Annotated[Language, typer.Option(help="Language of the report.")] = Language.en,
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--jobs", "-j", min=1, help="Processes to read with; default: all cores."),
    ] = None,
) -> None:
    """Say from Flight Recorder dumps which ranks are to blame, where, and from which line.

    Dumps may be missing, empty, cut short or wrapped: that is evidence too. The rank is taken from
    each file's name. Nothing in a dump is executed; pickles that ask for it are refused.

    Examples:

      unstall trace dumps/

      unstall trace '/tmp/nccl_trace_rank_*'

      unstall trace node0.tgz node1.tgz --markdown

      unstall trace dumps/ --perfetto timeline.json

    Exit status: 0 a verdict was reached, 1 there is nothing to blame (nothing unfinished, or no
    dump among the input), 2 the input could not be read or the call was wrong.
    """
    if as_json and as_markdown:
        _fail("choose one of --json and --markdown")
    from unstall import recorder

    sources, unread, skipped = _collect(paths)
    for problem in unread:
        typer.echo(f"unstall: {problem.place.source}: {_shown(problem, language)}", err=True)
    if not sources:
        if skipped:
            typer.echo(
                f"unstall: no Flight Recorder dump among {skipped} file{'s' * (skipped > 1)}; "
                "for logs and scripts: unstall diagnose",
                err=True,
            )
        raise typer.Exit(2 if unread and not skipped else 1)
    with _progress() as tell:
        dumps = recorder.load(sources, jobs=jobs, progress=tell)
    for problem in dumps.unread:
        typer.echo(f"unstall: {problem.place.source}: {_shown(problem, language)}", err=True)
    verdict = recorder.analyse(dumps)
    if perfetto is not None:
        from unstall.recorder.perfetto import write_timeline

        try:
            write_timeline(sources, perfetto)
        except OSError as error:
            _fail(f"{perfetto}: cannot be written: {error.strerror}")

    if as_json:
        from unstall.reports.trace_json import to_json

        _write(to_json(verdict, dumps, language.value).decode(), output)
    elif as_markdown:
        from unstall.reports.trace_markdown import to_markdown

        _write(to_markdown(verdict, language.value), output)
    else:
        _to_terminal(verdict, language.value, output)
    if not any(dump.readable for dump in dumps.dumps):
        raise typer.Exit(2)
    if verdict.verdict == "benign":
        raise typer.Exit(1)


def _collect(paths: list[str]) -> tuple[list[Any], list[Unreadable], int]:
    """What of the input is a dump, what could not be opened, and how much else there was.

    Plain files of plain folders, the usual case, are taken as they are; everything else (patterns,
    archives, compressed files, standard input, what is missing) is opened as ``diagnose`` does.
    """
    from unstall.recorder import looks_like_dump

    sources: list[Any] = []
    skipped = 0
    others: list[str] = []
    for name in _plain_files(paths, others):
        try:
            with open(name, "rb") as file:
                head = file.read(4096)
        except OSError:
            others.append(name)
            continue
        if looks_like_dump(name, head):
            sources.append((name, name))
        elif head.startswith(_PACKED) or name in paths or name.endswith(".tar"):
            others.append(name)
        else:
            skipped += 1
    if not others:
        return sources, [], skipped
    found, unread, more = _open(others)
    return sources + found, unread, skipped + more


# gzip, bzip2, xz, zstandard, zip
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")


def _plain_files(paths: list[str], others: list[str]) -> Iterator[str]:
    """Files named or in folders named, sorted by folder; anything else goes to ``others``."""
    for path in paths:
        if os.path.isfile(path):
            yield path
        elif os.path.isdir(path):
            for folder, folders, files in os.walk(path):
                folders.sort()
                for file in sorted(files):
                    name = os.path.join(folder, file)
                    if os.path.isfile(name):
                        yield name
        else:
            others.append(path)


def _open(paths: list[str]) -> tuple[list[Any], list[Unreadable], int]:
    from unstall.model.facts import Unreadable
    from unstall.reading.sources import open_sources
    from unstall.recorder import looks_like_dump
    from unstall.recorder.safety import MAX_BYTES

    sources: list[Any] = []
    unread: list[Unreadable] = []
    skipped = 0
    stdin = sys.stdin.buffer if "-" in paths else None
    for source in open_sources(paths, stdin):
        if isinstance(source, Unreadable):
            unread.append(source)
        elif source.kind != "recorder" and not looks_like_dump(source.name, source.head[:4096]):
            skipped += 1
        elif source.path is not None:
            sources.append((source.name, source.path))
        else:
            sources.append((source.name, source.read_bytes(MAX_BYTES + 1)))
    return sources, unread, skipped


def _shown(problem: Unreadable, language: Language) -> str:
    from unstall.reports.words import clean

    text = problem.text
    return clean(text.render(language.value) if text is not None else problem.reason)


def _to_terminal(verdict: Any, language: str, output: Path | None) -> None:
    from rich.console import Console

    from unstall.reports.trace_terminal import render

    if output is None:
        render(verdict, language=language, console=Console(highlight=False))
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            console = Console(file=file, width=100, highlight=False, no_color=True)
            render(verdict, language=language, console=console)
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


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, if that is a terminal and there is enough to read."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading dumps"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tell
