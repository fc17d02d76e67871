"""A changed copy of a launch script: flags and variables of its programs, everything else as is."""

from __future__ import annotations

import difflib
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts import places
from unstall.experiments.scripts.changes import Edits
from unstall.experiments.scripts.places import Cut, Spot, canonical
from unstall.launch.texts import Script
from unstall.model.facts import Place
from unstall.model.plan import Plan, Program, Value
from unstall.model.text import Text, say


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
    return text, plan_of_text(text, str(path))


def plan_of_text(text: str, name: str) -> Plan:
    """What a script's text launches."""
    from unstall.experiments.scripts.programs import with_others
    from unstall.launch import read_plan

    script = Script(Place(name, 1), text)
    return with_others(read_plan([script]), script)


def line_end_of(text: str) -> str:
    r"""``\r\n`` where every line of a text ends so, else ``\n``.

    :func:`plan_of` gives such a text with ``\n``; a copy is to be what the script is.
    """
    return "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"


def apply(text: str, plan: Plan, edits: Sequence[Edits]) -> str:
    """The changed text.

    Each place where a change may be made is tried until one has the effect that was asked for and
    no other: the plan of the changed text is read again. A command may be the text of another
    (``bash -c``, ``ssh``, a heredoc).

    Raises:
        LabError: a program's command cannot be found in the text (it stands in another script), or
            no place gives the effect, or it would have another one besides.
    """
    place = next((p.place for p in plan.programs if p.place is not None), None)
    name = place.source if place is not None else "-"
    everywhere = _read_by_script(text, plan, edits)
    changed, now = text, plan
    for variable, value in everywhere.items():
        changed = _where_it_is_set(changed, variable, value)
        now = plan_of_text(changed, name)
        _check_everywhere(plan, now, variable, value)
    for one in edits:
        left = msgspec.structs.replace(
            one, env={k: v for k, v in one.env.items() if k not in everywhere}
        )
        changed, now = _apply_one(changed, now, left, edits, name)
    if not everywhere:
        _check(plan, now, edits, edits)
    return changed


def _apply_one(
    text: str, plan: Plan, one: Edits, edits: Sequence[Edits], name: str
) -> tuple[str, Plan]:
    """One program's changes made in the first place where they have their effect."""
    program = plan.program(one.program)
    if program is None:
        raise LabError(say("The script has no program {program}.", program=one.program))
    if _done(program, one):
        return text, plan  # a loop starts several programs by one command
    data = text.encode()
    found = places.spots(data, program)
    if not found:
        raise LabError(_not_found(program))
    first: LabError | None = None
    for spot in found:
        for cuts in _ways(spot, one, program):
            try:
                changed = _cut(data, cuts)
                after = plan_of_text(changed, name)
                _check(plan, after, [one], edits)
            except LabError as error:
                first = first or error
                continue
            return changed, after
    if first is None and one.unset:
        raise LabError(
            say(
                "{flag} does not stand in the command of {program} itself; remove it where it "
                "is set.",
                flag=", ".join(one.unset),
                program=one.program,
            )
        )
    raise first or LabError(_without_effect(program))


def _done(program: Program, one: Edits) -> bool:
    return (
        all(_is(program.flags.get(canonical(k)), v) for k, v in one.set.items())
        and not any(_given(program, flag) for flag in one.unset)
        and all(_is(program.environment.get(k), v) for k, v in one.env.items())
        and not one.unset_env
    )


def _given(program: Program, flag: str) -> bool:
    found = program.flags.get(canonical(flag))
    return found is not None and not found.default


def _ways(spot: Spot, one: Edits, program: Program) -> Iterator[list[Cut] | None]:
    """The ways in which changes can be written into one command; ``None``: not as its text is."""
    gone = places.unset_flags(spot, one.unset, program)
    if gone is None:
        return
    cuts = [*places.set_flags(spot, one.set, program, one.switches), *gone]
    for variable, value in one.env.items():
        cuts += places.set_variable(spot, variable, value)
    if not one.unset_env:
        yield spot.moved(cuts)
        return
    removed = [cut for v in one.unset_env for cut in places.unset_variable(spot, v)]
    if removed:
        yield spot.moved([*cuts, *removed])
    kept = [cut for v in one.unset_env for cut in places.keep_from(spot, v)]
    yield spot.moved([*cuts, *removed, *kept])


def _cut(data: bytes, cuts: Sequence[Cut] | None) -> str:
    """The text with its cuts made; those at one place are put there in their order."""
    if cuts is None:
        raise LabError(
            say(
                "The command is part of another's text, in whose quotes the new value cannot be "
                "written. Write it as a plain command."
            )
        )
    end, last = len(data), b""
    numbered = sorted(enumerate(dict.fromkeys(cuts)), key=lambda one: (one[1][:2], one[0]))
    for _, (start, stop, new) in reversed(numbered):
        if stop > end and not new and not last:
            stop = end  # both are removed
        last = new
        if stop > end:
            raise LabError(say("Two changes would overwrite each other in the script."))
        data, end = data[:start] + new + data[stop:], start
    return data.decode()


