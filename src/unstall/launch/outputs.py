"""Command substitution: the output of a command, where it follows from the script."""

from __future__ import annotations

from unstall.launch import substitutions, words
from unstall.launch.state import DEEPEST_CALL, Exhausted, Leave, _State
from unstall.launch.strings import Piece, Pieces, Unknown, compact, join, known, token
from unstall.launch.syntax import parse
from unstall.launch.tree import AndOr, Block, For, If, Part, Pipe, Simple, Test


class _Outputs(_State):
    """Adds what a command prints."""

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
        except (Leave, Exhausted):
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


def _trimmed(pieces: Pieces) -> Pieces:
    found = list(pieces)
    while found and isinstance(found[-1], str):
        text = found[-1].rstrip("\n")
        if text:
            found[-1] = text
            break
        found.pop()
    return tuple(found)
