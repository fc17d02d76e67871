"""The variables of the shell that would run a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from unstall.launch import arithmetic, words
from unstall.launch.calls import Outer, Reading, Variable, as_list
from unstall.launch.strings import Field, Piece, Pieces, Unknown, compact, known, token
from unstall.launch.texts import ScriptText
from unstall.launch.tree import Assignment, Block, Part, Simple
from unstall.model.facts import Place

MOST_STEPS = 60000
MOST_CALLS = 2000
MOST_ROUNDS = 256
DEEPEST_CALL = 24
INHERITED = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_ALL",
        "TERM",
        "PWD",
        "OLDPWD",
        "TMPDIR",
        "HOSTNAME",
    ]
)
"""Variables that every shell has and exports: an assignment to one reaches every program."""


class Leave(Exception):  # noqa: N818 - control flow of the script
    """``exit``, ``return``, ``break`` or ``continue``."""

    def __init__(self, kind: str, levels: int = 1) -> None:
        super().__init__(kind)
        self.kind = kind
        self.levels = levels


class Exhausted(Exception):  # noqa: N818 - an answer: the budget is used up
    """No steps are left."""


class _State:
    """Variables, parameters and functions; also what :class:`words.Scope` asks."""

    def __init__(self, place: Place, number: int, at_hand: Mapping[str, ScriptText]) -> None:
        self.reading = Reading([], {}, [], [], [], False, set())
        self.at_hand = at_hand
        self.number = number
        self.base = place
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, tuple[Block, Place]] = {}
        self.parameters: list[Pieces] | None = None
        self.locals: list[dict[str, Variable | None]] = []
        self.sourcing: list[str] = []
        self.steps = 0
        self.order = 0
        self.fresh = 0
        self.depth = 0
        self.background = 0
        self.conditions: list[str] = []
        self.path: list[tuple[int, int]] = []
        self.outer: list[Outer] = []
        self.outside_of: list[dict[str, Variable]] = []  # what was set before each of them
        self.export_all = False
        self.muted = 0
        self.line = 0

    def spend(self) -> bool:
        """Account for one step; false when the budget is used up."""
        self.steps += 1
        return self.steps <= MOST_STEPS

    def step(self) -> None:
        """Account for one command."""
        if not self.spend() or len(self.reading.calls) >= MOST_CALLS:
            raise Exhausted

    def place(self, line: int) -> Place:
        return Place(self.base.source, self.base.line + line)

    def where(self, pieces: Pieces, otherwise: Place) -> Place:
        """The place of a command's word."""
        if isinstance(pieces, Field) and pieces.line is not None:
            return self.place(pieces.line)
        return otherwise

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
        if variable is None or variable.gone:
            return None
        if variable.array:
            return variable.items[0] if variable.items else ()
        return variable.value

    def known_as(self, unknown: Unknown) -> Unknown:
        self.reading.origins.setdefault(unknown.token, unknown)
        return unknown

    def elements(self, name: str) -> Sequence[Pieces] | None:
        """An array's elements, or the positional parameters for ``@``."""
        if name == "@":
            return self.parameters
        variable = self.variables.get(name)
        return as_list(variable) if variable is not None and not variable.gone else None

    def assign(self, name: str, value: Pieces) -> None:
        """Set a plain variable."""
        old = self.variables.get(name)
        export = (old.exported if old is not None else False) or self.export_all
        self.variables[name] = Variable(value, False, export, self.place(self.line))

    def outside(self, name: str) -> Pieces:
        """A variable that the script never set: the calling environment may have it."""
        known_gone = self.variables.get(name)
        if known_gone is not None and known_gone.gone:
            return ()
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

    def store(self, assignment: Assignment, exported: bool | None = None) -> None:
        place = self.place(assignment.line)
        name = assignment.name
        old = self.variables.get(name)
        old = None if old is not None and old.gone else old
        keep = (old.exported if old is not None else name in INHERITED) or self.export_all
        export = keep if exported is None else exported
        if assignment.items is not None:
            items: list[Pieces] = []
            for item in assignment.items:
                items.extend(words.fields(item, self))
            if assignment.append and old is not None:
                items = [*as_list(old), *items]
            self.variables[name] = Variable((), True, export, place, tuple(items[:2048]))
            return
        value = words.text(assignment.value, self)
        if assignment.index is not None:
            elements = as_list(old) if old is not None else []
            number = known(self.arithmetic(assignment.index, assignment.index))
            at = (
                int(number)
                if number is not None and number.lstrip("-").isdigit()
                else len(elements)
            )
            if 0 <= at < 2048:
                elements.extend(() for _ in range(at + 1 - len(elements)))
                elements[at] = value
            self.variables[name] = Variable((), True, export, place, tuple(elements))
            return
        if assignment.append and old is not None:
            first = (old.items[0] if old.items else ()) if old.array else old.value
            value = compact([*first, *value])
        self.variables[name] = Variable(value, False, export, place)

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
            self.store(assignment, exported=exported or None)
        for raw in names:
            # `export $(grep … .env)` and `export "A=1"` arrive as words
            for field in words.fields(raw, self):
                literal = known(field)
                if literal is None:
                    head = field[0] if field else ""
                    if not (isinstance(head, str) and "=" in head):
                        continue
                    name, _, rest = head.partition("=")
                    if name.isidentifier():
                        value = compact([rest, *field[1:]])
                        self.variables[name] = Variable(value, False, exported, place)
                    continue
                name, equals, text = literal.partition("=")
                if not name.replace("_", "a").isalnum() or name[:1].isdigit():
                    continue
                if local and self.locals:
                    self.locals[-1].setdefault(name, self.variables.get(name))
                if equals:
                    self.variables[name] = Variable((text,), False, exported, place)
                    continue
                variable = self.variables.get(name)
                if variable is not None and not variable.gone:
                    if exported:
                        self.variables[name] = msgspec.structs.replace(variable, exported=True)
                elif kind in ("local", "declare", "typeset") and not exported:
                    self.variables[name] = Variable((), "a" in options, False, place)

    # what the layers above do

    def block(self, block: Block) -> None:
        raise NotImplementedError

    def part(self, part: Part) -> bool | None:
        raise NotImplementedError

    def simple(self, part: Simple) -> bool | None:
        raise NotImplementedError

    def call_function(self, name: str, arguments: list[Pieces]) -> None:
        raise NotImplementedError

    def substitute(self, command: str, said: str) -> Pieces:
        """A command's output."""
        raise NotImplementedError


def _random(pieces: Iterable[Piece]) -> str:
    kinds = {p.origin for p in pieces if isinstance(p, Unknown)}
    for kind in ("random", "free-port", "environment", "parameter"):
        if kind in kinds:
            return kind
    return "command"
