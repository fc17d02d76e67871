"""The rows of knowledge about stacks: what a frame tells, and what a process is."""

from __future__ import annotations

import msgspec

from unstall.model.facts import Frame
from unstall.model.text import Text

PRIMITIVE = 0
"""A bare waiting call (a lock, ``poll``, a socket's ``recv``): what is waited for stands further
out, if it is known at all."""
WAIT = 1
"""A call of a library that says what is waited for."""
WORK = 2
"""A call in whose course a process computes or moves data: counts where nothing waits inside."""


class FrameSign(msgspec.Struct, frozen=True):
    """What one frame tells of its thread.

    Attributes:
        functions: names, of which the frame's must be one: the last part of a qualified name
            (``get`` for ``Queue.get``), or the last two (``Queue.get``); where the file is given
            too, that also matches the bare ``get`` of tools that leave the class out. A native
            frame's arguments and namespace do not count.
        file: end of the frame's path, ``""`` for any; a part without ``/`` must be the whole name.
        waits_for: a word of :class:`~unstall.model.facts.ProcessStack`.
        level: :data:`PRIMITIVE`, :data:`WAIT` or :data:`WORK`.
        native: whether the frame must be native (``None``: either).
        follows: it waits for another thread of its process: what that thread waits for counts.
        directly: it counts only where nothing but waiting calls stands further in: the frame of a
            loop that also encloses all of the program's work.
        source: where this is known from.
    """

    functions: tuple[str, ...]
    file: str
    waits_for: str
    level: int = WAIT
    native: bool | None = False
    directly: bool = False
    follows: bool = False
    source: str = ""


class Circumstance(msgspec.Struct, frozen=True):
    """What a program's own frame adds to a wait found further in.

    Attributes:
        key: stable word for causes: ``engine-idle``, ``data-parallel-sync`` …
        functions, file: as in :class:`FrameSign`.
        over: kinds of wait that it explains.
        text: what the process is doing, for a reader.
        source: software, version, file.
        waits_for: what a bare lock stands for there: the kind of wait of whoever holds it.
    """

    key: str
    functions: tuple[str, ...]
    file: str
    over: tuple[str, ...]
    text: Text
    source: str
    waits_for: str | None = None


class RoleSign(msgspec.Struct, frozen=True):
    """By what a process is known; what is given of frame, command and thread must all hold.

    Attributes:
        software: name in :mod:`unstall.programs`.
        role: ``trainer``, ``rollout``, ``inference``, ``reward``, ``launcher``.
        process: ``engine``, ``front end``, ``http server``, ``trainer``, ``worker``, ``driver``,
            ``coordinator``, ``launcher``, ``loader``, ``helper`` (Python's own).
        functions, file: a frame of its main thread; not looked at where ``functions`` is empty.
        command: words of which one must stand in its command line or process title; not looked at
            where empty.
        thread: start of the name of one of its threads; not looked at where empty.
        weight: the sign with the highest weight wins.
        source: software, version, file.
    """

    software: str
    role: str
    process: str
    source: str
    functions: tuple[str, ...] = ()
    file: str = ""
    command: tuple[str, ...] = ()
    thread: str = ""
    weight: int = 10


def matches(frame: Frame, functions: tuple[str, ...], file: str) -> bool:
    """Whether the frame is one of these functions of that file (see :class:`FrameSign`)."""
    if not file_matches(frame.file, file):
        return False
    name = plain_name(frame)
    for wanted in functions:
        if name == wanted or name.endswith("." + wanted):
            return True
        bare = file != "" and "." in wanted and "." not in name
        if bare and name == wanted.rpartition(".")[2]:
            return True
    return False


def plain_name(frame: Frame) -> str:
    """The function's name; of a native one without arguments, namespaces and versions."""
    if not frame.native:
        return frame.function
    name = frame.function
    if "(" in name and not name.startswith("("):
        name = name[: name.index("(")]
    if "<" in name and not name.startswith("<"):
        name = name[: name.index("<")]
    return name.rpartition("::")[2].partition("@")[0].strip()


def file_matches(file: str, wanted: str) -> bool:
    """Whether a path ends with the wanted path's parts."""
    if not wanted:
        return True
    path = file.replace("\\", "/")
    return path == wanted or path.endswith("/" + wanted)
