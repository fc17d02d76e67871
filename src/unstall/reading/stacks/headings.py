"""What stands above a dump: the line by which its collector, or a page, says whose it is.

Dumps are gathered by loops such as ``for pid in …; do echo "##### $pid"; py-spy dump --pid $pid``,
by SGLang's watchdog (``Pyspy dump for PID 7 (py-spy dump --native --pid 7):``, sglang
``srt/utils/watchdog.py``), by people (``rank 0:``, ``py-spy of rank 3``) and by the pages of
``torch.distributed.debug`` (torch 2.13, ``_frontend.py``: ``<h2>Rank 0:
http://host:port/handler/…</h2>``; in its files ``=== Rank 0: … ===``).
"""

from __future__ import annotations

import html
import re

import msgspec

MARKS = (
    "###",
    "===",
    "***",
    "--- ",
    "Pyspy dump",
    "py-spy dump",
    "pystack remote",
    "/handler/",
    "rank ",
    "Rank ",
)

_RANK = re.compile(r"\brank[ _=:#-]{0,3}(\d{1,7})\b", re.IGNORECASE)
_PID = re.compile(r"\b(?:pid|process)[ _=:#]{0,3}(\d{1,10})\b", re.IGNORECASE)
_FIRST_NUMBER = re.compile(r"(\d{2,10})(?=\s|$)")
_HOST = re.compile(r"https?://([^\s:/?#\[\]]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?/handler/")
_HOSTNAME = re.compile(r"\b(?:host|node|hostname)[ _=:]{1,2}([\w.-]{1,253})", re.IGNORECASE)
_TAG = re.compile(r"</?(?:pre|h2|h3|p|code)(?: [^<>]{0,80})?>")
#: A person's line above a dump: one rank, and words that name nothing but the dump.
_ALONE = re.compile(
    r"[\W_]{0,4}(?:(?:py-?spy|gdb|pystack|stacks?|stack ?trace|traces?|backtraces?|dumps?|bt|output"
    r"|of|from|on|for|the|main|thread|global|process|进程|堆栈|栈) {0,2}){0,6}rank ?(\d{1,6})"
    r"(?:'s)?(?: {0,2}(?:py-?spy|gdb|stacks?|stack ?trace|traces?|backtraces?|dumps?|bt|output|main"
    r"|thread|process|的|进程|堆栈|栈"
    r"|\((?:pid[ =:]{0,2})?\d{1,10}\)|,? ?pid[ =:]{0,2}\d{1,10})){0,4}"
    r"[\W_]{0,4}", re.IGNORECASE
)  # fmt: skip
_TOOLS = ("Pyspy dump for PID", "py-spy dump", "pystack remote")


class Heading(msgspec.Struct, frozen=True):
    """Whose dump follows, as far as the line above it says."""

    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    command: str | None = None


def bare(text: str) -> str:
    """The line without the tags that the debug pages of torch put around a dump."""
    if "<" not in text:
        return text
    text = _TAG.sub("", text)
    return html.unescape(text) if "&" in text else text


def heading(text: str) -> Heading | None:
    """What a line says of the dump below it; ``None`` where it is no heading."""
    stripped = text.strip()[:600]
    page = "<h2>" in stripped or "<h3>" in stripped
    stripped = bare(stripped).strip()
    ruled = (
        len(stripped) > 3 and stripped[:2] in ("##", "==", "**", "--") and stripped[2] in "#=*- "
    )
    tool = any(words in stripped for words in _TOOLS)
    if len(stripped) <= 64 and (alone := _ALONE.fullmatch(stripped)) is not None:
        process = _PID.search(stripped)
        return Heading(rank=int(alone[1]), pid=int(process[1]) if process else None)
    debug_page = stripped.startswith("Rank ") and "/handler/" in stripped
    if not (ruled or tool or page or debug_page):
        return None
    body = stripped.strip("#=*- \t:")
    rank, pid, host = _RANK.search(body), _PID.search(body), _HOST.search(body)
    named = host or _HOSTNAME.search(body)
    number = None if rank or pid else _FIRST_NUMBER.match(body)
    if not (rank or pid or number):
        return None
    found = pid or number
    command = None
    if number is not None:
        command = body[number.end() :].strip() or None
    elif pid is not None and not tool:
        command = body[pid.end() :].strip(" ,;:()[]") or None
    return Heading(
        rank=int(rank[1]) if rank else None,
        pid=int(found[1]) if found else None,
        host=named[1].strip("[]") if named else None,
        command=command,
    )
