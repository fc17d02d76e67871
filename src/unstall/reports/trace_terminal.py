"""A recorder verdict for a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text as Styled

from unstall.recorder.result import RecorderVerdict
from unstall.reports.cells import wrap
from unstall.reports.trace_outline import Block, blocks, headline, read_line

_VERDICTS = {"failure": "bold red", "benign": "bold green", "inconclusive": "bold yellow"}
_WIDEST = 120


def render(verdict: RecorderVerdict, *, language: str = "en", console: Console) -> None:
    """Print a verdict; nothing of the dumps is obeyed as an escape or as markup."""
    columns = min(max(console.width, 40), _WIDEST)
    for line in wrap(headline(verdict, language), columns):
        console.print(Styled(line, _VERDICTS.get(verdict.verdict, "bold")), soft_wrap=True)
    console.print(Styled(read_line(verdict, language), "dim"), soft_wrap=True)
    for block in blocks(verdict, language):
        console.print()
        console.print(Styled(block.title, "bold underline"), soft_wrap=True)
        _body(block, console, columns)


def _body(block: Block, console: Console, columns: int) -> None:
    if block.table is not None:
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, width=None, show_edge=False)
        for column in block.table.columns:
            grid.add_column(Styled(column), overflow="fold")
        for row in block.table.rows:
            grid.add_row(*(Styled(cell) for cell in row))
        console.print(grid, width=columns)
    for text, place in block.lines:
        indent = len(text) - len(text.lstrip())
        for at, line in enumerate(wrap(text.strip(), columns - 2 - indent)):
            lead = " " * indent + ("- " if not at and not indent else "  ")
            console.print(Styled(lead + line), soft_wrap=True)
        if place:
            console.print(Styled(f"  {place}", "dim"), soft_wrap=True)
