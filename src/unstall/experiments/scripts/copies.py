"""The changed copy that is run: it finds what the script itself would find.

A script that looks at neither its own name nor its own place, and puts no other file in, runs from
the run's folder. One that does gets its copy beside it, under another name and for the time of the
run only: ``$0`` and ``BASH_SOURCE`` cannot be given another value without ``exec "$0"`` starting
the unchanged script. Where it was named by a symbolic link, each link on the way has one beside it,
so that ``dirname "$0"`` and ``readlink -f "$0"`` both lead where they did. What is made of the name
alone is made of the variable :data:`OWN`, which whoever runs the copy has to set.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tree_sitter import Node

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts import edit, places
from unstall.model.text import say

#: ``$0``, ``${0%/*}``, ``BASH_SOURCE``, and files put in, which see this script's ``$0``.
_LOOKS = re.compile(
    r"\$\{?[#!]?0(?![0-9A-Za-z_])|BASH_SOURCE|BASH_ARGV|\b(?:eval|source|caller)\b"
    r"|(?:^|[\s;&|({`!])\.[ \t]",
    re.MULTILINE | re.ASCII,
)
_ITSELF = re.compile(r"\"?\$\{?(0|BASH_SOURCE(?:\[0\])?)\}?\"?\Z")
_MADE_OF_ITSELF = re.compile(r"\$\{(0|BASH_SOURCE(?:\[0\])?)[%#/]")
#: Variable that holds the script's path as the user named it.
OWN = "UNSTALL_SCRIPT"
_MOST_LINKS = 40


@contextmanager
def copied(script: Path, text: str, side: str, folder: Path) -> Iterator[list[Path]]:
    """A copy of a script with another text; removed afterwards.

    Args:
        script: as the user named it.
        text: the copy's.
        side: ``A`` or ``B``, part of its name.
        folder: of the run, for scripts that do not mind where they are.

    Yields:
        the file to run, then what else was made.

    Raises:
        LabError: the copy must stand beside the script and cannot be written there.
    """
    made: list[Path] = []
    try:
        try:
            if _LOOKS.search(text) is None:
                _alone(script, text, folder, made)
            else:
                _beside(script, text, side, made)
        except OSError as error:
            raise LabError(
                say(
                    "A copy cannot be written beside the script: {error}. It has to stand there, "
                    "since the script looks at its own place ($0, BASH_SOURCE) or puts other files "
                    "in (source): copy its folder to where you may write.",
                    error=error.strerror or str(error),
                )
            ) from error
        yield made
    finally:
        for path in made:
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                else:
                    path.unlink()


def _alone(script: Path, text: str, folder: Path, made: list[Path]) -> None:
    place = folder / "script"
    place.mkdir()
    made.append(place)
    made.insert(0, place / script.name)
    _write(script, made[0], text)


def _beside(script: Path, text: str, side: str, made: list[Path]) -> None:
    path = script
    named = _hidden(script, side)
    while path.is_symlink() and len(made) < _MOST_LINKS:
        target = Path(os.readlink(path))
        link = _hidden(path, side)
        made.append(link)
        link.symlink_to(_hidden(target, side))
        path = path.parent / target
    made.append(_hidden(path, side))
    _write(path, made[-1], _with_own_name(text))
    made.sort(key=lambda one: one != named)


def _hidden(path: Path, side: str) -> Path:
    return path.with_name(f".{path.stem}.unstall-{side}-{os.getpid()}{path.suffix}")


def _write(like: Path, target: Path, text: str) -> None:
    newline = edit.line_end_of(like.read_bytes().decode())
    target.write_text(text, encoding="utf-8", newline=newline)
    shutil.copymode(like, target)  # a script may start itself


def _with_own_name(text: str) -> str:
    """The text with the script's own name where only that is made something of.

    ``basename "$0"``, ``${0##*/}``, ``${0%.sh}.log``: scripts name logs so, or choose what to do.
    """
    data = text.encode()
    cuts: list[tuple[int, int]] = []
    todo: list[Node] = [places.parse(data)]
    while todo:
        node = todo.pop()
        own = data[node.start_byte : node.end_byte].decode(errors="replace")
        # within a string the grammar counts a blank before an expansion as its own
        begin = node.start_byte + len(own) - len(own.lstrip())
        if node.type == "expansion" and (made := _MADE_OF_ITSELF.match(own.lstrip())) is not None:
            cuts.append((begin + made.start(1), begin + made.end(1)))
        elif node.type == "command" and own.startswith("basename"):
            for word in node.named_children[1:]:
                written = data[word.start_byte : word.end_byte].decode(errors="replace")
                if (itself := _ITSELF.match(written)) is not None:
                    cuts.append(
                        (word.start_byte + itself.start(1), word.start_byte + itself.end(1))
                    )
        todo.extend(node.named_children)
    for start, end in sorted(set(cuts), reverse=True):
        data = data[:start] + OWN.encode() + data[end:]
    return data.decode()
