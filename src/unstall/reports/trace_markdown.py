"""A recorder verdict as Markdown, to be pasted into an issue tracker."""

from __future__ import annotations

import re

from unstall.recorder.result import RecorderVerdict
from unstall.reports.trace_outline import Block, blocks, headline, read_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def to_markdown(verdict: RecorderVerdict, language: str = "en") -> str:
    """The verdict; what comes from the dumps is escaped."""
    lines = [f"**{_plain(headline(verdict, language))}**", "", _plain(read_line(verdict, language))]
    for block in blocks(verdict, language):
        lines += ["", f"### {_plain(block.title)}", "", *_body(block)]
    return "\n".join(lines) + "\n"


def _body(block: Block) -> list[str]:
    lines = []
    if block.table is not None:
        lines.append("| " + " | ".join(_plain(c) for c in block.table.columns) + " |")
        lines.append("|" + " --- |" * len(block.table.columns))
        lines += [
            "| " + " | ".join(_plain(cell) for cell in row) + " |" for row in block.table.rows
        ]
        lines.append("")
    for text, place in block.lines:
        if text.startswith("    "):  # a stack frame
            lines.append(f"  - {_code(text.strip())}")
        else:
            lines.append(f"- {_plain(text)}" + (f" ({_code(place)})" if place else ""))
    return lines


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ").replace("@", "@\u200b")


def _code(text: str) -> str:
    return "`" + text.replace("`", "'").replace("\n", " ") + "`"
