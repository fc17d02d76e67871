"""What a script would start, found without running it.

The shell's commands are followed with values of which some stay unknown. A condition that cannot be
decided is followed both ways; loops whose words are unknown are followed once. Every command that is
neither a builtin nor a function becomes a :class:`Call` with the words and the environment that it
would receive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from unstall.launch import arithmetic, conditions, substitutions, words, wrappers
from unstall.launch.strings import (
    Field,
    Piece,
    Pieces,
    Unknown,
    as_value,
    compact,
    join,
    known,
    token,
    written,
)
from unstall.launch.syntax import (
    AndOr,
    Assignment,
    Async,
    Block,
    CFor,
    For,
    Function,
    If,
    Parsed,
    Part,
    Pipe,
    Simple,
    Test,
    While,
    parse,
)
from unstall.launch.texts import ScriptText
from unstall.model.facts import Place
from unstall.model.plan import Value

MOST_STEPS = 60000
MOST_CALLS = 2000
MOST_ROUNDS = 256
DEEPEST_CALL = 24
_INHERITED = frozenset(
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "PWD", "OLDPWD", "TMPDIR", "HOSTNAME"]
)


class Outer(msgspec.Struct, frozen=True):
    """A wrapper around a call (``srun``, ``docker run``, ``ssh`` …) with its options."""

    name: str
    options: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    place: Place


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One command that the script starts.

    Attributes:
        words: its words; the first is the program.
        environment: variables that the script set and that it receives.
        not_exported: variables that the script set and that it does not receive.
        place: where it stands.
        background: it runs on while the script goes on.
        conditions: the conditions it stands under that could not be decided, outermost first.
        path: for each of them, which condition and which branch.
        order: position in time within its script.
        ended: position at which a ``wait`` waited for it; ``None`` where nothing did.
        script: number of the script.
        outer: wrappers around it, outermost first.
        feed: text on its standard input, where known.
        rounds: number of the loop's round it was started in, from 0, where the loop is unknown.
    """

    words: tuple[Value, ...]
    environment: dict[str, Value]
    not_exported: dict[str, Value]
    place: Place
    background: bool = False
    conditions: tuple[str, ...] = ()
    path: tuple[tuple[int, int], ...] = ()
    order: int = 0
    ended: int | None = None
    script: int = 0
    outer: tuple[Outer, ...] = ()
    feed: str | None = None


class Variable(msgspec.Struct, frozen=True):
    """A shell variable; ``value`` is a list for an array."""

    value: Pieces | tuple[Pieces, ...]
    array: bool
    exported: bool
    place: Place | None


class Reading(msgspec.Struct):
    """Everything that was found in a script."""

    calls: list[Call] = []
    origins: dict[str, Unknown] = {}
    sleeps: list[tuple[int, str, Place]] = []
    kills: list[tuple[int, str]] = []
    errors: list[Place] = []
    exhausted: bool = False
    sourced: set[str] = set()


class _Leave(Exception):  # noqa: N818 - control flow of the script
    """``exit``, ``return``, ``break`` or ``continue``."""

    def __init__(self, kind: str, levels: int = 1) -> None:
        super().__init__(kind)
        self.kind = kind
        self.levels = levels


class _Exhausted(Exception):  # noqa: N818 - an answer: the budget is used up
    """No steps are left."""


def evaluate(
    script: ScriptText,
    *,
    number: int = 0,
    at_hand: Mapping[str, ScriptText] | None = None,
    given: Mapping[str, Pieces] | None = None,
    parsed: Parsed | None = None,
) -> Reading:
    """Follow a script.

    Args:
        script: its text.
        number: its number among several.
        at_hand: scripts that it may source or call, by file name without folder.
        given: exported variables that it starts with (what a scheduler sets).
        parsed: its commands, where they were parsed already.
    """
    shell = Shell(script.place, number, at_hand or {})
    for name, pieces in (given or {}).items():
        shell.variables[name] = Variable(pieces, False, True, None)
    shell.run(parsed if parsed is not None else parse(script.text), script.place)
    return shell.reading


