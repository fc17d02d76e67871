"""Files and standard input to scripts and configurations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from unstall.launch import dockerfile
from unstall.launch.texts import Config, ConfigText, Script, ScriptText
from unstall.model.facts import Place, Unreadable
from unstall.model.text import Text, say

_MANIFEST = re.compile(r"^apiVersion: *\S+ *$", re.MULTILINE)
"""A manifest, whatever it is called (``job.yaml-template``, ``job.yaml.j2``)."""

LARGEST = 4 << 20
MOST_NAMED = 40
MOST_SOURCES = 2000
_OF_A_FOLDER = ("script", "config")
_NAMED = (".yaml", ".yml", ".json", ".sh", ".bash", ".env")


class Gathered(msgspec.Struct):
    """What was found behind the paths of a call.

    Attributes:
        scripts: shell scripts, or regions of longer texts that are one.
        configs: configuration files.
        searched: names of the sources that were found in folders rather than named.
        at_hand: scripts beside the given ones, which count only where those source or call them.
        versions: package versions that a report lists.
        problems: what could not be read.
    """

    scripts: list[ScriptText] = []
    configs: list[ConfigText] = []
    at_hand: list[ScriptText] = []
    searched: set[str] = set()
    versions: dict[str, str] = {}
    problems: list[Text] = []


def gather(paths: Sequence[str], stdin: BinaryIO | None = None) -> Gathered:
    """Read the paths, and the files beside a script that it names. Nothing is raised."""
    from unstall.reading.sources import open_sources

    found = Gathered([], [], [], set(), {}, [])
    if not paths:
        return found
    named = set(paths)
    for count, source in enumerate(open_sources(paths, stdin)):
        if count >= MOST_SOURCES:
            found.problems.append(
                say("only the first {count} files were looked at", count=MOST_SOURCES)
            )
            break
        name = source.place.source if isinstance(source, Unreadable) else source.name
        in_folder = name not in named and "!" not in name
        if in_folder and (isinstance(source, Unreadable) or source.kind not in _OF_A_FOLDER):
            continue  # a folder holds other things, too
        if in_folder:
            found.searched.add(name)
        if isinstance(source, Unreadable):
            found.problems.append(
                say("{name}: {reason}", name=source.place.source, reason=source.reason)
            )
            continue
        if source.kind in ("binary", "recorder", "code"):
            found.problems.append(say("{name}: holds no script", name=source.name))
            continue
        data = source.read_bytes(LARGEST + 1)
        if len(data) > LARGEST:
            found.problems.append(
                say(
                    "{name}: only its first {size} MiB were read",
                    name=source.name,
                    size=LARGEST >> 20,
                )
            )
        _take(source.name, source.kind, data[:LARGEST], found)
        if source.path is not None:
            _beside(Path(source.path), found)
    return found


def _take(name: str, kind: str, data: bytes, found: Gathered) -> None:
    from unstall.reading.kinds import config_kind

    text = _decoded(data)
    if dockerfile.named_like(name):
        found.configs.append(Config(Place(name, 1), text, "dockerfile"))
    elif kind == "text" and _MANIFEST.search(text[:65536]) is not None:
        found.configs.append(Config(Place(name, 1), text, "yaml"))
    elif kind == "config":
        found.configs.append(Config(Place(name, 1), text, config_kind(name)))
    elif kind == "script":
        found.scripts.append(Script(Place(name, 1), text))
    else:
        _report(name, text, found)


def _report(name: str, text: str, found: Gathered) -> None:
    """A longer text: its regions; a text without any is taken for a script as a whole."""
    from unstall.reading.regions import regions

    lines = text.split("\n")
    parts = regions(name, lines)
    if not parts.scripts:
        found.scripts.append(Script(Place(name, 1), text))
    found.scripts.extend(parts.scripts)
    found.configs.extend(parts.configs)
    for line in lines[:20000]:
        package, equals, version = line.strip().lstrip("-* ").partition("==")
        if equals and package.replace("-", "_").replace(".", "_").isidentifier():
            version = version.strip().split()[0] if version.strip() else ""
            if version[:1].isdigit() and len(version) < 40:
                found.versions.setdefault(package.lower().replace("_", "-"), version)


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace").replace("\0", "\ufffd")


def _beside(given: Path, found: Gathered) -> None:
    """Files below a source's folder that it names: configurations, and scripts to source."""
    sources: list[ScriptText | ConfigText] = [*found.scripts[-1:], *found.configs[-1:]]
    text = next((s.text for s in sources if s.place.source == str(given)), None)
    if text is None:
        return
    taken: list[ScriptText | ConfigText] = [*found.scripts, *found.at_hand, *found.configs]
    have = {s.place.source for s in taken}
    words = text.replace("=", " ").replace('"', " ").replace("'", " ").split()
    names = [w.strip("\\;,)(") for w in words if w.strip("\\;,)(").endswith(_NAMED)]
    if "deepspeed" in words:
        names.append(".deepspeed_env")
    for name in list(dict.fromkeys(names))[:MOST_NAMED]:
        plain = name.rsplit("}/", 1)[-1].rsplit(")/", 1)[-1]
        if "$" in plain or plain.startswith(("/", "~")) or ".." in Path(plain).parts:
            continue
        path = given.parent / plain
        try:
            if not path.is_file() or path.is_symlink() or str(path) in have:
                continue
            with path.open("rb") as file:
                data = file.read(LARGEST)
        except (OSError, ValueError):
            continue
        have.add(str(path))
        place, content = Place(str(path), 1), _decoded(data)
        if path.name.endswith((".env", "_env")):
            found.configs.insert(0, Config(place, content, "env"))
        if path.suffix in (".sh", ".bash", ".env"):
            # only what sources or calls it runs it
            found.at_hand.append(Script(place, content))
        elif path.suffix:
            found.configs.insert(0, Config(place, content, path.suffix.lstrip(".")))
