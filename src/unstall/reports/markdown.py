"""The report for an issue tracker, in GitHub's Markdown.

Text of the input is written so that it stays text: it cannot end a table's cell, open HTML,
mention a user, link an issue or become a heading. Trackers look for ``@name`` and ``#1`` in the
finished page, after Markdown's own escapes are gone; only an HTML comment in between stops them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from unstall.model.findings import Diagnosis
from unstall.reports.outline import CauseView, FixView, Outline, Point, outline

_MARKS = {
    **{mark: "\\" + mark for mark in "\\`*_[]~"},
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "|": "&#124;",
    "$": "&#36;",
    "#": "\\#<!-- -->",
    "@": "@<!-- -->",
}
_TABLE = str.maketrans(_MARKS)
_LINKS = re.compile(r"(://|\bwww\.|\bGH-(?=\d))", re.IGNORECASE)
_LIST = re.compile(r"^(?:([-+=])|(\d{1,9})([.)]))")
_TICKS = re.compile(r"`+")

_BADGES = {"conflict": "❌", "suspicious": "⚠️", "no effect": "➖", "ok": "✅"}


def to_markdown(diagnosis: Diagnosis, language: str = "en") -> str:
    """The diagnosis as Markdown that can be pasted into an issue.

    The verdict stands open; evidence, settings, time line, excerpts and launch plan are folded.

    Args:
        diagnosis: what to write.
        language: ``en`` or ``zh``.
    """
    view = outline(diagnosis, language)
    blocks = [f"## {inline(view.headline)}", *_verdict(view), *_details(view)]
    read = f" · {in_html(view.read)}" if view.read else ""
    blocks.append(f"<sub>{in_html(view.titles['report'])}{read}</sub>")
    return "\n\n".join(block for block in blocks if block) + "\n"


def inline(text: str) -> str:
    """Cleaned text as Markdown that shows it and does nothing else; for a line or a table cell."""
    text = text.strip()
    parts = _LINKS.split(text)
    # Every second part is a link's mark; a comment in its middle keeps it from being one.
    shown = "".join(
        part.translate(_TABLE) if at % 2 == 0 else part[:1] + "<!-- -->" + part[1:]
        for at, part in enumerate(parts)
    )
    return _LIST.sub(lambda m: "\\" + m[1] if m[1] else f"{m[2]}\\{m[3]}", shown)


def code(text: str) -> str:
    """Cleaned text as inline code, also where it holds back-ticks or a table's bars."""
    text = text.strip()
    if not text:
        return ""
    if "`" in text or "|" in text or "\\" in text:
        # An HTML element, since in a table neither a bar nor a back-slash survives in back-ticks.
        entities = "".join(
            character if character.isalnum() or character in " ./:" else f"&#{ord(character)};"
            for character in text
        )
        return f"<code>{entities}</code>"
    return f"`{text}`"


def in_html(text: str) -> str:
    """Cleaned text inside an HTML element, where Markdown's back-slashes are not understood."""
    escaped = html.escape(text.strip(), quote=False)
    return re.sub(r"([#@]|:(?=//)|\bwww(?=\.)|\bGH-(?=\d))", r"\1<!-- -->", escaped, flags=re.I)


