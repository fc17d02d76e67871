"""What gloo says: time-outs of the waiting ranks, lost peers, sizes that do not match.

Gloo has no watchdog: ranks that wait raise after the time-out, and the one they wait for says
nothing. Source: ``gloo/transport/tcp/{pair,unbound_buffer,debug_logger}.cc`` as bundled with
PyTorch 1.13 to 2.15 (2.13 appends advice), and ``ProcessGroupGloo.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import (
    CollectiveMismatch,
    CollectiveTimeout,
    Fact,
    GroupTag,
    PeerLost,
    Work,
)
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Drafts, said
from unstall.reading.writers.stamps import Stamp, records

_WAITED = re.compile(r"Timed out waiting (\d{1,15}) ?ms for (recv|send) operation", re.ASCII)
_GLOO_PATH = ("gloo/", "gloo::", "Gloo ", "GLHF!")
_LOST = re.compile(
    r"(?:Connection closed by peer|(?:Read|Write|Connect) error|Socket closed) "
    r"?(\\?\[[^\s\[\]]{1,80}\\?\]:\d{1,5})?",
    re.ASCII,
)
_SLOW = re.compile(
    r"(?:Read|Write) timeout (\\?\[[^\s\[\]]{1,80}\\?\]:\d{1,5})"
    r"|Application timeout caused pair closure",
    re.ASCII,
)
_MESH = re.compile(r"Gloo connectFullMesh failed with|timed out connecting:|Connect timeout \\?\[")
_REMOTE = re.compile(r"remote=(\\?\[[^\s\[\]]{1,80}\\?\]:\d{1,5})", re.ASCII)
_SIZES = re.compile(
    r"op\.preamble\.length (?:<|&lt;)= op\.nbytes\.? (\d{1,20}) vs (\d{1,20})", re.ASCII
)


class GlooReader:
    """Facts of gloo's exceptions and of its connection log."""

    marks: tuple[str, ...] = (
        "Timed out waiting ",
        "Connection closed by peer",
        "Read error [",
        "Write error [",
        "Connect error [",
        "Socket closed ",
        "Read timeout [",
        "Write timeout [",
        "Application timeout caused pair closure",
        "Gloo connectFullMesh failed",
        "timed out connecting:",
        "Connect timeout [",
        "willRetry=0",
        "op.preamble.length",
    )

    def __init__(self) -> None:
        self._drafts = Drafts()

    @property
    def wants_more(self) -> bool:
        """Never: every message is one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            self._message(text, line, stamp)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _message(self, text: str, line: Line, stamp: Stamp | None) -> None:
        base = said(line, stamp)
        if found := _SIZES.search(text):
            self._drafts.say(
                CollectiveMismatch(
                    **base,
                    mine=(base["speaker"].rank, None, f"{found[2]} bytes", None),
                    other=(None, None, f"{found[1]} bytes", None),
                    aspects=("size",),
                )
            )
        elif found := _WAITED.search(text):
            waited = int(found[1])
            self._drafts.say(_timeout(base, waited))
        elif _SLOW.search(text) and _from_gloo(text):
            self._drafts.say(_timeout(base, None))
        elif _MESH.search(text) or "willRetry=0" in text:
            remote = _REMOTE.search(text)
            peer = remote[1].replace("\\", "") if remote else None
            self._drafts.say(PeerLost(**base, layer="gloo", peer=peer))
        elif (found := _LOST.search(text)) and (found[1] or _from_gloo(text)):
            peer = found[1].replace("\\", "") if found[1] else None
            self._drafts.say(PeerLost(**base, layer="gloo", peer=peer))


def _timeout(base: dict[str, object], waited: int | None) -> CollectiveTimeout:
    # Gloo names its transport's operation, not the collective that waits for it.
    return CollectiveTimeout(
        **base,  # type: ignore[arg-type]
        work=Work(op="", timeout_ms=waited),
        ran_ms=waited,
        group=GroupTag(),
        backend="gloo",
    )


def _from_gloo(text: str) -> bool:
    return any(words in text for words in _GLOO_PATH)
