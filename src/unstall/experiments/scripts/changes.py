"""What is to be changed of a script's programs, as the user says it or the diagnosis does."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts import places
from unstall.experiments.scripts.places import canonical
from unstall.model.findings import Change
from unstall.model.plan import Plan, Program
from unstall.model.text import say

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}\Z", re.ASCII)
#: A flag's name, or a key of Hydra: it is written unquoted, so nothing that a shell reads.
_FLAG = re.compile(r"[+-]{0,2}[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,200}\Z", re.ASCII)


class Edits(msgspec.Struct, frozen=True):
    """Changes of one program.

    Attributes:
        program: it, by its label.
        set: flags (``vllm_use_async_engine`` or ``--vllm_use_async_engine``) to values.
        unset: flags to remove.
        env: variables to values.
        unset_env: variables that it is not to get.
        switches: those of ``set`` that are written without their value, :data:`places.ON`.
    """

    program: str
    set: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    env: dict[str, str] = {}
    unset_env: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


def parse_edits(
    plan: Plan, given: Sequence[str], unset: Sequence[str], env: Sequence[str]
) -> list[Edits]:
    """``PROGRAM.flag=value`` and the like to edits.

    Raises:
        LabError: a change names no program of the script, or a flag to remove that is not set.
    """
    edits: dict[str, Edits] = {}

    def add(program: str, **more: object) -> None:
        known = edits.get(program, Edits(program))
        edits[program] = msgspec.structs.replace(known, **more)

    for text in given:
        owners, rest = _programs_of(plan, text)
        flag, equals, value = rest.partition("=")
        value = value if equals else places.ON
        fits = equals or all(places.can_switch(one, flag) for one in owners)
        if not flag or not fits or not _writable(flag, value, _FLAG):
            raise LabError(say("“{text}” is not PROGRAM.FLAG=VALUE.", text=text))
        for one in owners:
            known = edits.get(one.label, Edits(one.label))
            alone = () if equals else (flag,)
            add(one.label, set={**known.set, flag: value}, switches=(*known.switches, *alone))
    for text in unset:
        if _is_variable(text):
            owners = [p for p in plan.programs if text in p.environment or text in os.environ]
            if not owners:
                raise LabError(say("No program of the script gets the variable {name}.", name=text))
            for one in owners:
                known = edits.get(one.label, Edits(one.label))
                add(one.label, unset_env=(*known.unset_env, text))
            continue
        owners, flag = _programs_of(plan, text)
        for one in owners:
            known = edits.get(one.label, Edits(one.label))
            if _is_variable(flag) and (flag in one.environment or flag in os.environ):
                add(one.label, unset_env=(*known.unset_env, flag))
                continue
            if canonical(flag) not in one.flags or one.flags[canonical(flag)].default:
                raise LabError(
                    say(
                        "{program} is not given the flag {flag}. It has: {flags}",
                        program=one.label,
                        flag=flag,
                        flags=", ".join(n for n, v in one.flags.items() if not v.default) or "-",
                    )
                )
            add(one.label, unset=(*known.unset, flag))
    for text in env:
        name, equals, value = text.partition("=")
        if not equals:
            raise LabError(say("“{text}” is not NAME=VALUE.", text=text))
        if name.isidentifier():
            owners = list(plan.programs)
            variable = name
        else:
            owners, variable = _programs_of(plan, name)
        if not _writable(variable, value, _VARIABLE):
            raise LabError(say("“{text}” is not NAME=VALUE.", text=text))
        for one in owners:
            known = edits.get(one.label, Edits(one.label))
            add(one.label, env={**known.env, variable: value})
    return list(edits.values())


def _writable(name: str, value: str, form: re.Pattern[str]) -> bool:
    """Whether a name needs no quotes in a script, and a value can stand in a text file."""
    return form.match(name) is not None and not re.search(r"[\0\ud800-\udfff]", value)


def edits_of(plan: Plan, change: Change) -> Edits | None:
    """A fix of the diagnosis as edits; ``None`` where its program is not in the script."""
    program = next((p for p in plan.programs if change.program in (p.label, p.role)), None)
    if program is None:
        return None
    flags = {k: v for k, v in change.set.items() if not _is_variable(k)}
    env = {k: v for k, v in change.set.items() if _is_variable(k)}
    unset = tuple(
        flag for flag in change.unset if not _is_variable(flag) and canonical(flag) in program.flags
    )
    gone = tuple(name for name in change.unset if name in program.environment)
    return Edits(program.label, flags, unset, env, gone)


def _is_variable(name: str) -> bool:
    return name.isupper() and name.isidentifier()


def _programs_of(plan: Plan, text: str) -> tuple[list[Program], str]:
    """The programs that a change names, and the rest after the dot.

    Several only where one command starts them, a loop's: it cannot be changed for one alone.
    """
    several: list[Program] = []
    for key in ("label", "role", "software"):
        named = [p for p in plan.programs if text.startswith(f"{getattr(p, key)}.")]
        named.sort(key=lambda p: -len(str(getattr(p, key))))
        if not named:
            continue
        found = named[:1] if key == "label" else named
        if len({(p.place, p.command[:1]) for p in found}) == 1:
            return found, text[len(str(getattr(found[0], key))) + 1 :]
        several = several or found
    if several:
        raise LabError(
            say(
                "“{text}” names several programs of the script; say which: {programs}",
                text=text,
                programs=", ".join(p.label for p in several),
            )
        )
    raise LabError(
        say(
            "“{text}” names no program of the script. Programs: {programs}",
            text=text,
            programs=", ".join(p.label for p in plan.programs) or "-",
        )
    )


def merged(first: list[Edits], second: tuple[Edits, ...]) -> list[Edits]:
    """Edits of both; those of ``second`` win."""
    found = {one.program: one for one in first}
    for one in second:
        known = found.get(one.program, Edits(one.program))
        found[one.program] = Edits(
            one.program,
            {**known.set, **one.set},
            (*known.unset, *one.unset),
            {**known.env, **one.env},
            (*known.unset_env, *one.unset_env),
            (*known.switches, *one.switches),
        )
    return list(found.values())
