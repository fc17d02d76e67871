"""A launch plan for a terminal: programs, settings side by side, and why."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text as Styled

from unstall.model.plan import Plan
from unstall.reports.cells import cut_middle, pad, width, wrap
from unstall.reports.outline import SettingView
from unstall.reports.plan_view import PlanView, plan_view

_STYLES = {"conflict": "bold red", "suspicious": "yellow", "no effect": "cyan", "ok": "green"}
_WIDEST = 140
_NARROWEST_CELL = 8


def render_plan(
    plan: Plan, *, language: str = "en", verbose: bool = False, console: Console
) -> None:
    """Print a plan; nothing of the scripts is obeyed as an escape or as markup.

    ``verbose`` adds every program's ports, time-outs and environment, and why a setting that is in
    order is so.
    """
    columns = min(max(console.width, 40), _WIDEST)
    view = plan_view(plan, language)
    style = "bold red" if view.counts["conflict"] else "bold"
    for line in wrap(view.headline, columns):
        _print(console, Styled(line, style))
    if view.outline.programs:
        _programs(view, verbose, console, columns)
    _table(view, console, columns)
    _reasons(view, verbose, console, columns)
    if view.outline.notes:
        _title(view.titles["notes"], console)
        for note in view.outline.notes:
            _item(note.text, [view.brief(c) for c in note.cites], console, columns)


def _print(console: Console, text: Styled) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def _title(title: str, console: Console) -> None:
    console.print()
    _print(console, Styled(title, "bold underline"))


def _programs(view: PlanView, verbose: bool, console: Console, columns: int) -> None:
    _title(view.titles["programs"], console)
    first = max(width(p.label) for p in view.outline.programs) + 2
    for program in view.outline.programs:
        rows = list(program.rows)
        short = [value for _, value in rows[:1]]
        short += [f"{label} {value}" for label, value in rows[2:] if value and len(value) < 40][:4]
        lines = wrap(" · ".join(short), columns - first - 2)
        cite = view.brief(program.cite)
        for at, line in enumerate(lines):
            head = pad(program.label if not at else "", first)
            text = Styled(head, "bold") + Styled(line)
            if at == len(lines) - 1 and cite and width(line) + width(cite) + first + 2 <= columns:
                text += Styled(f"  {cite}", "dim")
            _print(console, text)
        if verbose:
            label_size = max((width(label) for label, _ in rows), default=0) + 2
            for label, value in rows:
                for at, line in enumerate(wrap(value, columns - label_size - 4)):
                    head = pad(label if not at else "", label_size)
                    _print(console, Styled("    ") + Styled(head, "dim") + Styled(line))


def _table(view: PlanView, console: Console, columns: int) -> None:
    settings = view.outline.settings
    if not settings:
        return
    titles = view.outline.titles
    heads = [titles["judgement"], titles["setting"], *view.outline.columns]
    console.print()
    rows = [[row.word, row.name, *(v or "-" for v in row.values)] for row in settings]
    sizes = [max(width(r[n]) for r in [heads, *rows]) for n in range(len(heads))]
    room = columns - 2 * (len(sizes) - 1)
    fixed = sizes[0] + min(sizes[1], 30)
    each = max((room - fixed) // max(len(sizes) - 2, 1), _NARROWEST_CELL)
    sizes = [sizes[0], min(sizes[1], 30), *(min(s, each) for s in sizes[2:])]
    _print(console, Styled(_line(heads, sizes), "bold"))
    for row, cells in zip(settings, rows, strict=True):
        text = Styled(_line(cells, sizes))
        text.stylize(_STYLES.get(row.level, ""), 0, len(row.word))
        _print(console, text)


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "  ".join(pad(cut_middle(c, s), s) for c, s in zip(cells, sizes, strict=True)).rstrip()


def _reasons(view: PlanView, verbose: bool, console: Console, columns: int) -> None:
    shown = [s for s in view.outline.settings if verbose or s.level != "ok"]
    if not shown:
        return
    _title(view.titles["why"], console)
    for setting in shown:
        _reason(setting, view, console, columns)


def _reason(setting: SettingView, view: PlanView, console: Console, columns: int) -> None:
    head = Styled(f"{setting.word}: ", _STYLES.get(setting.level, "")) + Styled(
        setting.name, "bold"
    )
    _print(console, head)
    _item(setting.why, [view.brief(c) for c in setting.cites], console, columns)
    if setting.correction:
        _print(
            console,
            Styled(f"  {view.titles['change']}: ", "dim") + Styled(setting.correction, "bold"),
        )


def _item(text: str, cites: Sequence[str], console: Console, columns: int) -> None:
    for line in wrap(text, columns - 2):
        _print(console, Styled(f"  {line}"))
    if cites:
        listed = ", ".join(cites[:6]) + (", …" if len(cites) > 6 else "")
        for line in wrap(listed, columns - 2):
            _print(console, Styled(f"  {line}", "dim"))
