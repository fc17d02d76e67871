"""Dockerfiles: what the image starts, and with which environment.

Source: Docker 27 "Dockerfile reference" (``ENV``, ``ARG``, ``ENTRYPOINT`` and ``CMD`` in exec and
shell form; a shell-form entry point ignores ``CMD``; a stage inherits from the stage it is built
from; the last stage counts). What a build runs (``RUN``) is not read.
"""

from __future__ import annotations

import json
import shlex

import msgspec

from unstall.launch.calls import Variable
from unstall.launch.texts import Script
from unstall.model.facts import Place

MOST_LINES = 5000
_ENTRIES = {"vllm-openai": ["vllm", "serve"]}
"""Entry points of images that are used with flags alone."""


class Image(msgspec.Struct, frozen=True):
    """What one Dockerfile starts.

    Attributes:
        script: entry point and command as one script.
        environment: ``ENV``, exported to the program.
        place: the line of the entry point or command.
    """

    script: Script
    environment: dict[str, Variable]
    place: Place


class _Stage(msgspec.Struct):
    environment: dict[str, Variable] = {}
    entry: tuple[list[str] | str, int] | None = None
    command: tuple[list[str] | str, int] | None = None


def named_like(name: str) -> bool:
    """Whether a file's name is a Dockerfile's."""
    base = name.rsplit("/", 1)[-1].rsplit("!", 1)[-1].lower()
    return base.startswith(("dockerfile", "containerfile")) or base.endswith(".dockerfile")


def read(text: str, place: Place) -> Image | None:
    """The image's program; ``None`` where the file names none."""
    stages: dict[str, _Stage] = {}
    stage = _Stage({}, None, None)
    for line, words in _instructions(text):
        name, rest = words
        if name == "FROM":
            parts = rest.split()
            parts = [p for p in parts if not p.startswith("--")]
            base = parts[0] if parts else ""
            old = stages.get(base)
            image = base.rsplit("/", 1)[-1].split(":")[0].split("@")[0]
            known = _ENTRIES.get(image)
            stage = _Stage(
                dict(old.environment) if old else {},
                old.entry if old else ((list(known), line) if known else None),
                old.command if old else None,
            )
            if len(parts) > 2 and parts[1].lower() == "as":
                stages[parts[2]] = stage
        elif name == "ENV":
            for key, value in _pairs(rest):
                at = Place(place.source, place.line + line)
                stage.environment[key] = Variable((value,), False, True, at)
        elif name == "ENTRYPOINT":
            stage.entry = (_form(rest), line)
            stage.command = None
        elif name == "CMD":
            stage.command = (_form(rest), line)
    return _image(stage, place)


def _image(stage: _Stage, place: Place) -> Image | None:
    parts = [p for p in (stage.entry, stage.command) if p is not None]
    if not parts:
        return None
    first, line = parts[0]
    if isinstance(first, str):
        text = first
    else:
        words = list(first)
        if len(parts) > 1:
            second, line = parts[1]
            words += ["/bin/sh", "-c", second] if isinstance(second, str) else second
        shell = words[:1] and words[0].rsplit("/", 1)[-1] in ("sh", "bash") and words[1:2] == ["-c"]
        text = words[2] if shell and len(words) > 2 else shlex.join(words)
    where = Place(place.source, place.line + line)
    return Image(Script(where, text), stage.environment, where)


def _instructions(text: str) -> list[tuple[int, tuple[str, str]]]:
    """Line number (from 0), instruction and argument; continued lines are put together."""
    found: list[tuple[int, tuple[str, str]]] = []
    start = 0
    held = ""
    document = ""
    for number, line in enumerate(text.split("\n")[:MOST_LINES]):
        if document:
            if line.strip() == document:
                document = ""
            continue
        if line.lstrip().startswith("#") or (held and not line.strip()):
            continue
        if not held:
            start = number
        stripped = line.rstrip()
        if stripped.endswith("\\"):
            held += stripped[:-1] + " "
            continue
        name, _, rest = (held + stripped).strip().partition(" ")
        held = ""
        if name.upper() in ("RUN", "COPY", "ADD") and "<<" in rest:
            ends = rest.partition("<<")[2].lstrip("-").split()
            document = ends[0].strip("'\"") if ends else ""
        if name:
            found.append((start, (name.upper(), rest.strip())))
    return found


def _form(text: str) -> list[str] | str:
    """Exec form as a list, shell form as the text."""
    if text.startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            return text
        if isinstance(found, list) and all(isinstance(w, str) for w in found):
            return found
    return text


def _pairs(text: str) -> list[tuple[str, str]]:
    """``A=1 B="2 3"``, or the old ``A 1``."""
    head = text.split(None, 1)
    if len(head) == 2 and "=" not in head[0]:
        return [(head[0], head[1])]
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = (word.partition("=") for word in words)
    return [(key, value) for key, equals, value in pairs if equals and key.isidentifier()]