class Shell:
    """The state of the shell that would run the script; also a :class:`words.Scope`."""

    def __init__(self, place: Place, number: int, at_hand: Mapping[str, ScriptText]) -> None:
        self.reading = Reading([], {}, [], [], [], False, set())
        self.at_hand = at_hand
        self.number = number
        self.base = place
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, tuple[Block, Place]] = {}
        self.parameters: list[Pieces] | None = None
        self.locals: list[dict[str, Variable | None]] = []
        self.steps = 0
        self.order = 0
        self.fresh = 0
        self.depth = 0
        self.background = 0
        self.conditions: list[str] = []
        self.path: list[tuple[int, int]] = []
        self.outer: list[Outer] = []
        self.export_all = False
        self.muted = 0
        self.line = 0

    # --- running -------------------------------------------------------------------------------

    def run(self, parsed: Parsed, place: Place) -> None:
        """Follow a whole script; its own ``exit`` ends it."""
        self.base = place
        self.reading.errors.extend(Place(place.source, place.line + e) for e in parsed.errors)
        try:
            self.block(parsed.block)
        except _Leave:
            pass
        except _Exhausted:
            self.reading.exhausted = True
        except RecursionError:  # pragma: no cover - depth is bounded well below
            self.reading.exhausted = True

    def spend(self) -> bool:
        """Account for one step."""
        self.steps += 1
        return self.steps <= MOST_STEPS

    def step(self) -> None:
        if not self.spend() or len(self.reading.calls) >= MOST_CALLS:
            raise _Exhausted

    def place(self, line: int) -> Place:
        return Place(self.base.source, self.base.line + line)

    def where(self, pieces: Pieces, otherwise: Place) -> Place:
        """The place of a command's word."""
        if isinstance(pieces, Field) and pieces.line is not None:
            return self.place(pieces.line)
        return otherwise

    def block(self, block: Block) -> None:
        for part in block.parts:
            self.part(part)

    def part(self, part: Part) -> bool | None:
        """Follow a command; its exit status as true or false where it is known."""
        self.step()
        self.depth += 1
        if self.depth > 150:
            self.depth -= 1
            raise _Exhausted
        try:
            if isinstance(part, Simple):
                self.line = part.line
                return self.simple(part)
            if isinstance(part, Test):
                self.line = part.line
                return conditions.decide(part.written, self)
            if isinstance(part, Block):
                return self.grouped(part)
            if isinstance(part, Async):
                self.background += 1
                try:
                    self.apart(part.part)
                finally:
                    self.background -= 1
                return True
            if isinstance(part, Pipe):
                for piece in part.parts:
                    self.apart(piece)
                return None
            if isinstance(part, AndOr):
                return self.and_or(part)
            if isinstance(part, If):
                return self.branch(part)
            if isinstance(part, For):
                return self.loop(part)
            if isinstance(part, CFor):
                return self.counted(part)
            if isinstance(part, While):
                return self.repeat(part)
            self.functions[part.name] = (part.body, self.base)
            return True
        finally:
            self.depth -= 1

    def grouped(self, block: Block) -> bool | None:
        if block.subshell:
            self.apart(Block(block.parts))
            return None
        result: bool | None = True
        for part in block.parts:
            result = self.part(part)
        return result

    def apart(self, part: Part) -> None:
        """Follow a command in a subshell: its assignments do not come back."""
        saved = dict(self.variables), dict(self.functions), self.parameters
        try:
            self.part(part)
        except _Leave:
            pass
        finally:
            self.variables, self.functions, self.parameters = saved

    # --- structure -----------------------------------------------------------------------------

    def and_or(self, part: AndOr) -> bool | None:
        left = self.part(part.left)
        wanted = part.operator == "&&"
        if left is None:
            if not isinstance(part.left, Test) and not _is_test(part.left):
                # an ordinary command's success is not in doubt when reading for what is started
                if wanted:
                    return self.part(part.right)
                return self.optional(part.right, f"not ({part.written})")
            said = part.written if wanted else f"not ({part.written})"
            return self.optional(part.right, said)
        if left is wanted:
            return self.part(part.right)
        return left

    def optional(self, part: Part, said: str) -> None:
        self.ways([(said, part), ("", None)])

    def ways(self, options: Sequence[tuple[str, Part | None]]) -> None:
        """Follow each option from the same state and join what they leave."""
        self.order += 1
        mark = self.order * 1000 + len(self.path)
        before = dict(self.variables)
        ends: list[dict[str, Variable]] = []
        leaving: _Leave | None = None
        for number, (said, part) in enumerate(options):
            self.variables = dict(before)
            self.path.append((mark, number))
            if said:
                self.conditions.append(said)
            try:
                if part is not None:
                    self.part(part)
                ends.append(self.variables)
            except _Leave as leave:
                leaving = leave
            finally:
                self.path.pop()
                if said:
                    self.conditions.pop()
        if not ends:
            self.variables = before
            assert leaving is not None
            raise leaving
        self.variables = self.joined(ends, mark)

    def joined(self, ends: list[dict[str, Variable]], mark: int) -> dict[str, Variable]:
        if len(ends) == 1:
            return ends[0]
        found: dict[str, Variable] = {}
        for name in {n: None for end in ends for n in end}:
            states = [end.get(name) for end in ends]
            first = states[0]
            if all(s == first for s in states) and first is not None:
                found[name] = first
                continue
            seen: dict[str, Variable] = {}
            for state in states:
                if state is not None:
                    value = state.value
                    seen.setdefault(
                        token(value) if not state.array else repr(value),
                        state,  # type: ignore[arg-type]
                    )
            sample = next(iter(seen.values()))
            if sample.array or len(seen) == 1:
                # set on one way only: the likelier reading is that it is set
                found[name] = max(
                    (s for s in states if s is not None),
                    key=lambda s: len(s.value) if s.array else 0,
                )
                continue
            said = " | ".join(written(s.value) for s in seen.values() if not s.array)  # type: ignore[arg-type]
            either = Unknown(said, f"branch:{mark}:{name}", "branch")
            self.reading.origins[either.token] = either
            found[name] = Variable(
                (either,), False, any(s.exported for s in states if s), sample.place
            )
        return found

    def branch(self, part: If) -> bool | None:
        if part.subject is not None:
            return self.case(part)
        open_ways: list[tuple[str, Part | None]] = []
        before: list[str] = []
        closed = False
        for branch in part.branches:
            if branch.condition is None:
                open_ways.append((_negation(before), branch.body))
                closed = True
                break
            verdict = self.part(branch.condition)
            if verdict is False:
                continue
            if verdict is True:
                open_ways.append((_negation(before), branch.body))
                closed = True
                break
            open_ways.append((branch.written, branch.body))
            before.append(branch.written)
        if not closed:
            open_ways.append(("", None))
        if len(open_ways) == 1:
            if open_ways[0][1] is not None:
                self.part(open_ways[0][1])
            return None
        self.ways(open_ways)
        return None

    def case(self, part: If) -> bool | None:
        from unstall.launch import patterns

        subject = words.text(part.subject or "", self)
        literal = known(subject)
        open_ways: list[tuple[str, Part | None]] = []
        for branch in part.branches:
            choices = branch.written.split("|")
            if literal is not None:
                if any(patterns.match(literal, _unquoted(c)) for c in choices):
                    return self.part(branch.body)
                continue
            open_ways.append((f"{part.subject} = {branch.written}", branch.body))
        if open_ways:
            self.ways([*open_ways, ("", None)])
        return None

    def loop(self, part: For) -> None:
        items: list[Pieces] = []
        if part.words is None:
            items = list(self.parameters or [])
        else:
            for word in part.words:
                items.extend(words.fields(word, self))
        for item in items[:MOST_ROUNDS]:
            self.assign(part.name, item)
            if self.round(part.body):
                break

    def round(self, body: Block) -> bool:
        """One round of a loop; true where the loop is left."""
        try:
            self.block(body)
        except _Leave as leave:
            if leave.kind in ("exit", "return"):
                raise
            if leave.levels > 1:
                raise _Leave(leave.kind, leave.levels - 1) from None
            return leave.kind == "break"
        return False

    def counted(self, part: CFor) -> None:
        if part.start:
            self.arithmetic(part.start, part.start)
        for _ in range(MOST_ROUNDS):
            if part.test:
                verdict = known(self.arithmetic(part.test, part.test))
                if verdict == "0":
                    return
                if verdict is None:
                    self.ways([(f"loop: {part.test}", part.body), ("", None)])
                    return
            if self.round(part.body):
                return
            if part.step:
                self.arithmetic(part.step, part.step)

    def repeat(self, part: While) -> None:
        for _ in range(MOST_ROUNDS):
            verdict = self.part(part.condition) if part.condition is not None else None
            if verdict is None:
                try:
                    self.ways([(f"loop: {part.written}", part.body), ("", None)])
                except _Leave as leave:
                    if leave.kind in ("exit", "return"):
                        raise
                return
            if verdict is part.until:
                return
            if self.round(part.body):
                return

    # --- simple commands ---------------------------------------------------------------------

    def simple(self, part: Simple) -> bool | None:
        place = self.place(part.line)
        if part.declares is not None:
            self.declare(part, place)
            return True
        if not part.words:
            for assignment in part.assignments:
                self.set(assignment)
            return True
        expanded: list[Pieces] = []
        for word, line in zip(part.words, part.lines, strict=True):
            expanded.extend(Field.at(f, line) for f in words.fields(word, self))
        if not expanded:
            for assignment in part.assignments:
                self.set(assignment)
            return None
        before = {a.name: self.variables.get(a.name) for a in part.assignments}
        for assignment in part.assignments:
            self.set(assignment, exported=True)
        try:
            feed: str | None = None
            if part.feed is not None:
                document = (part.feed,) if part.quoted_feed else words.here(part.feed, self)
                feed = known(document)
                feed = feed if feed is not None else written(document)
            return self.command(expanded, place, feed)
        finally:
            for name, variable in before.items():
                if variable is None:
                    self.variables.pop(name, None)
                else:
                    self.variables[name] = variable

    def declare(self, part: Simple, place: Place) -> None:
        kind = part.declares or ""
        options = "".join(w[1:] for w in part.words if w.startswith("-"))
        local = kind == "local" or (
            kind in ("declare", "typeset") and self.locals and "g" not in options
        )
        exported = kind == "export" or "x" in options
        names = [w for w in part.words if not w.startswith("-")]
        if kind == "export" and "n" in options:
            for name in names:
                variable = self.variables.get(name)
                if variable is not None:
                    self.variables[name] = msgspec.structs.replace(variable, exported=False)
            return
        for assignment in part.assignments:
            if local and self.locals:
                self.locals[-1].setdefault(assignment.name, self.variables.get(assignment.name))
            self.set(assignment, exported=exported or None)
        for raw in names:
            # `export $(grep … .env)` and `export "A=1"` arrive as words
            for field in words.fields(raw, self):
                name = known(field)
                if name is None:
                    head = field[0] if field else ""
                    if not (isinstance(head, str) and "=" in head):
                        continue
                    name, _, rest = head.partition("=")
                    if name.isidentifier():
                        value = compact([rest, *field[1:]])
                        self.variables[name] = Variable(value, False, exported, place)
                    continue
                name, equals, text = name.partition("=")
                if not name.replace("_", "a").isalnum() or name[:1].isdigit():
                    continue
                if local and self.locals:
                    self.locals[-1].setdefault(name, self.variables.get(name))
                if equals:
                    self.variables[name] = Variable((text,), False, exported, place)
                    continue
                variable = self.variables.get(name)
                if variable is not None:
                    if exported:
                        self.variables[name] = msgspec.structs.replace(variable, exported=True)
                elif kind in ("local", "declare", "typeset") and not exported:
                    self.variables[name] = Variable((), "a" in options, False, place)

    def set(self, assignment: Assignment, exported: bool | None = None) -> None:
        place = self.place(assignment.line)
        name = assignment.name
        old = self.variables.get(name)
        keep = (old.exported if old is not None else name in _INHERITED) or self.export_all
        export = keep if exported is None else exported
        if assignment.items is not None:
            items: list[Pieces] = []
            for item in assignment.items:
                items.extend(words.fields(item, self))
            if assignment.append and old is not None:
                items = [*_as_list(old), *items]
            self.variables[name] = Variable(tuple(items[:4096]), True, export, place)
            return
        value = words.text(assignment.value, self)
        if assignment.index is not None:
            elements = _as_list(old) if old is not None else []
            number = known(self.arithmetic(assignment.index, assignment.index))
            at = (
                int(number)
                if number is not None and number.lstrip("-").isdigit()
                else len(elements)
            )
            if 0 <= at < 4096:
                elements.extend(() for _ in range(at + 1 - len(elements)))
                elements[at] = value
            self.variables[name] = Variable(tuple(elements), True, export, place)
            return
        if assignment.append and old is not None:
            first: Pieces = _as_list(old)[0] if old.array and old.value else ()
            value = compact([*(first if old.array else _flat(old)), *value])
        self.variables[name] = Variable(value, False, export, place)

    def command(self, expanded: list[Pieces], place: Place, feed: str | None) -> bool | None:
        """A simple command after expansion."""
        name = known(expanded[0])
        if name is not None:
            if name in self.functions:
                self.call_function(name, expanded[1:])
                return None
            action = (
                getattr(self, "do_" + _BUILTINS.get(name, ""), None) if name in _BUILTINS else None
            )
            if action is not None:
                result: bool | None = action(expanded, place, feed)
                return result
        self.external(expanded, place, feed)
        return None

    def call_function(self, name: str, arguments: list[Pieces]) -> None:
        body, base = self.functions[name]
        if len(self.locals) >= DEEPEST_CALL:
            raise _Exhausted
        saved, self.parameters = self.parameters, arguments
        saved_base, self.base = self.base, base
        self.locals.append({})
        try:
            self.block(body)
        except _Leave as leave:
            if leave.kind != "return":
                raise
        finally:
            for local, variable in self.locals.pop().items():
                if variable is None:
                    self.variables.pop(local, None)
                else:
                    self.variables[local] = variable
            self.parameters = saved
            self.base = saved_base

    # builtins: (words, place, standard input) -> status

    def do_nothing(self, *_: object) -> bool | None:
        return True

    def do_false(self, *_: object) -> bool | None:
        return False

    def do_source(self, expanded: list[Pieces], _place: Place, _feed: str | None) -> bool | None:
        if len(expanded) < 2:
            return None
        script = self.at_hand.get(written(expanded[1]).rsplit("/", 1)[-1])
        if script is None or len(self.locals) >= DEEPEST_CALL:
            return None
        self.reading.sourced.add(script.place.source)
        saved, base = self.parameters, self.base
        if len(expanded) > 2:
            self.parameters = expanded[2:]
        self.locals.append({})  # counts the depth; nothing is local to a sourced file
        parsed = parse(script.text)
        self.base = script.place
        try:
            self.block(parsed.block)
        except _Leave as leave:
            if leave.kind != "return":
                raise
        finally:
            self.locals.pop()
            self.parameters, self.base = saved, base
        return True

    def do_set(self, expanded: list[Pieces], *_: object) -> bool | None:
        items = [known(e) for e in expanded]
        for at, item in enumerate(items[1:], 1):
            if item == "--":
                self.parameters = expanded[at + 1 :]
                return True
            if item in ("-a", "+a"):
                self.export_all = item == "-a"
            if item is not None and item[:1] == "-" and item[1:].isalpha() and "a" in item[1:]:
                self.export_all = True
            if item == "allexport":
                self.export_all = items[at - 1] == "-o"
        return True

    def do_unset(self, expanded: list[Pieces], *_: object) -> bool | None:
        for item in expanded[1:]:
            name = known(item)
            if name:
                self.variables.pop(name, None)
        return True

    def do_shift(self, expanded: list[Pieces], *_: object) -> bool | None:
        count = known(expanded[1]) if len(expanded) > 1 else "1"
        if self.parameters is not None and count is not None and count.isdigit():
            self.parameters = self.parameters[int(count) :]
        return True

    def do_leave(self, expanded: list[Pieces], *_: object) -> bool | None:
        kind = known(expanded[0]) or "exit"
        levels = known(expanded[1]) if len(expanded) > 1 else None
        count = int(levels) if levels is not None and levels.isdigit() else 1
        raise _Leave(kind, count if kind in ("break", "continue") else 1)

    def do_eval(self, expanded: list[Pieces], _place: Place, _feed: str | None) -> bool | None:
        self.nested(join(expanded[1:]), own=True)
        return None

    def do_test(self, expanded: list[Pieces], *_: object) -> bool | None:
        items = expanded[1:]
        if known(expanded[0]) == "[" and items and known(items[-1]) == "]":
            items = items[:-1]
        return conditions.decide_words(items, self)

    def do_wait(self, expanded: list[Pieces], _place: Place, _feed: str | None) -> bool | None:
        self.order += 1
        if len(expanded) == 1:
            self.end(lambda call: call.background)
        elif len(expanded) >= 2:
            # `wait $!` and `wait $PID`: the value stands for the call it was taken from
            waited = {token(e) for e in expanded[1:]}
            self.end(
                lambda call: call.background and f"\x1fpid:{call.script}:{call.order}\x1f" in waited
            )
        return None

    def end(self, which: object) -> None:
        assert callable(which)
        for at, call in enumerate(self.reading.calls):
            if call.ended is None and which(call):
                self.reading.calls[at] = msgspec.structs.replace(call, ended=self.order)

    def do_kill(self, expanded: list[Pieces], _place: Place, _feed: str | None) -> bool | None:
        self.order += 1
        targets = {token(e) for e in expanded[1:]}
        self.end(lambda call: f"\x1fpid:{call.script}:{call.order}\x1f" in targets)
        for item in expanded[1:]:
            text = known(item)
            if text and not text.startswith("-"):
                self.reading.kills.append((self.order, text))
        return None

    def do_sleep(self, expanded: list[Pieces], place: Place, _feed: str | None) -> bool | None:
        self.order += 1
        self.reading.sleeps.append((self.order, written(join(expanded[1:])), place))
        return True

    def do_read(self, expanded: list[Pieces], *_: object) -> bool | None:
        for item in expanded[1:]:
            name = known(item)
            if name and name.isidentifier():
                self.fresh += 1
                unknown = Unknown(f"${name}", f"read:{self.fresh}", "input")
                self.assign(name, (unknown,))
        return None

    def do_shell(self, expanded: list[Pieces], place: Place, feed: str | None) -> bool | None:
        """``bash``, ``sh``: a text, a script at hand, or standard input."""
        at = 1
        command = False
        while at < len(expanded):
            option = known(expanded[at]) or ""
            if not option.startswith("-") or option == "-":
                break
            if not option.startswith("--") and "c" in option[1:]:
                command = True
            at += 2 if option in ("-o", "-O", "--rcfile", "--init-file") else 1
        rest = expanded[at:]
        if command and rest:
            self.nested(rest[0], parameters=rest[2:])
            return None
        if not rest and feed is not None:
            self.nested((feed,))
            return None
        if rest:
            script = self.at_hand.get(written(rest[0]).rsplit("/", 1)[-1])
            if script is not None and script.place.source != self.base.source:
                self.reading.sourced.add(script.place.source)
                self.nested((script.text,), parameters=rest[1:], base=script.place)
                return None
        self.record(expanded, place, feed)
        return None

    def nested(
        self,
        text: Pieces,
        *,
        own: bool = False,
        parameters: list[Pieces] | None = None,
        base: Place | None = None,
    ) -> None:
        """Follow a text as a shell of its own, or (``own``) in this one as ``eval`` does."""
        if len(self.locals) >= DEEPEST_CALL:
            raise _Exhausted
        literal = known(text)
        masks: dict[str, Pieces] = {}
        if literal is None:
            # unknown parts travel through the second reading as variables of a reserved name
            parts: list[str] = []
            for piece in text:
                if isinstance(piece, Unknown):
                    name = f"__unknown_{len(masks)}__"
                    masks[name] = (piece,)
                    parts.append("${" + name + "}")
                else:
                    parts.append(piece)
            literal = "".join(parts)
        saved = dict(self.variables), dict(self.functions), self.parameters, self.base
        lines_base = base if base is not None else self.place(self.line)
        if not own:
            self.variables = {n: v for n, v in self.variables.items() if v.exported}
            self.functions = {}
            self.parameters = parameters or []
        for name, value in masks.items():
            self.variables[name] = Variable(value, False, False, None)
        self.locals.append({})
        self.base = lines_base
        one_line = base is None and "\n" not in literal
        saved_line = self.line
        try:
            for part in parse(literal).block.parts:
                self.part(part)
        except _Leave as leave:
            if own:
                raise
            if leave.kind not in ("exit", "return"):
                raise
        finally:
            self.locals.pop()
            if one_line:
                self.line = saved_line
            self.base = saved[3]
            if not own:
                self.variables, self.functions, self.parameters = saved[:3]
            for name in masks:
                self.variables.pop(name, None)

    # --- external commands --------------------------------------------------------------------

    def external(self, expanded: list[Pieces], place: Place, feed: str | None) -> None:
        self.step()
        plain = [known(e) if known(e) is not None else written(e) for e in expanded]
        texts = [p or "" for p in plain]
        peeled = wrappers.peel(texts)
        if peeled is None or len(self.outer) > 8:
            name = texts[0].rsplit("/", 1)[-1]
            if name in ("bash", "sh", "zsh", "dash") and not self.muted:
                self.do_shell(expanded, place, feed)
                return
            script = self.at_hand.get(name) if name.endswith(".sh") else None
            if script is not None and script.place.source != self.base.source:
                self.reading.sourced.add(script.place.source)
                self.nested((script.text,), parameters=expanded[1:], base=script.place)
                return
            self.record(expanded, place, feed)
            return
        before = {}
        for at in peeled.assigns:
            head = expanded[at][0]
            assert isinstance(head, str)
            name, _, rest = head.partition("=")
            before.setdefault(name, self.variables.get(name))
            value = compact([rest, *expanded[at][1:]])
            self.variables[name] = Variable(value, False, True, place)
        self.outer.append(Outer(peeled.name, peeled.options, peeled.operands, place))
        background = peeled.name in ("tmux", "screen") or (
            peeled.name == "docker" and any(o in ("-d", "--detach") for o, _ in peeled.options)
        )
        self.background += background
        try:
            inner = expanded[peeled.start :]
            if not inner:
                if (
                    peeled.name in ("ssh", "pdsh", "docker", "singularity", "srun")
                    and feed is not None
                ):
                    self.nested((feed,))
                elif peeled.name in ("docker", "srun", "mpirun"):
                    self.record(expanded, place, feed)
                return
            if peeled.shell:
                self.nested(join(inner))
                return
            self.external_inner(inner, place, feed)
        finally:
            self.background -= background
            self.outer.pop()
            for name, variable in before.items():
                if variable is None:
                    self.variables.pop(name, None)
                else:
                    self.variables[name] = variable

    def external_inner(self, inner: list[Pieces], place: Place, feed: str | None) -> None:
        name = known(inner[0])
        if name is not None and name in self.functions and self.outer[-1].name == "time":
            self.call_function(name, inner[1:])
            return
        self.external(inner, place, feed)

    def record(self, expanded: list[Pieces], place: Place, feed: str | None) -> None:
        if self.muted:
            return
        self.order += 1
        environment: dict[str, Value] = {}
        not_exported: dict[str, Value] = {}
        for name, variable in self.variables.items():
            if name.startswith("__unknown_") or variable.place is None:
                continue  # not the script's
            value = as_value(_flat(variable), variable.place)
            (environment if variable.exported and not variable.array else not_exported)[name] = (
                value
            )
        self.reading.calls.append(
            Call(
                words=tuple(as_value(e, self.where(e, place)) for e in expanded),
                environment=environment,
                not_exported=not_exported,
                place=self.where(expanded[0], place),
                background=self.background > 0,
                conditions=tuple(self.conditions),
                path=tuple(self.path),
                order=self.order,
                script=self.number,
                outer=tuple(self.outer),
                feed=feed,
            )
        )

    # --- words.Scope ----------------------------------------------------------------------------

    def look(self, name: str) -> Pieces | None:
        """A variable's value; ``None`` where the script has not set it."""
        if name.isdigit():
            if name == "0":
                return (self.base.source.rsplit("/", 1)[-1],)
            if self.parameters is None:
                return None
            return self.parameters[int(name) - 1] if int(name) <= len(self.parameters) else None
        if name == "?":
            return ("0",)
        if name == "!":
            last = next((c for c in reversed(self.reading.calls) if c.background), None)
            number = last.order if last is not None else 0
            return (self.known_as(Unknown("$!", f"pid:{self.number}:{number}", "process")),)
        if name in ("$", "BASHPID", "PPID"):
            return (self.known_as(Unknown(f"${name}", f"pid:{name}", "process")),)
        if name == "-":
            return ("hB",)
        if name in ("RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME"):
            self.fresh += 1
            kind = "random" if "RANDOM" in name else "command"
            return (self.known_as(Unknown(f"${name}", f"{name}:{self.fresh}", kind)),)
        variable = self.variables.get(name)
        if variable is None:
            return None
        if variable.array:
            return variable.value[0] if variable.value else ()  # type: ignore[return-value]
        return _flat(variable)

    def known_as(self, unknown: Unknown) -> Unknown:
        self.reading.origins.setdefault(unknown.token, unknown)
        return unknown

    def elements(self, name: str) -> Sequence[Pieces] | None:
        """An array's elements, or the positional parameters for ``@``."""
        if name == "@":
            return self.parameters
        variable = self.variables.get(name)
        return _as_list(variable) if variable is not None else None

    def assign(self, name: str, value: Pieces) -> None:
        """Set a plain variable."""
        old = self.variables.get(name)
        export = (old.exported if old is not None else False) or self.export_all
        self.variables[name] = Variable(value, False, export, self.place(self.line))

    def outside(self, name: str) -> Pieces:
        """A variable that the script never set: the calling environment may have it."""
        if name.isdigit():
            if self.parameters is not None:
                return ()
            return (self.known_as(Unknown(f"${name}", f"argument:{name}", "parameter")),)
        return (self.known_as(Unknown(f"${name}", f"env:{name}", "environment")),)

    def arithmetic(self, expression: str, said: str) -> Pieces:
        """An arithmetic expression's value."""
        text = expression
        if "$" in text or "`" in text:
            pieces = words.text(text, self, 1)
            literal = known(pieces)
            if literal is None:
                return (self.known_as(Unknown(said, f"arith:{token(pieces)}", _random(pieces))),)
            text = literal
        seen: list[Pieces] = []

        def read(name: str) -> int | None:
            value = self.look(name)
            if value is None:
                outside = self.outside(name)
                seen.append(outside)
                return None
            literal = known(value)
            if literal is None:
                seen.append(value)
                return None
            try:
                return int(literal or "0", 10)
            except ValueError:
                return None

        def write(name: str, value: int) -> None:
            self.assign(name, (str(value),))

        try:
            return (str(arithmetic.compute(text, read, write)),)
        except arithmetic.NotComputable:
            tokens = "".join(token(s) for s in seen)
            kind = _random([p for s in seen for p in s])
            return (self.known_as(Unknown(said, f"arith:{text}:{tokens}", kind)),)

    def substitute(self, command: str, said: str) -> Pieces:
        """A command's output."""
        saved = dict(self.variables), dict(self.functions), self.parameters
        self.muted += 1
        self.depth += 1
        line = self.line
        try:
            if self.depth > 100:
                return self.unknown_output(said, "", command)
            shell_text = command.strip()
            if shell_text.startswith("<"):
                return self.unknown_output(said, "", command)
            block = parse(command).block
            found = self.output_of(block)
            if found is not None:
                return _trimmed(found)
            return self.unknown_output(said, self.inputs(block), self.with_functions(command))
        except (_Leave, _Exhausted):
            return self.unknown_output(said, "", command)
        finally:
            self.depth -= 1
            self.muted -= 1
            self.line = line
            self.variables, self.functions, self.parameters = saved

    def with_functions(self, command: str) -> str:
        """The command's text with the bodies of the functions that it calls."""
        bodies = [
            word
            for name, (body, _) in self.functions.items()
            if name in command
            for part in body.parts
            if isinstance(part, Simple)
            for word in part.words
        ]
        return " ".join([command, *bodies])[:8192]

    def unknown_output(self, said: str, inputs: str, command: str) -> Pieces:
        origin = substitutions.origin_of(command)
        if substitutions.repeatable(command):
            name = f"output:{said}:{inputs}"
        else:
            self.fresh += 1
            name = f"{origin}:{self.number}:{self.fresh}"
        return (self.known_as(Unknown(said, name, origin)),)

    def inputs(self, block: Block) -> str:
        """A token of everything unknown that a command's words contain."""
        found: list[str] = []

        def collect(part: Part) -> None:
            if isinstance(part, Simple):
                for word in part.words:
                    if "$" in word:
                        found.append(token(words.text(word, self, 3)))
            elif isinstance(part, Pipe | Block):
                for inner in part.parts:
                    collect(inner)
            elif isinstance(part, AndOr):
                collect(part.left)
                collect(part.right)

        collect(block)
        return "|".join(found)

    def output_of(self, part: Part, feed: Pieces = ()) -> Pieces | None:
        """What a command prints, ``None`` where that is unknown."""
        if not self.spend():
            return None
        if isinstance(part, Block):
            found: list[Piece] = []
            for inner in part.parts:
                output = self.output_of(inner, feed)
                if output is None:
                    return None
                found.extend(output)
            return compact(found)
        if isinstance(part, Pipe):
            current: Pieces | None = feed
            for inner in part.parts:
                current = self.output_of(inner, current or ())
                if current is None:
                    return None
            return current
        if isinstance(part, Test | If | AndOr | For):
            return None
        if not isinstance(part, Simple):
            return None
        if part.declares is not None or not part.words:
            self.simple(part)
            return ()
        expanded: list[Pieces] = []
        for word in part.words:
            expanded.extend(words.fields(word, self))
        if not expanded:
            return ()
        name = known(expanded[0])
        if name is None:
            return None
        if name in self.functions and len(self.locals) < DEEPEST_CALL:
            body = self.functions[name][0]
            saved, self.parameters = self.parameters, expanded[1:]
            self.locals.append({})
            try:
                return self.output_of(body)
            finally:
                self.locals.pop()
                self.parameters = saved
        if part.feed is not None:
            feed = (part.feed,) if part.quoted_feed else words.here(part.feed, self)
            if not part.feed.endswith("\n"):
                feed = compact([*words.text(part.feed, self), "\n"])
        if name == "echo" and all(known(e) not in ("-n", "-e") for e in expanded[1:2]):
            return compact([*join(expanded[1:]), "\n"])
        if name == "cat" and len(expanded) == 1:
            return feed
        literals = [known(e) for e in expanded]
        given = known(feed)
        if given is None or any(item is None for item in literals):
            return None
        output_text = substitutions.output([item or "" for item in literals], given)
        return (output_text,) if output_text is not None else None


