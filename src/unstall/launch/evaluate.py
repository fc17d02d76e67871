"""What a script would start, found without running it.

The shell's commands are followed with values of which some stay unknown. A condition that cannot be
decided is followed both ways; loops whose words are unknown are followed once. Every command that
is
neither a builtin nor a function becomes a :class:`Call` with the words and the environment that it
would receive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from unstall.launch import conditions, patterns, words
from unstall.launch.builtin import BUILTINS, _Builtins
from unstall.launch.calls import Call, Outer, Reading, Variable
from unstall.launch.state import DEEPEST_CALL, MOST_ROUNDS, Exhausted, Leave
from unstall.launch.strings import Field, Pieces, Unknown, known, token, written
from unstall.launch.syntax import Parsed, parse
from unstall.launch.texts import ScriptText
from unstall.launch.tree import AndOr, Async, Block, CFor, For, If, Part, Pipe, Simple, Test, While
from unstall.model.facts import Place


def evaluate(
    script: ScriptText,
    *,
    number: int = 0,
    at_hand: Mapping[str, ScriptText] | None = None,
    given: Mapping[str, Variable] | None = None,
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
    shell = _Shell(script.place, number, at_hand or {})
    shell.variables.update(given or {})
    shell.run(parsed if parsed is not None else parse(script.text), script.place)
    return shell.reading


class _Shell(_Builtins):
    """The whole shell: lists, branches, loops, functions."""

    def run(self, parsed: Parsed, place: Place) -> None:
        """Follow a whole script; its own ``exit`` ends it."""
        self.base = place
        self.reading.errors.extend(Place(place.source, place.line + e) for e in parsed.errors)
        try:
            self.block(parsed.block)
        except Leave:
            pass
        except Exhausted:
            self.reading.exhausted = True
        except RecursionError:  # pragma: no cover - depth is bounded well below
            self.reading.exhausted = True

    def block(self, block: Block) -> None:
        for part in block.parts:
            self.part(part)

    def part(self, part: Part) -> bool | None:
        """Follow a command; its exit status as true or false where it is known."""
        self.step()
        self.depth += 1
        if self.depth > 150:
            self.depth -= 1
            raise Exhausted
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
                self.loop(part)
                return None
            if isinstance(part, CFor):
                self.counted(part)
                return None
            if isinstance(part, While):
                self.repeat(part)
                return None
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
        except Leave:
            pass
        finally:
            self.variables, self.functions, self.parameters = saved

    def and_or(self, part: AndOr) -> bool | None:
        left = self.part(part.left)
        wanted = part.operator == "&&"
        if left is None:
            if not isinstance(part.left, Test) and not _is_test(part.left):
                # an ordinary command's success is not in doubt when reading for what is started
                if wanted:
                    return self.part(part.right)
                self.optional(part.right, f"not ({part.written})")
                return None
            said = part.written if wanted else f"not ({part.written})"
            self.optional(part.right, said)
            return None
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
        leaving: Leave | None = None
        for number, (said, part) in enumerate(options):
            self.variables = dict(before)
            self.path.append((mark, number))
            if said:
                self.conditions.append(said)
            try:
                if part is not None:
                    self.part(part)
                ends.append(self.variables)
            except Leave as leave:
                leaving = leave
            finally:
                self.path.pop()
                if said:
                    self.conditions.pop()
        if not ends:
            self.variables = before
            if leaving is None:  # pragma: no cover - no way ended, so one was left
                return
            raise leaving
        self.variables = self.joined(ends, mark)

    def joined(self, ends: list[dict[str, Variable]], mark: int) -> dict[str, Variable]:
        """The variables behind a condition: unknown where its ways disagree."""
        if len(ends) == 1:
            return ends[0]
        found: dict[str, Variable] = {}
        for name in {n: None for end in ends for n in end}:
            states = [end.get(name) for end in ends]
            present = [s for s in states if s is not None]
            first = present[0]
            seen = {(token(s.value), tuple(map(token, s.items))) for s in present}
            if first.array or len(seen) == 1:
                # set on one way only: the likelier reading is that it is set
                chosen = max(present, key=lambda s: len(s.items))
                exported = any(s.exported for s in present)
                found[name] = msgspec.structs.replace(chosen, exported=exported)
                continue
            said = " | ".join(dict.fromkeys(written(s.value) for s in present))
            either = self.known_as(Unknown(said, f"branch:{mark}:{name}", "branch"))
            found[name] = Variable((either,), False, any(s.exported for s in present), first.place)
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
        except Leave as leave:
            if leave.kind in ("exit", "return"):
                raise
            if leave.levels > 1:
                raise Leave(leave.kind, leave.levels - 1) from None
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
                except Leave as leave:
                    if leave.kind in ("exit", "return"):
                        raise
                return
            if verdict is part.until:
                return
            if self.round(part.body):
                return

    def simple(self, part: Simple) -> bool | None:
        place = self.place(part.line)
        if part.declares is not None:
            self.declare(part, place)
            return True
        if not part.words:
            for assignment in part.assignments:
                self.store(assignment)
            return True
        expanded: list[Pieces] = []
        for word, line in zip(part.words, part.lines, strict=True):
            expanded.extend(Field.at(f, line) for f in words.fields(word, self))
        if not expanded:
            for assignment in part.assignments:
                self.store(assignment)
            return None
        before = {a.name: self.variables.get(a.name) for a in part.assignments}
        for assignment in part.assignments:
            self.store(assignment, exported=True)
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

    def command(self, expanded: list[Pieces], place: Place, feed: str | None) -> bool | None:
        """A simple command after expansion."""
        name = known(expanded[0])
        if name is not None:
            if name in self.functions:
                self.call_function(name, expanded[1:])
                return None
            action = (
                getattr(self, "do_" + BUILTINS.get(name, ""), None) if name in BUILTINS else None
            )
            if action is not None:
                result: bool | None = action(expanded, place, feed)
                return result
        self.external(expanded, place, feed)
        return None

    def call_function(self, name: str, arguments: list[Pieces]) -> None:
        body, base = self.functions[name]
        if len(self.locals) >= DEEPEST_CALL:
            raise Exhausted
        saved, self.parameters = self.parameters, arguments
        saved_base, self.base = self.base, base
        self.locals.append({})
        try:
            self.block(body)
        except Leave as leave:
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


__all__ = ["Call", "Outer", "Reading", "evaluate"]
