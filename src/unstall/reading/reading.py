"""From paths to facts, scripts, configurations and dumps."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from unstall.model.facts import Fact, Place, Unreadable
from unstall.model.text import say
from unstall.reading.collecting import Collector
from unstall.reading.decoding import as_utf8, decode
from unstall.reading.kinds import base_name, config_kind
from unstall.reading.line import Reader
from unstall.reading.parts import ConfigText, DumpSource, ScriptText
from unstall.reading.passing import Passing
from unstall.reading.regions import is_echo, is_note, note, one_liner, regions
from unstall.reading.remarks import Tongue
from unstall.reading.scanner import Kept, Scanner
from unstall.reading.sources import Source, open_sources, unreadable
from unstall.reading.streams import Limits, amount
from unstall.reading.tidy import controls
from unstall.reading.triage import Marks, Triage

TEXT = 4 << 20
"""Bytes of a script or configuration that are kept."""
REGIONS = 1 << 20
"""Characters of a text in which scripts, configurations and prose are looked for."""
DUMP = 256 << 20
"""Bytes of one recorder dump within an archive or pipe; dumps that are files are read later."""
DUMPS = 1 << 30
"""Bytes of all such dumps."""
_SCRIPTS = 1000  # of one input; a log can repeat commands endlessly

Progress = Callable[[int, "int | None", str], None]


class Reading(msgspec.Struct):
    """All that the input holds.

    Attributes:
        facts: by source in the order given, by line within each.
        scripts: whole scripts, script regions of texts, and single commands found in logs.
        configs: configuration files and snippets, and programs' sources.
        dumps: Flight Recorder dumps.
        unread: what could not be read, and what was left out.
        counts: ``lines``, ``bytes`` (unpacked), ``sources``, ``facts``.
        language: what people wrote in it, ``en`` or ``zh``.
    """

    facts: list[Fact]
    scripts: list[ScriptText]
    configs: list[ConfigText]
    dumps: list[DumpSource]
    unread: list[Unreadable]
    counts: dict[str, int]
    language: str


def read(
    paths: Iterable[str | Path],
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    readers: Sequence[type[Reader]] | None = None,
    limits: Limits | None = None,
) -> Reading:
    """Read everything behind the paths.

    Args:
        paths: files, folders, patterns, archives, ``-`` for standard input.
        stdin: what ``-`` reads.
        progress: called with bytes read, bytes in all (where known) and the source's name.
        readers: the readers of lines; by default all there are.
        limits: bounds on unpacking.

    Nothing is raised for what the input holds; see :attr:`Reading.unread`.
    """
    if readers is None:
        readers = _all_readers()
    paths = list(paths)
    work = _Work(readers, progress, _total(paths))
    for source in open_sources(paths, stdin, limits):
        if isinstance(source, Unreadable):
            work.unread.append(source)
        else:
            work.take(source)
    return work.result()


def _all_readers() -> tuple[type[Reader], ...]:
    from unstall.reading.stacks import STACK_READERS
    from unstall.reading.writers import READERS

    return (*READERS, *STACK_READERS)


class _Work:
    def __init__(
        self, readers: Sequence[type[Reader]], progress: Progress | None, total: int | None
    ) -> None:
        self._readers = readers
        self._marks = Marks(readers)
        self._passing = Passing(self._marks.words)
        self._progress = progress
        self._total = total
        self._facts = Collector()
        self._scripts: list[ScriptText] = []
        self._said: set[str] = set()  # commands, so that eight ranks' copies are one
        self._configs: list[ConfigText] = []
        self._dumps: list[DumpSource] = []
        self._dumped = 0
        self._tongue = Tongue()
        self._lines = 0
        self._bytes = 0
        self._sources = 0
        self._name = ""
        self.unread: list[Unreadable] = []

    def take(self, source: Source) -> None:
        self._name = source.name
        if source.kind == "binary":
            self.unread.append(
                unreadable(
                    source.name,
                    say("it is a binary file, not a log, script, stack dump or Flight Recorder "
                        "dump"),
                )
            )  # fmt: skip
            return
        self._sources += 1
        if source.kind == "recorder":
            self._dump(source)
        elif source.kind in ("script", "code"):
            self._whole(source)
        else:
            if source.kind == "config":
                self._config(source)
            self._text(source)

    def result(self) -> Reading:
        facts = self._facts.all()
        counts = {
            "lines": self._lines,
            "bytes": self._bytes,
            "sources": self._sources,
            "facts": len(facts),
        }
        return Reading(
            facts=facts,
            scripts=self._scripts,
            configs=self._configs,
            dumps=self._dumps,
            unread=self.unread,
            counts=counts,
            language=self._tongue.language,
        )

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._progress is not None:
            self._progress(self._bytes, self._total, self._name)

    def _text(self, source: Source) -> None:
        name = source.name
        kept = Kept(REGIONS)
        triage = Triage(self._readers, self._marks)
        scanner = Scanner(source, kept, self._count, self._passing, lambda: not triage.idle)
        for line in scanner:
            self._facts.add(triage.feed(line))
            if not kept.whole and line.place.line > len(kept.lines):
                self._beyond(name, line.place, line.text)
        self._facts.add(triage.finish())
        self._lines += scanner.lines
        if source.kind == "text":
            found = regions(name, kept.lines)
            for script in found.scripts:
                self._script(script)
            self._configs.extend(found.configs)
            self._facts.add(found.remarks)
            self._tongue.add(found.tongue)
        self.unread.extend(triage.troubles)
        self.unread.extend(self._facts.close(name))

    def _beyond(self, name: str, place: Place, text: str) -> None:
        """Commands and notes behind the part of a text that regions are looked for in."""
        if is_note(text):
            self._facts.add(note(name, place.line, text))
        elif text[:1] == "+" or "`" in text or " cmd = " in text or "ommand" in text:
            command = one_liner(text)
            if command is not None:
                self._script(ScriptText(place, command, echo=is_echo(text)))

    def _script(self, script: ScriptText) -> None:
        if "\n" not in script.text:
            if script.text in self._said:
                return
            self._said.add(script.text)
        if len(self._scripts) < _SCRIPTS:
            self._scripts.append(script)

    def _whole(self, source: Source) -> None:
        """A script or a program's source: nothing in it was said by a running program."""
        text = self._content(source)
        self._lines += text.count("\n") + (not text.endswith("\n"))
        place = Place(source.name, 1)
        if source.kind == "code":
            self._configs.append(ConfigText(place, text, config_kind(source.name)))
            return
        self._scripts.append(ScriptText(place, text))
        for line in text.split("\n", 2000)[:2000]:
            if line.lstrip().startswith("#") and not line.startswith("#!"):
                self._tongue.hear(line)

    def _config(self, source: Source) -> None:
        text = self._content(source, consume=False)
        self._configs.append(ConfigText(Place(source.name, 1), text, config_kind(source.name)))

    def _content(self, source: Source, *, consume: bool = True) -> str:
        """A whole text of bounded size, its lines as they are, its line ends as one character."""
        raw = source.read_bytes(TEXT + 1)
        if len(raw) > TEXT:
            raw = raw[:TEXT]
            reason = say("only its first {size} were read as a script or setting",
                         size=amount(TEXT))  # fmt: skip
            self.unread.append(unreadable(source.name, reason, fatal=False))
        if consume:
            self._count(len(raw))
        lines = b"".join(as_utf8([raw])).split(b"\n")
        return "\n".join(controls(decode(line)).rstrip("\r") for line in lines)

    def _dump(self, source: Source) -> None:
        if source.path is not None and not base_name(source.path).endswith((".gz", ".zst")):
            self._count(source.size or 0)
            self._dumps.append(DumpSource(source.name, path=source.path, size=source.size))
            return
        room = min(DUMP, DUMPS - self._dumped)
        data = source.read_bytes(room + 1)
        complete = len(data) <= room and source.trouble is None
        data = data[:room]
        self._dumped += len(data)
        self._count(len(data))
        if len(data) == room:
            reason = say("more than {size} of recorder dumps are packed here; unpack them and "
                         "give the folder", size=amount(room))  # fmt: skip
            self.unread.append(unreadable(source.name, reason, fatal=False))
        self._dumps.append(DumpSource(source.name, data=data, size=len(data), complete=complete))


def _total(paths: Sequence[str | Path]) -> int | None:
    """Bytes of all paths, if they are files that are not packed."""
    total = 0
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        packed = base_name(str(path)).endswith((".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip"))
        if not stat.S_ISREG(status.st_mode) or packed:
            return None
        total += status.st_size
    return total
