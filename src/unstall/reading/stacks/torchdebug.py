"""Pages and periodic files of ``torch.distributed.debug``.

Source: torch 2.13, ``_frontend.py`` and ``_debug_handlers.py``; run with two gloo ranks.

Its stacks page holds faulthandler's text and its py-spy page py-spy's; those readers read them,
and the heading above each (:mod:`unstall.reading.stacks.headings`) says which rank it is. What is
left to this module: ranks that did not answer, and the recorder's entries on the JSON pages.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from unstall.model.facts import Fact, Speaker, Unreadable
from unstall.model.text import Text, say
from unstall.reading.line import Line
from unstall.reading.stacks.headings import Heading, bare, heading

_FAILED = re.compile(r"Failed to fetch: status=(\d{3})")
_ERROR = re.compile(r"Error: (\d{3})$")
_PARTIAL = re.compile(r"PARTIAL DATA: (\d{1,7})/(\d{1,7}) workers responded")
_REACH = 4
LARGEST_PAGE = 256 << 20


def _ended(rank: int, status: int) -> Text:
    return say(
        "rank {rank} could not be reached by torch.distributed.debug (HTTP status {status}): its "
        "process has probably ended; its state is missing",
        rank=rank,
        status=status,
    )


def _late(rank: int, status: int) -> Text:
    return say(
        "rank {rank} did not answer torch.distributed.debug in time (HTTP status {status}), so "
        "its state is missing",
        rank=rank,
        status=status,
    )


def _other(rank: int, status: int) -> Text:
    return say(
        "rank {rank} could not show its state to torch.distributed.debug (HTTP status {status})",
        rank=rank,
        status=status,
    )


# What the front end makes of its own failures (torch 2.13, _frontend.py, fetch_aiohttp).
_REASONS = {"503": _ended, "408": _late}


class DebugServerPage:
    """Says which ranks did not answer the debug server."""

    marks: tuple[str, ...] = (
        "Failed to fetch: status=",
        "Error: ",
        "<h2>Rank ",
        "=== Rank ",
        "PARTIAL DATA: ",
    )

    def __init__(self) -> None:
        self._above: tuple[int, Heading] | None = None

    @property
    def wants_more(self) -> bool:
        """It reads single lines."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """A rank that did not answer, once for each page."""
        text = bare(line.text[:4096]).strip()
        above = heading(line.text)
        if above is not None and above.rank is not None and "/handler/" in line.text:
            self._above = (line.place.line, above)
            return []
        partial = _PARTIAL.match(text)
        if partial is not None:
            said = say(
                "only {answered} of {asked} ranks answered torch.distributed.debug, so the state "
                "of the others is missing",
                answered=int(partial[1]),
                asked=int(partial[2]),
            )
            return [_silent(line, line.speaker, said)]
        failed = _FAILED.match(text) or _ERROR.match(text)
        if failed is None or self._above is None:
            return []
        at, whose = self._above
        self._above = None
        if whose.rank is None or not 0 < line.place.line - at <= _REACH:
            return []
        said = _REASONS.get(failed[1], _other)(whose.rank, int(failed[1]))
        return [_silent(line, Speaker(rank=whose.rank, host=whose.host), said)]

    def finish(self) -> Iterable[Fact]:
        """Nothing is left over."""
        return []


def _silent(line: Line, speaker: Speaker, said: Text) -> Unreadable:
    return Unreadable(
        place=line.place,
        quote=line.raw[:600],
        speaker=speaker,
        moment=line.moment,
        reason=said.render(),
        fatal=False,
        text=said,
    )


def recorder_entries(page: str) -> dict[int, str]:
    """The Flight Recorder's JSON on a saved ``/fr_trace_json`` or ``/fr_trace_nccl_json`` page.

    Args:
        page: the page's text; more than :data:`LARGEST_PAGE` characters are not looked at.

    Returns:
        Rank to its JSON text, not parsed. Empty for any other page; ranks that did not answer
        are absent.
    """
    found: dict[int, str] = {}
    position = 0
    end_of_page = min(len(page), LARGEST_PAGE)
    while (start := page.find("<h2>Rank ", position, end_of_page)) >= 0:
        following = page.find("<h2>Rank ", start + 1, end_of_page)
        limit = following if following >= 0 else end_of_page
        position = limit
        title = heading(page[start : min(start + 600, limit)].split("\n", 1)[0])
        opened = page.find("<pre>{", start, limit)
        closed = page.rfind("</pre>", start, limit)
        if title is not None and title.rank is not None and 0 <= opened < closed:
            body = page[opened + len("<pre>") : closed]
            found[title.rank] = html.unescape(body) if "&quot;" in body else body
    return found
