"""What reading a launch plan needs from a source: its text and where it stands."""

from __future__ import annotations

from typing import Protocol

import msgspec

from unstall.model.facts import Place


class ScriptText(Protocol):
    """A shell script, or a part of a longer text that is one.

    Attributes:
        place: its first line; line ``k`` of ``text`` (from 0) stands at ``place.line + k``.
        text: the script.
        echo: a running program or its launcher printed it as the command that it started.
    """

    @property
    def place(self) -> Place:
        """Its first line."""
        ...

    @property
    def text(self) -> str:
        """The script, one output line for each input line."""
        ...

    @property
    def echo(self) -> bool:
        """Whether a running program or its launcher printed it."""
        ...


class ConfigText(Protocol):
    """A configuration file's text.

    Attributes:
        place: its first line.
        text: its text.
        kind: ``json``, ``yaml``, ``toml``, ``hostfile`` … as far as the reader could tell.
    """

    @property
    def place(self) -> Place:
        """Its first line."""
        ...

    @property
    def text(self) -> str:
        """Its text."""
        ...

    @property
    def kind(self) -> str:
        """What it looks like."""
        ...


class Script(msgspec.Struct, frozen=True):
    """A :class:`ScriptText` of our own, for the ``check`` command and for tests."""

    place: Place
    text: str
    echo: bool = False


class Config(msgspec.Struct, frozen=True):
    """A :class:`ConfigText` of our own, for the ``check`` command and for tests."""

    place: Place
    text: str
    kind: str = ""
