"""Defects that the frameworks' maintainers know: read from ``known_bugs.toml``, matched by signs.

A sign is one table of the file; each of its keys narrows what is looked for, and all signs of a
bug must be seen:

- ``fact``: a fact of that type; with ``field`` and ``contains`` or ``equals`` one whose attribute
  holds, or is, that text;
- ``stall``: a time-out in a group of that framework, with ``group`` in a group of that name;
- ``software``: a program of that software, with ``role`` in that role;
- ``stack``: a traceback or stack with a frame in that package;
- ``variable``: a variable that a program was given or the log prints, with that ``value``;
- ``word``: a word of a program's command, or of a package list, that contains the text, without
  regard to case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources

import msgspec

from unstall.model.facts import (
    EnvironmentValue,
    Fact,
    PackageVersion,
    ProcessStack,
    PythonException,
)
from unstall.model.plan import Program
from unstall.model.text import Text
from unstall.programs.groups import version_key, within
from unstall.programs.identify import Match

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that must be seen; see the module's text."""

    fact: str | None = None
    field: str | None = None
    contains: str | None = None
    equals: str | None = None
    stall: str | None = None
    group: str | None = None
    software: str | None = None
    role: str | None = None
    stack: str | None = None
    variable: str | None = None
    value: str | None = None
    word: str | None = None


class KnownBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file.

    Attributes:
        since: first release that has it; ``None`` where that is not known.
        fixed: first release without it; ``None`` where none is known.
        what, advice: English sentences; also the keys of their translations.
    """

    id: str
    framework: str
    cause: str
    what: str
    advice: str
    links: tuple[str, ...]
    signs: tuple[Sign, ...]
    since: str | None = None
    fixed: str | None = None

    def standing(self, version: str | None) -> str:
        """``inside`` or ``outside`` its range; ``untold`` for an unknown version."""
        if version_key(version) is None:
            return "untold"
        return "inside" if within(version, self.since, self.fixed) else "outside"

    def said(self) -> Text:
        """What goes wrong, as a sentence for users."""
        return Text(self.what)

    def advised(self) -> Text:
        """What to do, as a sentence for users."""
        return Text(self.advice)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    bug: tuple[KnownBug, ...]


class Scene(msgspec.Struct, frozen=True):
    """What signs are looked for in.

    Attributes:
        facts: facts by type.
        programs: programs of the job.
        groups: for each stall, the readings of its group that a user could be shown.
    """

    facts: Mapping[type[Fact], Sequence[Fact]]
    programs: Sequence[Program] = ()
    groups: Sequence[Match] = ()


@lru_cache(maxsize=1)
def known_bugs() -> tuple[KnownBug, ...]:
    """All entries, in the file's order. A :class:`msgspec.ValidationError` for a faulty file."""
    text = resources.files(__package__).joinpath("known_bugs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _File).bug


def seen(bug: KnownBug, scene: Scene) -> Fact | bool:
    """The first fact among a bug's signs (``True`` without one); ``False``: a sign is not seen."""
    first: Fact | None = None
    for sign in bug.signs:
        found = _look(sign, scene)
        if found is False or found is None:
            return False
        if isinstance(found, Fact) and first is None:
            first = found
    return first if first is not None else True


def _look(sign: Sign, scene: Scene) -> Fact | bool | None:
    if sign.fact is not None:
        return _fact(sign, scene)
    if sign.stall is not None:
        return any(
            match.framework == sign.stall
            and (sign.group is None or (match.group is not None and match.group.name == sign.group))
            for match in scene.groups
        )
    if sign.software is not None:
        return any(
            sign.software in (program.software, program.engine)
            and (sign.role is None or program.role == sign.role)
            for program in scene.programs
        )
    if sign.stack is not None:
        return _stack(sign.stack, scene)
    if sign.variable is not None:
        return _variable(sign.variable, sign.value, scene)
    if sign.word is not None:
        return _word(sign.word.lower(), scene)
    return False


def _fact(sign: Sign, scene: Scene) -> Fact | None:
    for kind, facts in scene.facts.items():
        if kind.__name__ != sign.fact:
            continue
        for fact in facts:
            if sign.field is None:
                return fact
            value = getattr(fact, sign.field, None)
            text = "" if value is None else str(value)
            if sign.contains is not None and sign.contains in text:
                return fact
            if sign.equals is not None and sign.equals == text:
                return fact
    return None


def _stack(package: str, scene: Scene) -> bool:
    inside = f"/{package}/"
    for fact in scene.facts.get(PythonException, ()):
        if isinstance(fact, PythonException) and any(inside in f.file for f in fact.frames[-60:]):
            return True
    for fact in scene.facts.get(ProcessStack, ()):
        if isinstance(fact, ProcessStack) and any(
            inside in frame.file for thread in fact.threads[:4] for frame in thread.frames[:60]
        ):
            return True
    return False


def _variable(name: str, value: str | None, scene: Scene) -> Fact | bool:
    for fact in scene.facts.get(EnvironmentValue, ()):
        if isinstance(fact, EnvironmentValue) and fact.name == name and value in (None, fact.value):
            return fact
    return any(
        name in program.environment and value in (None, program.environment[name].text)
        for program in scene.programs
    )


def _word(text: str, scene: Scene) -> Fact | bool:
    if any(text in word.lower() for program in scene.programs for word in program.command[:400]):
        return True
    for fact in scene.facts.get(PackageVersion, ()):
        if isinstance(fact, PackageVersion) and text in fact.name.lower():
            return fact
    return False


def version_of(
    framework: str, versions: Mapping[str, str], programs: Iterable[Program]
) -> str | None:
    """The version of a framework, where the input tells it."""
    for name in (framework, framework.replace("-", "_")):
        if name in versions:
            return versions[name]
    for program in programs:
        if framework in program.versions:
            return program.versions[framework]
    return None
