"""The report for a terminal: a verdict that fits one screen, and everything with ``-v``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text as Styled

from unstall.model.findings import Diagnosis
from unstall.reports.cells import clip, cut_end, cut_middle, pad, width, wrap
from unstall.reports.outline import FixView, Outline, Point, outline

SMALLEST_SCREEN = 24
LARGEST_SCREEN = 40
"""Lines between which the verdict adapts to the screen's height."""

NARROWEST = 40
"""Columns below which lines are laid out as for this width."""

WIDEST = 120
"""Columns beyond which prose would be tiring to read; settings use the full width."""

_VERDICTS = {"failure": "bold red", "benign": "bold green", "inconclusive": "bold yellow"}
_LEVELS = {"conflict": "bold red", "suspicious": "yellow", "no effect": "cyan", "ok": "green"}
_PARTS = {"origin": "bold red", "messenger": "yellow", "consequence": "cyan", "noise": "dim"}


class _Measure(NamedTuple):
    """How much a verdict says: items of each list, and lines of each item (0: all)."""

    reasons: int
    reason_lines: int
    ruled_out: int
    fixes: int
    fix_lines: int
    changes: bool
    others: int
    prose_lines: int
    spaced: bool


# From the most generous to the tightest; the first that fits the screen is taken.
_MEASURES = (
    _Measure(6, 0, 99, 99, 0, True, 2, 0, True),
    _Measure(6, 0, 99, 99, 0, True, 2, 0, False),  # blank lines go before words do
    _Measure(6, 3, 99, 99, 3, True, 2, 4, True),
    _Measure(6, 2, 8, 5, 2, True, 2, 3, True),
    _Measure(6, 2, 6, 4, 2, True, 2, 3, False),
    _Measure(5, 2, 6, 4, 2, True, 2, 3, False),
    _Measure(4, 2, 5, 3, 2, False, 2, 2, False),
    _Measure(3, 2, 4, 3, 2, False, 2, 2, False),
    _Measure(3, 2, 3, 3, 1, False, 2, 2, False),
    _Measure(3, 2, 3, 2, 1, False, 1, 1, False),
    _Measure(3, 1, 3, 2, 1, False, 2, 1, False),
    _Measure(3, 1, 2, 1, 1, False, 1, 1, False),
)


def render(
    diagnosis: Diagnosis,
    *,
    language: str = "en",
    verbose: int = 0,
    console: Console | None = None,
) -> None:
    """Print a diagnosis.

    Nothing of the input is interpreted, neither as terminal escapes nor as rich's markup. Colours
    are the console's affair: rich uses them on a terminal only and obeys ``NO_COLOR`` and
    ``FORCE_COLOR``. No line is wider than the console.

    Args:
        diagnosis: what to show.
        language: ``en`` or ``zh``.
        verbose: 0 for the verdict, cut to the screen's height (24 to 40 lines); 1 and more for
            everything.
        console: where to print; by default standard output.
    """
    console = console or Console()
    page = _Page(outline(diagnosis, language), console.width)
    lines = page.full() if verbose else page.verdict(console.height if console.is_terminal else 0)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)