_BUILTINS = {
    **dict.fromkeys((":", "true", "trap", "ulimit", "umask", "hash", "alias", "shopt"), "nothing"),
    **dict.fromkeys(("cd", "pushd", "popd", "echo", "printf", "set_trace", "type"), "nothing"),
    "false": "false",
    "source": "source",
    ".": "source",
    "set": "set",
    "unset": "unset",
    "shift": "shift",
    **dict.fromkeys(("exit", "return", "break", "continue"), "leave"),
    "eval": "eval",
    "test": "test",
    "[": "test",
    "wait": "wait",
    **dict.fromkeys(("kill", "pkill", "killall"), "kill"),
    "sleep": "sleep",
    **dict.fromkeys(("read", "mapfile", "readarray"), "read"),
}


def _negation(conditions_before: Sequence[str]) -> str:
    return " and ".join(f"not ({c})" for c in conditions_before)


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def _is_test(part: Part) -> bool:
    if isinstance(part, AndOr):
        return _is_test(part.left) and _is_test(part.right)
    if isinstance(part, Simple) and part.words:
        return part.words[0] in ("test", "[")
    return isinstance(part, Test)


def _flat(variable: Variable) -> Pieces:
    if variable.array:
        return join(variable.value)  # type: ignore[arg-type]
    return variable.value  # type: ignore[return-value]


def _as_list(variable: Variable) -> list[Pieces]:
    return list(variable.value) if variable.array else [variable.value]  # type: ignore[arg-type, list-item]


def _random(pieces: Iterable[Piece]) -> str:
    kinds = {p.origin for p in pieces if isinstance(p, Unknown)}
    for kind in ("random", "free-port", "environment", "parameter"):
        if kind in kinds:
            return kind
    return "command"


def _trimmed(pieces: Pieces) -> Pieces:
    found = list(pieces)
    while found and isinstance(found[-1], str):
        text = found[-1].rstrip("\n")
        if text:
            found[-1] = text
            break
        found.pop()
    return tuple(found)


__all__ = ["Call", "Function", "Outer", "Reading", "Shell", "evaluate"]
