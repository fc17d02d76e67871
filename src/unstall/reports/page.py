"""A page of an experiment's report on a terminal: labels, and lines beside them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text as Styled

from unstall.model.text import Text


class Page:
    """Rows of a label and its text, in one language."""

    def __init__(self, console: Console, language: str) -> None:
        self.console = console
        self.language = language

    def words(self, text: Text) -> str:
        """A sentence, safe for a terminal."""
        from unstall.reports.words import clean

        return escape(clean(text.render(self.language)))

    def line(self, text: Text, style: str = "") -> None:
        """A line over the whole width."""
        words = self.words(text)
        self.console.print(f"[{style}]{words}[/]" if style else words)

    def row(self, label: Text, texts: Sequence[str]) -> None:
        """A label with lines beside it."""
        if not texts:
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=13, style="bold")
        grid.add_column(overflow="fold")  # what is cut cannot be copied
        for number, text in enumerate(texts):
            grid.add_row(self.words(label) if number == 0 else "", text)
        self.console.print(grid)

    def whole(self, label: Text, text: str) -> None:
        """A label and a path or a command, however long: one that is broken cannot be copied."""
        beside = Styled.from_markup(self.words(label), style="bold")
        beside.pad_right(max(15 - beside.cell_len, 0))
        self.console.print(beside + Styled(text), soft_wrap=True)

    def mark(self, good: bool, text: Text) -> str:
        """A text with a sign of whether it holds."""
        sign = "[green]✓[/]" if good else "[red]✗[/]"
        return f"{sign} {self.words(text)}"
