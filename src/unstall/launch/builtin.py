"""The shell's builtin commands, as far as they matter for what a script starts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec

from unstall.launch import conditions
from unstall.launch.calls import Call, Variable
from unstall.launch.externals import _Externals
from unstall.launch.state import DEEPEST_CALL, Leave
from unstall.launch.strings import Pieces, Unknown, join, known, token, written
from unstall.launch.syntax import parse
from unstall.model.facts import Place


class _Builtins(_Externals):
    """Adds builtins; each takes the words, the place and the standard input."""

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
        if script.place.source in (self.base.source, *self.sourcing):
            return None  # it sources itself
        self.sourcing.append(script.place.source)
        self.reading.sourced.add(script.place.source)
        saved, base = self.parameters, self.base
        if len(expanded) > 2:
            self.parameters = expanded[2:]
        self.locals.append({})  # counts the depth; nothing is local to a sourced file
        parsed = parse(script.text)
        self.base = script.place
        try:
            self.block(parsed.block)
        except Leave as leave:
            if leave.kind != "return":
                raise
        finally:
            self.locals.pop()
            self.sourcing.pop()
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
            if name in self.functions:
                del self.functions[name]
            elif name:
                self.variables[name] = Variable((), False, False, None, (), True)
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
        raise Leave(kind, count if kind in ("break", "continue") else 1)

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

    def end(self, which: Callable[[Call], bool]) -> None:
        """Note that the script waited for these calls."""
        for at, call in enumerate(self.reading.calls):
            if call.ended is None and which(call):
                self.reading.calls[at] = msgspec.structs.replace(call, ended=self.order)

    def do_kill(self, expanded: list[Pieces], _place: Place, _feed: str | None) -> bool | None:
        words = [known(one) for one in expanded[1:3]]
        if words[:1] == ["-0"] or words in (["-s", "0"], ["-n", "0"]):
            return None  # no signal: it only asks whether the process lives
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
        if any(c.startswith("loop: ") for c in self.conditions):
            return True  # between two questions, not in the place of one
        self.reading.sleeps.append((self.order, written(join(expanded[1:])), place))
        return True

    def do_read(self, expanded: list[Pieces], _place: Place, feed: str | None) -> bool | None:
        if self.read_text(expanded[1:], feed):
            return None
        for item in expanded[1:]:
            name = known(item)
            if name and name.isidentifier():
                self.fresh += 1
                unknown = Unknown(f"${name}", f"read:{self.fresh}", "input")
                self.assign(name, (unknown,))
        return None

    def read_text(self, items: list[Pieces], feed: str | None) -> bool:
        """``read -r -d '' NAME <<EOF``: all of a here-document in one variable."""
        words = [known(item) for item in items]
        name = words[-1] if words else None
        others = [w for w in words[:-1] if w and not w.startswith("-")]
        endless = any(
            flag is not None and flag.startswith("-") and flag.endswith("d") and value == ""
            for flag, value in pairwise(words)
        )
        if feed is None or "$" in feed or not name or not name.isidentifier():
            return False
        if others or not endless:
            return False
        self.assign(name, (feed.strip(" \t\n"),))
        return True


BUILTINS = {
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