# --- variables that the script itself reads -------------------------------------------------------


def _read_by_script(text: str, plan: Plan, edits: Sequence[Edits]) -> dict[str, str]:
    """Variables of all programs whose value the script puts into its commands itself.

    What is set before one command does not reach ``$NAME`` in it: the shell has put that in.

    Raises:
        LabError: such a variable is to be changed for some programs only.
    """
    data = text.encode()
    root = places.parse(data)
    found: dict[str, str] = {}
    for variable in dict.fromkeys(name for one in edits for name in one.env):
        lines = places.reads(root, data, variable)
        values = {one.env[variable] for one in edits if variable in one.env}
        own = [line for line in lines if not _only_own(data, variable, line)]
        if not own:
            continue
        asked = {one.program for one in edits if variable in one.env}
        if len(values) > 1 or asked != {p.label for p in plan.programs}:
            raise LabError(
                say(
                    "{name} is read by the script itself as well (line {lines}): for one program "
                    "alone it cannot be changed without changing what is made of it. Without a "
                    "program before the name it is changed where it is set.",
                    name=variable,
                    lines=", ".join(map(str, own)),
                )
            )
        found[variable] = values.pop()
    return found


def _only_own(data: bytes, variable: str, line: int) -> bool:
    """Whether a line that reads a variable only gives it a default: ``X=${X:-1}``, or shows it."""
    text = data.split(b"\n")[line - 1].decode(errors="replace").strip()
    return text.startswith(("echo ", "printf ")) or bool(
        re.match(rf"(?:export\s+)?{variable}=[\"']?\$\{{?{variable}\b[^;&|]*\Z", text)
    )


def _where_it_is_set(text: str, variable: str, value: str) -> str:
    """The script with a variable changed in the statement that sets it, or set at its begin."""
    data = text.encode()
    nodes = places.assignments(data, variable)
    new = f"{variable}={shlex.quote(value)}".encode()
    if len(nodes) == 1:
        return _cut(data, [(nodes[0].start_byte, nodes[0].end_byte, new)])
    if nodes:
        raise LabError(
            say(
                "{name} is set on several lines of the script ({lines}); change the right one in "
                "a copy of your own.",
                name=variable,
                lines=", ".join(str(node.start_point[0] + 1) for node in nodes),
            )
        )
    at = 0  # after the comments at the begin: a scheduler reads them
    for line in text.splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            break
        at += len(line.encode())
    return _cut(data, [(at, at, b"export " + new + b"\n")])


def _check_everywhere(before: Plan, after: Plan, variable: str, value: str) -> None:
    """Whether a variable has its value in every program, and none was lost or cut short."""
    pairs = list(zip(before.programs, after.programs, strict=False))
    same = [p.label for p in before.programs] == [p.label for p in after.programs]
    if not same or not all(
        len(old.command) == len(new.command) and _is(new.environment.get(variable), value)
        for old, new in pairs
    ):
        raise LabError(_without_effect(before.programs[0]))


def _not_found(program: Program) -> Text:
    return say(
        "The command of {program} could not be found in the script; change the script that holds "
        "it.",
        program=program.label,
    )


def _check(before: Plan, after: Plan, edits: Sequence[Edits], every: Sequence[Edits]) -> None:
    """Whether changes have the effect that was asked for and no other.

    Args:
        before: the plan as it was.
        after: the plan as it is.
        edits: what was changed.
        every: all that is to be changed in the end: a command may be that of several programs.
    """
    if [p.label for p in before.programs] != [p.label for p in after.programs]:
        raise LabError(_without_effect(before.programs[0]))
    wanted = {one.program: one for one in edits}
    labels = {one.program for one in every}
    for old, new in zip(before.programs, after.programs, strict=True):
        one = wanted.get(old.label)
        if one is None:
            beside = [p for p in before.programs if p.label in labels and p.place == old.place]
            if (old.command != new.command or _texts(old) != _texts(new)) and not beside:
                raise LabError(_without_effect(old))
            continue
        own = {canonical(flag): value for flag, value in one.set.items()}
        gone = {canonical(flag) for flag in one.unset}
        right = (
            all(_is(new.flags.get(flag), value) for flag, value in own.items())
            and all(flag not in new.flags or new.flags[flag].default for flag in gone)
            and all(_is(new.environment.get(name), text) for name, text in one.env.items())
            and not any(name in new.environment for name in one.unset_env)
        )
        lost = Counter(old.command) - Counter(new.command)
        more = Counter(new.command) - Counter(old.command)
        if (
            not right
            or not set(lost) <= _words_of(old, own.keys() | gone)
            or not set(more) <= _words_of(new, own.keys())
        ):
            raise LabError(_without_effect(old))
        others = one.env.keys() | set(one.unset_env)
        if {k: v for k, v in _texts(old).items() if k not in others} != {
            k: v for k, v in _texts(new).items() if k not in others
        }:
            raise LabError(_without_effect(old))


def _texts(program: Program) -> dict[str, str]:
    return {name: value.text for name, value in program.environment.items()}


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
        if canonical(word.partition("=")[0]) in flags:
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
