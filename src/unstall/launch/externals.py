"""External commands: wrappers taken off, shells inside followed, calls recorded."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from unstall.launch import wrappers
from unstall.launch.calls import Call, Outer, Variable, flat
from unstall.launch.outputs import _Outputs
from unstall.launch.state import DEEPEST_CALL, Exhausted, Leave
from unstall.launch.strings import Pieces, Unknown, as_value, compact, join, known, written
from unstall.launch.syntax import parse
from unstall.model.facts import Place
from unstall.model.plan import Value

#: What starts a shell on another machine, without this one's environment (OpenSSH's ``SendEnv`` is
#: empty by default, ssh_config(5); pdsh starts ssh or rsh).
_ELSEWHERE = ("ssh", "pdsh")


def _kept(
    outer: wrappers.Peeled, variables: dict[str, Variable], given: Container[str]
) -> dict[str, Variable]:
    """What an outer command gives on of the environment; ``given`` are its own assignments.

    ``env -i`` and ``env -u`` (coreutils 9); sudo starts with an environment of its own unless it is
    told to keep this one (sudoers(5), ``env_reset`` is on by default).
    """
    options = dict(outer.options)
    gone: set[str] = set()
    if outer.name == "env":
        gone = {value for option, value in outer.options if option in ("-u", "--unset")}
        if "-i" in options or "--ignore-environment" in options:
            gone |= variables.keys()
    elif outer.name == "sudo" and "-E" not in options:
        kept = options.get("--preserve-env")
        if kept == "":
            return variables
        gone = variables.keys() - set((kept or "").split(","))
    gone = {name for name in gone if name not in given}
    return {
        name: msgspec.structs.replace(variable, exported=False) if name in gone else variable
        for name, variable in variables.items()
    }


class _Externals(_Outputs):
    """Adds commands that are neither builtins nor functions."""

    def external(self, expanded: list[Pieces], place: Place, feed: str | None) -> None:
        self.step()
        texts = [written(e) for e in expanded]
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
        self.outside_of.append(dict(self.variables))
        before: dict[str, Variable | None] = {}
        for at in peeled.assigns:
            head = expanded[at][0]
            name, _, rest = str(head).partition("=")
            before.setdefault(name, self.variables.get(name))
            value = compact([rest, *expanded[at][1:]])
            self.variables[name] = Variable(value, False, True, place)
        self.outer.append(Outer(peeled.name, peeled.options, peeled.operands, place))
        background = peeled.name in ("tmux", "screen") or (
            peeled.name == "docker" and any(o in ("-d", "--detach") for o, _ in peeled.options)
        )
        self.background += background
        here = self.variables
        if peeled.name in _ELSEWHERE:
            # as a shell variable a text still shows what it was; the program does not receive it
            self.variables = {
                name: msgspec.structs.replace(variable, exported=False)
                for name, variable in here.items()
            }
        self.variables = _kept(peeled, self.variables, before)
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
            self.variables = here
            self.outer.pop()
            self.outside_of.pop()
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
            if name.startswith("__unknown_") or variable.place is None or variable.gone:
                continue  # not the script's
            if variable.array and name != "CUDA_VISIBLE_DEVICES":
                continue  # an array reaches no program, and nobody expects it to
            value = as_value(flat(variable), variable.place)
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
                within=self.within(),
            )
        )

    def within(self) -> dict[str, int]:
        """See :attr:`unstall.launch.calls.Call.within`."""
        found: dict[str, int] = {}
        for rest, before in enumerate(reversed(self.outside_of)):
            for name, variable in self.variables.items():
                if variable.exported and before.get(name) != variable:
                    found.setdefault(name, rest)
        return found

    def inside(self, text: Pieces, parameters: list[Pieces], place: Place) -> None:
        """Follow a text as a shell of its own; calls in it have that shell around them."""
        self.outer.append(Outer("shell", (), (), place))
        self.outside_of.append(dict(self.variables))
        try:
            self.nested(text, parameters=parameters)
        finally:
            self.outer.pop()
            self.outside_of.pop()

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
            raise Exhausted
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
        except Leave as leave:
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
            self.inside(rest[0], rest[2:], place)
            return None
        if not rest and feed is not None:
            self.inside((feed,), [], place)
            return None
        if rest:
            script = self.at_hand.get(written(rest[0]).rsplit("/", 1)[-1])
            if script is not None and script.place.source != self.base.source:
                self.reading.sourced.add(script.place.source)
                self.nested((script.text,), parameters=rest[1:], base=script.place)
                return None
        self.record(expanded, place, feed)
        return None
