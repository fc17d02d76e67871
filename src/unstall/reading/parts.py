"""What reading hands on beside facts: scripts, configuration texts, recorder dumps."""

from __future__ import annotations

import msgspec

from unstall.model.facts import Place


class ScriptText(msgspec.Struct, frozen=True):
    """A shell script, or the part of a longer text that is one.

    Attributes:
        place: its first line; line ``k`` of ``text`` (from 0) stands at ``place.line + k``.
        text: one output line for each input line. Prose between commands, lost backslashes and
            lost comment signs are left as they are: telling them apart is the shell reader's part.
        echo: a running program or its launcher printed it as the command that it started, so that
            it may stand in a script, too.
    """

    place: Place
    text: str
    echo: bool = False


class ConfigText(msgspec.Struct, frozen=True):
    """A configuration's or program's text, whole or cut at :data:`~unstall.reading.reading.TEXT`.

    Attributes:
        place: its first line.
        text: its text.
        kind: ``json``, ``yaml``, ``toml``, ``ini``, ``hostfile``, ``python``, ``code``.
    """

    place: Place
    text: str
    kind: str


class DumpSource(msgspec.Struct, frozen=True):
    """A Flight Recorder dump, not yet interpreted: its content is untrusted bytes.

    Attributes:
        name: the source as the user knows it; the rank stands in it.
        path: the file, where it is one by itself; ``data`` is then ``None`` and read on demand.
        data: the content of a member of an archive or of standard input.
        size: bytes, where known.
        complete: whether ``data`` is all of it; a dump can be cut by damage or by a limit.
    """

    name: str
    path: str | None = None
    data: bytes | None = None
    size: int | None = None
    complete: bool = True

    def read_bytes(self, limit: int) -> bytes:
        """At most ``limit`` bytes from the start.

        Raises:
            OSError: the file is gone or may not be read any more.
        """
        if self.data is not None:
            return self.data[:limit]
        if self.path is None:
            return b""
        with open(self.path, "rb") as file:
            return file.read(limit)
