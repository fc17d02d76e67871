"""A changed copy of a launch script: flags and variables of its programs, everything else as is."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tree_sitter import Language, Node, Parser

from unstall.experiments.nurse import LabError
from unstall.launch.texts import Script
from unstall.model.facts import Place
from unstall.model.findings import Change
from unstall.model.plan import Plan, Program
from unstall.model.text import say


class Edits(msgspec.Struct, frozen=True):
    """Changes of one program.

    Attributes:
        program: it, by its label.
        set: flags (``vllm_use_async_engine`` or ``--vllm_use_async_engine``) to values.
        unset: flags to remove.
        env: variables to values.
    """

    program: str
    set: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    env: dict[str, str] = {}


def plan_of(path: Path) -> tuple[str, Plan]:
    """A script's text and what it launches.

    Raises:
        LabError: it cannot be read, or launches nothing that is known.
    """
    from unstall.launch import read_plan

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(
            say("{path} cannot be read: {error}", path=str(path), error=error.strerror or "?")
        ) from error
    except UnicodeDecodeError as error:
        raise LabError(say("{path} is no text.", path=str(path))) from error
    plan = read_plan([Script(Place(str(path), 1), text)])
    return text, plan


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
        program, rest = _program_of(plan, text)
        flag, equals, value = rest.partition("=")
        if not flag or not equals:
            raise LabError(say("“{text}” is not PROGRAM.FLAG=VALUE.", text=text))
        known = edits.get(program.label, Edits(program.label))
        add(program.label, set={**known.set, flag: value})
    for text in unset:
        program, flag = _program_of(plan, text)
        if _canonical(flag) not in program.flags or program.flags[_canonical(flag)].default:
            raise LabError(
                say(
                    "{program} is not given the flag {flag}. It has: {flags}",
                    program=program.label,
                    flag=flag,
                    flags=", ".join(n for n, v in program.flags.items() if not v.default) or "-",
                )
            )
        known = edits.get(program.label, Edits(program.label))
        add(program.label, unset=(*known.unset, flag))
    for text in env:
        name, equals, value = text.partition("=")
        if not equals:
            raise LabError(say("“{text}” is not NAME=VALUE.", text=text))
        if name.isidentifier():
            owners = list(plan.programs)
            variable = name
        else:
            owner, variable = _program_of(plan, name)
            owners = [owner]
        for one in owners:
            known = edits.get(one.label, Edits(one.label))
            add(one.label, env={**known.env, variable: value})
    return list(edits.values())


def edits_of(plan: Plan, change: Change) -> Edits | None:
    """A fix of the diagnosis as edits; ``None`` where its program is not in the script."""
    program = next((p for p in plan.programs if change.program in (p.label, p.role)), None)
    if program is None:
        return None
    flags = {k: v for k, v in change.set.items() if not _is_variable(k)}
    env = {k: v for k, v in change.set.items() if _is_variable(k)}
    unset = tuple(
        flag
        for flag in change.unset
        if not _is_variable(flag) and _canonical(flag) in program.flags
    )
    return Edits(program.label, flags, unset, env)


def _is_variable(name: str) -> bool:
    return name.isupper() and name.isidentifier()


def _program_of(plan: Plan, text: str) -> tuple[Program, str]:
    """The program that a change names, and the rest after the dot."""
    for key in ("label", "role", "software"):
        named = [p for p in plan.programs if text.startswith(f"{getattr(p, key)}.")]
        named.sort(key=lambda p: -len(str(getattr(p, key))))
        if named and (key == "label" or len(named) == 1):
            return named[0], text[len(str(getattr(named[0], key))) + 1 :]
    raise LabError(
        say(
            "“{text}” names no program of the script. Programs: {programs}",
            text=text,
            programs=", ".join(p.label for p in plan.programs) or "-",
        )
    )


def _canonical(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def apply(text: str, plan: Plan, edits: Sequence[Edits]) -> str:
    """The changed text.

    Raises:
        LabError: a program's command cannot be found in the text (it stands in another script).
    """
    cuts: list[tuple[int, int, bytes]] = []
    data = text.encode()
    for one in edits:
        program = plan.program(one.program)
        if program is None:
            raise LabError(say("The script has no program {program}.", program=one.program))
        command = _command(data, program)
        if command is None:
            raise LabError(
                say(
                    "The command of {program} could not be found in the script; change the script "
                    "that holds it.",
                    program=program.label,
                )
            )
        cuts += _cuts(data, command, one)
    for start, end, new in sorted(cuts, reverse=True):
        data = data[:start] + new + data[end:]
    return data.decode()


def patch(before: str, after: str, name: str) -> str:
    """A unified difference."""
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
    )


# --- places in the text ----------------------------------------------------------------------


def _command(data: bytes, program: Program) -> Node | None:
    """The shell command that starts a program, by the line where its plan says that it stands."""
    import tree_sitter_bash

    if program.place is None:
        return None
    root = Parser(Language(tree_sitter_bash.language())).parse(data).root_node
    line = program.place.line - 1
    best: Node | None = None
    todo = [root]
    while todo:
        node = todo.pop()
        if not node.start_point[0] <= line <= node.end_point[0]:
            continue
        if node.type == "command" and (best is None or _size(node) <= _size(best)):
            words = [_text(data, child) for child in node.named_children]
            wanted = set(program.command)
            score = sum(word in wanted for word in words)
            if best is None or score >= sum(_text(data, c) in wanted for c in best.named_children):
                best = node
        todo.extend(node.named_children)
    return best


def _size(node: Node) -> int:
    return node.end_byte - node.start_byte


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : node.end_byte].decode()


def _cuts(data: bytes, command: Node, edits: Edits) -> list[tuple[int, int, bytes]]:
    """Replacements of byte ranges within one command."""
    found: list[tuple[int, int, bytes]] = []
    words = list(command.named_children)
    for flag, value in edits.set.items():
        span = _flag_span(data, words, flag)
        spelled = flag if flag.startswith("-") else f"--{flag}"
        if span is None:
            end = words[-1].end_byte
            found.append((end, end, f" {spelled} {shlex.quote(value)}".encode()))
        else:
            start, end, written = span
            joined = "=" if data[start:end].startswith(f"{written}=".encode()) else " "
            found.append((start, end, f"{written}{joined}{shlex.quote(value)}".encode()))
    for flag in edits.unset:
        span = _flag_span(data, words, flag)
        if span is None:
            raise LabError(
                say(
                    "{flag} does not stand in the command of {program} itself; remove it where it "
                    "is set.",
                    flag=flag,
                    program=edits.program,
                )
            )
        start, end, _ = span
        first = start
        while first > 0 and data[first - 1 : first] == b" ":
            first -= 1
        if data[first - 1 : first] == b"\n":  # keep the line's indentation
            while data[end : end + 1] == b" ":
                end += 1
        else:
            start = first
        found.append((start, end, b""))
    for name, value in edits.env.items():
        own = next(
            (
                word
                for word in words
                if word.type == "variable_assignment" and _text(data, word).startswith(f"{name}=")
            ),
            None,
        )
        new = f"{name}={shlex.quote(value)}"
        if own is not None:
            found.append((own.start_byte, own.end_byte, new.encode()))
        else:
            found.append((command.start_byte, command.start_byte, f"{new} ".encode()))
    return found


def _flag_span(data: bytes, words: Sequence[Node], flag: str) -> tuple[int, int, str] | None:
    """Where a flag and its values stand, and how it is written there."""
    wanted = _canonical(flag)
    for number, word in enumerate(words):
        text = _text(data, word)
        if not text.startswith("-"):
            continue
        name, equals, _ = text.partition("=")
        if _canonical(name) != wanted:
            continue
        end = word.end_byte
        if not equals:
            for after in words[number + 1 :]:
                if _text(data, after).startswith("-") and not _negative(_text(data, after)):
                    break
                end = after.end_byte
        return word.start_byte, end, name
    return None


def _negative(text: str) -> bool:
    return text[1:2].isdigit()