class _Page:
    """Lays an outline out as styled lines of at most ``columns`` cells."""

    def __init__(self, view: Outline, columns: int) -> None:
        self.view = view
        self.brief = True
        self.columns = max(columns, NARROWEST)
        self.prose = min(self.columns, WIDEST)
        labels = [label for label, _ in view.facts]
        keys = ("why", "ruled_out", "fixes", "next", "decide", "others", "candidates", "benign")
        labels += [view.titles[key] for key in keys]
        self.margin = min(max(map(width, labels)) + 2, 14)

    # --- the verdict --------------------------------------------------------------------

    def verdict(self, height: int) -> list[Styled]:
        """The verdict in the most generous measure that fits a screen (0: the smallest's)."""
        room = min(max(height, SMALLEST_SCREEN), LARGEST_SCREEN) - 1  # the prompt needs one
        if not height:
            room = LARGEST_SCREEN - 1
        for at, measure in enumerate(_MEASURES):
            lines = self._verdict(measure)
            if len(lines) <= room:
                return self._relaxed(at, lines, room)
        return [*lines[: room - 1], self._hint()]

    def _relaxed(self, at: int, lines: list[Styled], room: int) -> list[Styled]:
        """A fitting measure's lines, with what single parts can say more in the room left."""
        measure = _MEASURES[at]
        for part in ("reason_lines", "prose_lines", "fix_lines", "ruled_out", "fixes", "changes"):
            for looser in dict.fromkeys(getattr(_MEASURES[up], part) for up in (0, max(at - 1, 0))):
                tried = measure._replace(**{part: looser})
                more = self._verdict(tried) if tried != measure and len(lines) < room else lines
                if more is not lines and len(more) <= room:
                    measure, lines = tried, more
                    break
        return lines

    def _verdict(self, measure: _Measure, *, hint: bool = True) -> list[Styled]:
        view = self.view
        blocks = [self._headline(2 if measure.prose_lines == 1 else measure.prose_lines)]
        facts = [
            row
            for label, value in view.facts
            for row in self._row(label, [self._plain(value, min(measure.prose_lines or 9, 2))])
        ]
        blocks.append(facts)
        if view.verdict == "benign":
            blocks += [self._benign(measure), self._line(view.read)]
        else:
            blocks += self._failure(measure) if view.causes else [self._line(view.read)]
        if view.unread:
            names = ", ".join(dict.fromkeys(point.head for point in view.unread))
            text = cut_end(view.pair(view.titles["unread"], names), self.prose)
            blocks.append([Styled(text, "yellow")])
        if hint and (view.causes or view.settings or view.excerpts or view.programs):
            blocks.append([self._hint()])
        return _joined([block for block in blocks if block], measure.spaced)

    def _headline(self, most: int) -> list[Styled]:
        lines = wrap(self.view.headline, self.prose)
        style = _VERDICTS.get(self.view.verdict, "bold")
        return [Styled(line, style) for line in clip(lines, most or len(lines), self.prose)]

    def _failure(self, measure: _Measure) -> list[list[Styled]]:
        view, titles = self.view, self.view.titles
        undecided = view.verdict == "inconclusive"
        reasons = self._points(view.reasons[: measure.reasons], measure.reason_lines, numbered=True)
        ruled_out = [self._point(point, measure.prose_lines and 1) for point in view.ruled_out]
        others = [self._point(point, 1) for point in view.others[: measure.others]]
        step = self._plain(view.next_step, measure.prose_lines) if view.next_step else None
        next_label = titles["decide"] if undecided else titles["next"]
        return [
            self._row(titles["why"], reasons),
            self._row(titles["ruled_out"], self._limited(ruled_out, measure.ruled_out)),
            self._row(titles["fixes"], self._fixes(measure)),
            self._row(next_label, [step] if step else []),
            self._row(titles["candidates"] if undecided else titles["others"], others),
        ]

    def _benign(self, measure: _Measure) -> list[Styled]:
        titles = self.view.titles
        points = [self._point(point, measure.reason_lines) for point in self.view.benign]
        if not points:
            return self._line(titles["none_benign"])
        points = self._limited(points, measure.ruled_out)
        return self._line(titles["looks"]) + self._row(titles["benign"], points)

    def _fixes(self, measure: _Measure) -> list[list[Styled]]:
        fixes = self.view.fixes
        items = [
            self._fix(fix, f"{at}. " if len(fixes) > 1 else "", measure.fix_lines, measure.changes)
            for at, fix in enumerate(fixes, 1)
        ]
        return self._limited(items, measure.fixes)

    def _limited(self, items: list[list[Styled]], most: int) -> list[list[Styled]]:
        """The first items; the last line says how many were left out."""
        if len(items) <= most + 1:  # saying that one was left out takes as much room
            return items
        return [*items[:most], [Styled(self.view.left_out(len(items) - most), "dim")]]

    def _hint(self) -> Styled:
        return Styled(cut_end(self.view.titles["more"], self.columns), "dim")

    # --- everything ---------------------------------------------------------------------

    def full(self) -> list[Styled]:
        """The verdict without limits and every further section."""
        view, titles = self.view, self.view.titles
        self.brief = False  # here, files are named with their folders
        lines = self._verdict(_MEASURES[0], hint=False)
        for cause in view.causes:
            body = self._prose(cause.summary) if cause is not view.causes[0] else []
            for title, points in (
                (titles["support"], cause.support),
                (titles["against"], cause.against),
            ):
                body += self._row(title, self._points(points, 0, notes=True))
            if cause is not view.causes[0]:
                fixes = [self._fix(fix, "", 0, True) for fix in cause.fixes]
                body += self._row(titles["fixes"], fixes)
                if cause.next_step:
                    body += self._row(titles["next"], [self._plain(cause.next_step, 0)])
            lines += self._section(cause.head, body)
        lines += self._section(titles["settings"], self._settings())
        lines += self._section(
            titles["timeline"], _flat(self._points(view.timeline, 0, numbered=True, notes=True))
        )
        lines += self._section(titles["excerpts"], self._excerpts())
        lines += self._section(titles["programs"], self._programs())
        lines += self._section(titles["notes"], _flat(self._points(view.notes, 0)))
        if view.verdict != "benign" and view.benign:
            lines += self._section(titles["looks"], _flat(self._points(view.benign, 0)))
        lines += self._section(titles["unread"], _flat(self._points(view.unread, 0)))
        if view.read and view.causes and view.verdict != "benign":
            lines += [Styled(""), *self._line(view.read)]
        return lines

    def _section(self, title: str, body: list[Styled]) -> list[Styled]:
        if not body:
            return []
        heading = [Styled(line, "bold underline") for line in wrap(title, self.prose)]
        return [Styled(""), *heading, *body]

    def _settings(self) -> list[Styled]:
        view = self.view
        if not view.settings:
            return []
        # Judgement and name, then a column for each program; narrow screens get one line each.
        judgement, setting = view.titles["judgement"], view.titles["setting"]
        first = max(width(judgement), *(width(row.word) for row in view.settings)) + 2
        names = max(width(setting), *(width(row.name) for row in view.settings))
        second = min(names, self.columns // 3) + 2
        room = self.columns - first - second
        each = room // max(len(view.columns), 1)
        if each < 14:
            return self._stacked_settings()
        widest = [
            max(width(column), *(width(row.values[at]) for row in view.settings)) + 2
            for at, column in enumerate(view.columns)
        ]
        sizes = [min(size, each) for size in widest]
        titles = [judgement, setting, *view.columns]
        cells = [first, second, *sizes]
        lines = _table_row(titles, cells, ["bold"] * len(titles))
        for row in view.settings:
            values = [value or "-" for value in row.values]
            styles = [_LEVELS[row.level], "", *[""] * len(values)]
            lines += _table_row([row.word, row.name, *values], cells, styles)
            lines += self._indented(self._why(row.why, row.cites, row.correction), first)
        return lines

    def _stacked_settings(self) -> list[Styled]:
        view = self.view
        lines: list[Styled] = []
        for row in view.settings:
            style = _LEVELS[row.level]
            head = view.pair(row.word, row.name)
            lines += [Styled(line, style) for line in wrap(head, self.columns)]
            for column, value in zip(view.columns, row.values, strict=True):
                text = view.pair(column, value or "-")
                lines += self._indented([Styled(x) for x in wrap(text, self.columns - 4)], 4)
            lines += self._indented(self._why(row.why, row.cites, row.correction), 4)
        return lines

    def _why(self, why: str, cites: Sequence[str], correction: str) -> list[Styled]:
        room = self.prose - 14
        lines = self._cited(why, cites, 0, room, style="dim")
        if correction:
            text = self.view.pair(self.view.titles["correction"], correction)
            lines += [Styled(line, "green") for line in wrap(text, room)]
        return lines

    def _excerpts(self) -> list[Styled]:
        lines: list[Styled] = []
        for excerpt in self.view.excerpts:
            head = Styled(cut_end(excerpt.word, 20), _PARTS.get(excerpt.part, ""))
            head.append("  " + cut_middle(excerpt.cite, self.columns - 22), "dim")
            text = [Styled(line) for line in wrap(excerpt.text, self.columns - 4)]
            lines += [head, *self._indented(text, 4)]
        return lines

    def _programs(self) -> list[Styled]:
        lines: list[Styled] = []
        for program in self.view.programs:
            lines += self._cited(
                program.label, (program.cite,) if program.cite else (), 0, self.prose, style="bold"
            )
            for label, value in program.rows:
                lines += self._row(label, [self._plain(value, 0)])
        return lines

    # --- pieces -------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        return self.prose - self.margin

    def _line(self, text: str) -> list[Styled]:
        return self._prose(text) if text else []

    def _prose(self, text: str) -> list[Styled]:
        return [Styled(line) for line in wrap(text, self.prose)]

    def _row(self, label: str, items: list[list[Styled]]) -> list[Styled]:
        """A label in the margin and its items beside it, or below it where it is too long."""
        lines = _flat(items)
        if not lines:
            return []
        if width(label) > self.margin - 2:
            head = Styled(cut_end(label, self.prose), "bold")
            return [head, *self._indented(lines, self.margin)]
        rows = self._indented(lines, self.margin)
        rows[0] = Styled.assemble((pad(label, self.margin), "bold"), lines[0])
        return rows

    def _indented(self, lines: Iterable[Styled], by: int) -> list[Styled]:
        return [Styled.assemble(" " * by, line) for line in lines]

    def _plain(self, text: str, most: int) -> list[Styled]:
        lines = wrap(text, self._room)
        return [Styled(line) for line in clip(lines, most or len(lines), self._room)]

    def _points(
        self, points: Iterable[Point], most: int, *, numbered: bool = False, notes: bool = False
    ) -> list[list[Styled]]:
        return [
            self._point(point, most, f"{at}. " if numbered else "", notes=notes)
            for at, point in enumerate(points, 1)
        ]

    def _point(
        self, point: Point, most: int, lead: str = "", *, notes: bool = False
    ) -> list[Styled]:
        """A statement with its lines' places; ``most`` lines of it (0: all)."""
        text = self.view.pair(point.head, point.text)
        cites = list(point.cites[: 1 if most else None])
        if self.brief:
            cites = [cite if width(cite) <= 24 else self.view.brief(cite) for cite in cites]
        if point.source and (notes or not cites):
            cites.append(point.source)  # what rests on knowledge names its source
        if notes and point.strength:
            cites.append(point.strength)
        hang = width(lead)
        lines = self._cited(text, cites, most, self._room - hang)
        rows = self._indented(lines, hang)
        rows[0] = Styled.assemble(lead, lines[0])
        return rows

    def _fix(self, fix: FixView, lead: str, most: int, change: bool) -> list[Styled]:
        hang = width(lead)
        wrapped = wrap(fix.text, self._room - hang)
        lines = [Styled(x) for x in clip(wrapped, most or len(wrapped), self._room - hang)]
        if change and fix.change:
            wrapped = wrap(fix.change, self._room - hang)
            kept = clip(wrapped, most or len(wrapped), self._room - hang)
            lines += [Styled(line, "green") for line in kept]
        rows = self._indented(lines, hang)
        rows[0] = Styled.assemble(lead, lines[0])
        return rows

    def _cited(
        self, text: str, cites: Sequence[str], most: int, room: int, *, style: str = ""
    ) -> list[Styled]:
        """Wrapped text with its places after it; the places survive where the text is cut."""
        lines = wrap(text, room)
        longest = max(room // (3 if most == 1 else 2), 12)
        tail = "  ".join(cut_middle(cite, longest) for cite in cites)
        beside = width(lines[-1]) + 2 + width(tail) <= room
        if not tail:
            lines = clip(lines, most or len(lines), room)
        elif most and len(lines) + (not beside) > most:
            tail = cut_end(tail, longest)
            lines = clip(lines, most, room - width(tail) - 2)
            beside = True
        styled = [Styled(line, style) for line in lines]
        if tail and beside:
            styled[-1].append("  " + tail, "dim")
        elif tail:
            styled += [Styled(line, "dim") for line in wrap(tail, room)]
        return styled


def _table_row(texts: Sequence[str], sizes: Sequence[int], styles: Sequence[str]) -> list[Styled]:
    """One row of a table; cells are wrapped, two blanks stand between columns."""
    cells = [wrap(text, size - 2) for text, size in zip(texts, sizes, strict=True)]
    lines = []
    for at in range(max(map(len, cells))):
        line = Styled()
        for cell, size, style in zip(cells, sizes, styles, strict=True):
            line.append(pad(cell[at] if at < len(cell) else "", size), style)
        line.rstrip()
        lines.append(line)
    return lines


def _flat(items: Iterable[list[Styled]]) -> list[Styled]:
    return [line for item in items for line in item]


def _joined(blocks: list[list[Styled]], spaced: bool) -> list[Styled]:
    lines = list(blocks[0])
    for block in blocks[1:]:
        lines += [Styled(""), *block] if spaced else block
    return lines
