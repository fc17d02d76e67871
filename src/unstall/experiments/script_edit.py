"""A changed copy of a launch script: flags and variables of its programs, everything else as is."""

from __future__ import annotations

import difflib
import re
import shlex
from collections import Counter
from collections.abc import Sequence, Set
from pathlib import Path

import msgspec
from tree_sitter import Language, Node, Parser

from unstall.experiments.nurse import LabError
from unstall.launch.texts import Script
from unstall.model.facts import Place
from unstall.model.findings import Change
from unstall.model.plan import Plan, Program, Value
from unstall.model.text import Text, say

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}\Z", re.ASCII)
#: A flag's name, or a key of Hydra: it is written unquoted, so nothing that a shell reads.
_FLAG = re.compile(r"[+-]{0,2}[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,200}\Z", re.ASCII)
_HYDRA = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/-]*=")


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
    try:
        str(path).encode()
        text = path.read_bytes().decode()
    except UnicodeEncodeError as error:
        raise LabError(say("The path {path} is not UTF-8.", path=repr(str(path)))) from error
    except OSError as error:
        raise LabError(
            say("{path} cannot be read: {error}", path=str(path), error=error.strerror or "?")
        ) from error
    except UnicodeDecodeError as error:
        raise LabError(say("{path} is no text.", path=str(path))) from error
    if line_end_of(text) == "\r\n":
        text = text.replace("\r\n", "\n")
    return text, _plan(text, str(path))


def _plan(text: str, name: str) -> Plan:
    from unstall.launch import read_plan

    return read_plan([Script(Place(name, 1), text)])


def line_end_of(text: str) -> str:
    r"""``\r\n`` where every line of a text ends so, else ``\n``.

    :func:`plan_of` gives such a text with ``\n``; a copy is to be what the script is.
    """
    return "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"


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
        if not flag or not equals or not _writable(flag, value, _FLAG):
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
    return flag.lstrip("-+~").replace("-", "_")


def apply(text: str, plan: Plan, edits: Sequence[Edits]) -> str:
    """The changed text.

    The plan of the changed text is read again: what is not seen there as wanted was not changed,
    be it that the command is the text of another (``bash -c``, ``ssh``, a heredoc).

    Raises:
        LabError: a program's command cannot be found in the text (it stands in another script), or
            the change has not the effect that was asked for, or another one besides.
    """
    cuts: set[tuple[int, int, bytes]] = set()
    data = text.encode()
    for one in edits:
        program = plan.program(one.program)
        if program is None:
            raise LabError(say("The script has no program {program}.", program=one.program))
        command = _command(data, program)
        if command is None:
            raise LabError(_not_found(program))
        cuts.update(_cuts(data, command, one, program))
    end = len(data)
    for start, stop, new in sorted(cuts, reverse=True):
        if stop > end:
            raise LabError(say("Two changes would overwrite each other in the script."))
        data, end = data[:start] + new + data[stop:], start
    changed = data.decode()
    place = next((p.place for p in plan.programs if p.place is not None), None)
    _check(plan, _plan(changed, place.source if place is not None else "-"), edits)
    return changed


def _not_found(program: Program) -> Text:
    return say(
        "The command of {program} could not be found in the script; change the script that holds "
        "it.",
        program=program.label,
    )


def _check(before: Plan, after: Plan, edits: Sequence[Edits]) -> None:
    """Whether a change has the effect that was asked for and no other."""
    if [p.label for p in before.programs] != [p.label for p in after.programs]:
        raise LabError(_without_effect(before.programs[0]))
    wanted = {one.program: one for one in edits}
    for old, new in zip(before.programs, after.programs, strict=True):
        one = wanted.get(old.label)
        if one is None:
            beside = [p for p in before.programs if p.label in wanted and p.place == old.place]
            if old.command != new.command and not beside:
                raise LabError(_without_effect(old))
            continue
        own = {_canonical(flag): value for flag, value in one.set.items()}
        gone = {_canonical(flag) for flag in one.unset}
        right = (
            all(_is(new.flags.get(flag), value) for flag, value in own.items())
            and all(flag not in new.flags or new.flags[flag].default for flag in gone)
            and all(_is(new.environment.get(name), text) for name, text in one.env.items())
        )
        lost = Counter(old.command) - Counter(new.command)
        if not right or not set(lost) <= _words_of(old, own.keys() | gone):
            raise LabError(_without_effect(old))