def fence(text: str) -> str:
    """Cleaned text as a code block, whatever it holds."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{text}\n{ticks}"


def _verdict(view: Outline) -> Iterable[str]:
    titles = view.titles
    rows = [(label, inline(value)) for label, value in view.facts]
    if view.next_step:
        key = "decide" if view.verdict == "inconclusive" else "next"
        rows.append((titles[key], inline(view.next_step)))
    yield _pairs(rows)
    if view.verdict == "benign":
        yield inline(titles["looks" if view.benign else "none_benign"])
        yield _list(view.benign, view)
        return
    yield _titled(titles["why"], _list(view.reasons, view, numbered=True))
    yield _titled(titles["fixes"], _fixes(view.fixes))
    yield _titled(titles["ruled_out"], _list(view.ruled_out, view))
    key = "candidates" if view.verdict == "inconclusive" else "others"
    yield _titled(titles[key], _list(view.others, view))


def _details(view: Outline) -> Iterable[str]:
    titles = view.titles
    for cause in view.causes:
        yield _folded(cause.head, _evidence(cause, view))
    yield _folded(titles["settings"], _settings(view))
    yield _folded(titles["timeline"], _list(view.timeline, view, numbered=True))
    yield _folded(titles["excerpts"], _excerpts(view))
    yield _folded(titles["programs"], _programs(view))
    yield _folded(titles["notes"], _list(view.notes, view))
    if view.verdict != "benign":
        yield _folded(titles["looks"], _list(view.benign, view))
    yield _folded(titles["unread"], _list(view.unread, view))


def _evidence(cause: CauseView, view: Outline) -> str:
    parts = [inline(cause.summary)]
    for title, points in (("support", cause.support), ("against", cause.against)):
        parts.append(_titled(view.titles[title], _list(points, view, strengths=True)))
    if cause is not view.causes[0]:
        parts.append(_titled(view.titles["fixes"], _fixes(cause.fixes)))
        if cause.next_step:
            parts.append(_titled(view.titles["next"], inline(cause.next_step)))
    return "\n\n".join(part for part in parts if part)


def _settings(view: Outline) -> str:
    if not view.settings:
        return ""
    titles = view.titles
    head = [titles["judgement"], titles["setting"], *view.columns, titles["reason"]]
    lines = [_row([inline(cell) for cell in head]), _row(["---"] * len(head))]
    for row in view.settings:
        why = " ".join([inline(row.why), *map(code, row.cites)])
        if row.correction:
            why += f"<br>{inline(view.pair(titles['correction'], ''))} {code(row.correction)}"
        cells = [f"{_BADGES[row.level]} {inline(row.word)}", code(row.name)]
        lines.append(_row([*cells, *(code(value) or "-" for value in row.values), why]))
    return "\n".join(lines)


def _excerpts(view: Outline) -> str:
    return "\n\n".join(
        f"{_bold(excerpt.word)} {code(excerpt.cite)}\n\n{fence(excerpt.text)}"
        for excerpt in view.excerpts
    )


def _programs(view: Outline) -> str:
    blocks = []
    for program in view.programs:
        cite = f" {code(program.cite)}" if program.cite else ""
        blocks.append(f"{_bold(program.label)}{cite}")
        blocks.append(_pairs([(label, code(value)) for label, value in program.rows]))
    return "\n\n".join(blocks)


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    """A table of labels and values that are Markdown already."""
    if not rows:
        return ""
    lines = ["| | |", "|---|---|"]
    return "\n".join(lines + [f"| {_bold(label)} | {value} |" for label, value in rows])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _titled(title: str, body: str) -> str:
    return f"{_bold(title)}\n\n{body}" if body else ""


def _bold(title: str) -> str:
    shown = inline(title[:1].upper() + title[1:])
    return f"**{shown}**" if shown else "-"


def _folded(title: str, body: str) -> str:
    if not body:
        return ""
    return f"<details>\n<summary>{in_html(title)}</summary>\n\n{body}\n\n</details>"


def _list(
    points: Sequence[Point], view: Outline, *, numbered: bool = False, strengths: bool = False
) -> str:
    lines = []
    for at, point in enumerate(points, 1):
        parts = [inline(view.pair(point.head, point.text)), *map(code, point.cites)]
        if point.source:
            parts.append(f"*{inline(point.source)}*")
        if strengths and point.strength:
            parts.append(f"— {inline(point.strength)}")
        lines.append((f"{at}. " if numbered else "- ") + " ".join(parts))
    return "\n".join(lines)


def _fixes(fixes: Sequence[FixView]) -> str:
    lines = []
    for at, fix in enumerate(fixes, 1):
        change = f"<br>{code(fix.change)}" if fix.change else ""
        lines.append(f"{at}. {inline(fix.text)}{change}")
    return "\n".join(lines)
