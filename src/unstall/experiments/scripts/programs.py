"""Programs of a script that no framework's rules know: ``python main.py --lr 1``.

Nothing is said of them, but their flags and variables can be changed as any other program's.
"""

from __future__ import annotations

import re

import msgspec

from unstall.launch.calls import Call
from unstall.launch.evaluate import evaluate
from unstall.launch.texts import Script
from unstall.model.plan import Plan, Program
from unstall.programs.base import parse_flags

_PYTHON = re.compile(r"python(?:\d(?:\.\d{1,2})?)?\Z", re.ASCII)
_MOST = 32


def with_others(plan: Plan, script: Script) -> Plan:
    """A plan with the Python programs of its script that it leaves out."""
    places = {program.place for program in plan.programs}
    found: list[Program] = []
    for call in evaluate(script).calls:
        program = _program(call)
        if program is None or program.place in places or len(found) >= _MOST:
            continue
        found.append(program)
    if not found:
        return plan
    taken = {program.label for program in plan.programs}
    role = "" if plan.programs or len({p.place for p in found}) > 1 else "trainer"
    named = []
    for program in found:
        label, number = program.label, 1
        while label in taken:
            number += 1
            label = f"{program.label} {number}"
        taken.add(label)
        named.append(msgspec.structs.replace(program, label=label, role=role))
    return msgspec.structs.replace(plan, programs=(*plan.programs, *named))


def _program(call: Call) -> Program | None:
    words = list(call.words)
    command = tuple(word.text for word in words)
    if words and _PYTHON.match(command[0].rsplit("/", 1)[-1]):
        words.pop(0)
        while words and words[0].text in ("-u", "-B", "-O", "-I", "-s", "-E"):
            words.pop(0)
        if words and words[0].text == "-m":
            words.pop(0)
        if not words or words[0].text.startswith("-"):
            return None  # a text (-c), or standard input
    elif not (words and command[0].endswith(".py")):
        return None
    flags, _ = parse_flags(words[1:])
    name = words[0].text.rsplit("/", 1)[-1].removesuffix(".py")
    return Program(
        label=name or "program",
        role="",
        software="python",
        command=command,
        flags=dict(flags),
        environment=call.environment,
        not_exported=call.not_exported,
        place=call.place,
        background=call.background,
    )
