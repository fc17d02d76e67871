"""Whether a command can be started as it stands, and if not what its user may have meant."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unstall.model.text import Text, say

#: Exit statuses of shells: no such command; one that cannot be run.
ABSENT, UNFIT = 127, 126


class Unfit(msgspec.Struct, frozen=True):
    """Why a command cannot be started, and the exit status that a shell would have."""

    said: Text
    status: int


def fit(command: Sequence[str]) -> tuple[str, ...] | Unfit:
    """The words to start: the command, or ``sh`` before a script that does not name its shell.

    That is what ``execvp`` of the C library does, and with it ``nohup``, ``env`` and ``timeout``.
    """
    first = command[0]
    path = shutil.which(first)
    if path is None:
        return _absent(first)
    try:
        with open(path, "rb") as file:
            line = file.read(512)
    except OSError:
        return tuple(command)  # it may be run though not be read
    if not line.startswith(b"#!"):
        text = bool(line) and b"\0" not in line
        return ("/bin/sh", path, *command[1:]) if text and not _known(line) else tuple(command)
    shebang = line[2:].partition(b"\n")[0]
    interpreter = os.fsdecode(shebang.split()[0]) if shebang.split() else ""
    if shebang.endswith(b"\r"):
        return Unfit(
            say(
                "{file}: its lines end as Windows ends them, and the first names its interpreter: "
                "sed -i 's/\\r$//' {file}",
                file=first,
            ),
            UNFIT,
        )
    if not Path(interpreter).exists():
        return Unfit(
            say("{file}: there is no {interpreter}", file=first, interpreter=interpreter), UNFIT
        )
    return tuple(command)


def _known(line: bytes) -> bool:
    """Whether it is a program of a machine: ELF, Mach-O."""
    return line[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def _absent(first: str) -> Unfit:
    path = Path(first)
    if "/" in first and path.is_dir():
        return Unfit(say("{file} is a folder", file=first), UNFIT)
    if path.is_file():
        if path.suffix == ".py":
            return Unfit(say("{file}: say what is to run it: python {file}", file=first), UNFIT)
        return Unfit(
            say("{file} is not executable or not on the path: bash {file}", file=first), UNFIT
        )
    return Unfit(
        say(
            "{command}: no such command. What follows “--” is run as it is, without a shell; for a "
            "shell's line: unstall run -- bash -c 'LINE'",
            command=first,
        ),
        ABSENT,
    )
