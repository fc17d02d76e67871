"""A launch plan as Markdown for an issue tracker."""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Plan
from unstall.reports.markdown import code, inline
from unstall.reports.plan_view import plan_view

_SIGNS = {"conflict": "🔴", "suspicious": "🟡", "no effect": "⚪", "ok": "🟢"}


def plan_markdown(plan: Plan, language: str = "en") -> str:
    """Markdown of a plan; nothing of the scripts is taken as markup."""
    view = plan_view(plan, language)
    parts = [f"**{inline(view.headline)}**"]
    shown = view.outline
    if shown.programs:
        lines = [f"**{inline(view.titles['programs'])}**", ""]
        for program in shown.programs:
            kept = [f"{inline(label)} {code(value)}" for label, value in program.rows if value][:5]
            cite = f" ({code(program.cite)})" if program.cite else ""
            lines.append(f"- **{inline(program.label)}**: {', '.join(kept)}{cite}")
        parts.append("\n".join(lines))
    if shown.settings:
        titles = shown.titles
        heads = [titles["judgement"], titles["setting"], *shown.columns, view.titles["why"]]
        rows = [_row([inline(h) for h in heads]), _row(["---"] * len(heads))]
        for setting in shown.settings:
            why = " ".join([inline(setting.why), *map(code, setting.cites[:6])])
            if setting.correction:
                why += f"<br>{inline(view.titles['change'])}: {code(setting.correction)}"
            sign = f"{_SIGNS[setting.level]} {inline(setting.word)}"
            values = [code(value) or "-" for value in setting.values]
            rows.append(_row([sign, code(setting.name), *values, why]))
        parts.append("\n".join(rows))
    if shown.notes:
        notes = [f"**{inline(view.titles['notes'])}**", ""]
        notes += [f"- {inline(note.text)}" for note in shown.notes]
        parts.append("\n".join(notes))
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