def _without_effect(program: Program) -> Text:
    return say(
        "The change would not reach {program}, or would change more than that: its command is part "
        "of another's text or the same is set again on the way. Write it as a plain command.",
        program=program.label,
    )


def _words_of(program: Program, flags: Set[str]) -> set[str]:
    """Words of a program's command that belong to these flags, their values too."""
    found: set[str] = set()
    for flag in flags & program.flags.keys():
        found |= {program.flags[flag].text, *program.flags[flag].text.split()}
    for word, after in zip(program.command, (*program.command[1:], ""), strict=True):
        if _canonical(word.partition("=")[0]) in flags:
            found |= {word} if "=" in word else {word, after}
    return found


def _is(found: Value | None, wanted: str) -> bool:
    return found is not None and found.known and found.text == wanted


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
    """The shell command that starts a program, by the line where its plan says that it stands.

    Of several on that line (``cd x && torchrun … | tee log``) the one with most of its words.
    """
    import tree_sitter_bash

    if program.place is None:
        return None
    root = Parser(Language(tree_sitter_bash.language())).parse(data).root_node
    line = program.place.line - 1
    wanted = Counter(program.command)
    best: tuple[int, int, Node] | None = None
    todo = [root]
    while todo:
        node = todo.pop()
        if not node.start_point[0] <= line <= node.end_point[0]:
            continue
        if node.type == "command":
            words = Counter(_text(data, child) for child in node.named_children)
            score = (words & wanted).total()
            if best is None or (score, -_size(node)) > best[:2]:
                best = (score, -_size(node), node)
        todo.extend(node.named_children)
    return best[2] if best is not None else None


def _size(node: Node) -> int:
    return node.end_byte - node.start_byte


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : node.end_byte].decode()


def _cuts(
    data: bytes, command: Node, edits: Edits, program: Program
) -> list[tuple[int, int, bytes]]:
    """Replacements of byte ranges within one command."""
    found: list[tuple[int, int, bytes]] = []
    words = [one for one in command.named_children if one.type != "variable_assignment"]
    hydra = any(_HYDRA.match(word) for word in program.command) and not any(
        word.startswith("--") and "config" not in word for word in program.command
    )
    for flag, value in edits.set.items():
        spans = _flag_spans(data, words, flag, program)
        if spans:
            start, end, written = spans[-1]  # of several, programs take the last
            joined = "=" if data[start:end].startswith(f"{written}=".encode()) else " "
            found.append((start, end, f"{written}{joined}{shlex.quote(value)}".encode()))
            continue
        end = words[-1].end_byte
        if hydra:
            new = f" {flag}={shlex.quote(value)}"
        else:
            new = f" {flag if flag.startswith('-') else f'--{flag}'} {shlex.quote(value)}"
        found.append((end, end, new.encode()))
    for flag in edits.unset:
        spans = _flag_spans(data, words, flag, program)
        if not spans:
            raise LabError(
                say(
                    "{flag} does not stand in the command of {program} itself; remove it where it "
                    "is set.",
                    flag=flag,
                    program=edits.program,
                )
            )
        for start, end, _ in spans:
            first = start
            while first > 0 and data[first - 1 : first] == b" ":
                first -= 1
            if data[first - 1 : first] == b"\n":  # keep the line's indentation
                while data[end : end + 1] == b" ":
                    end += 1
                found.append((start, end, b""))
            else:
                found.append((first, end, b""))
    for name, value in edits.env.items():
        own = next(
            (
                word
                for word in command.named_children
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


def _flag_spans(
    data: bytes, words: Sequence[Node], flag: str, program: Program
) -> list[tuple[int, int, str]]:
    """Where a flag and its values stand each time, and how it is written there."""
    wanted = _canonical(flag)
    value = program.flags.get(wanted)
    found = []
    for number, word in enumerate(words):
        name, equals, _ = _text(data, word).partition("=")
        if _canonical(name) != wanted or not (equals or name.startswith("-")):
            continue
        end = word.end_byte
        if not equals:
            for after in words[number + 1 :]:
                if _text(data, after).startswith("-") and not _negative(_text(data, after)):
                    break
                if value is not None and end > word.end_byte and " " not in value.text:
                    break  # its one value is there: the rest is the program's own (a script, say)
                end = after.end_byte
        found.append((word.start_byte, end, name))
    return found


def _negative(text: str) -> bool:
    return text[1:2].isdigit()
