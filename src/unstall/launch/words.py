"""Words as the shell expands them: quotes, variables, substitutions, braces, splitting.

The order is bash's (manual, chapter "Shell Expansions"): braces, then tilde, parameters, commands
and arithmetic from left to right, then splitting of what was not quoted, then quotes go. File names
are not expanded: the files of the machine that runs the script are not at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unstall.launch import patterns
from unstall.launch.brackets import braces, closing, closing_tick
from unstall.launch.strings import Pieces, Unknown, compact, globs, join, known, token, written

MOST_FIELDS = 2048
DEEPEST = 25
_SPACE = " \t\n"
_OUTSIDE = (
    "SLURM_",
    "PET_",
    "OMPI_",
    "PMI_",
    "PMIX_",
    "KUBERNETES_",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
)


class Scope(Protocol):
    """What expansion asks of the shell that runs the script."""

    def look(self, name: str) -> Pieces | None:
        """A variable's value; ``None`` where the script has not set it."""
        ...

    def elements(self, name: str) -> Sequence[Pieces] | None:
        """An array's elements or the positional parameters (``@``)."""
        ...

    def assign(self, name: str, value: Pieces) -> None:
        """``${name:=value}``."""
        ...

    def substitute(self, command: str, said: str) -> Pieces:
        """A command's output, trailing line ends removed."""
        ...

    def arithmetic(self, expression: str, said: str) -> Pieces:
        """An arithmetic expression's value."""
        ...

    def outside(self, name: str) -> Pieces:
        """The value of a variable that the script never set."""
        ...

    def spend(self) -> bool:
        """Account for one step; false when the budget is used up."""
        ...


def fields(word: str, scope: Scope) -> list[Pieces]:
    """The fields that one unquoted or quoted word becomes as a command's argument."""
    found: list[Pieces] = []
    for single in braces(word):
        found.extend(_Expansion(single, scope).fields())
        if len(found) > MOST_FIELDS:
            return found[:MOST_FIELDS]
    return found


def text(word: str, scope: Scope, depth: int = 0) -> Pieces:
    """A word's single value, as in an assignment: nothing is split."""
    return _Expansion(word, scope, depth).single()


def here(document: str, scope: Scope) -> Pieces:
    """A here-document's text with its variables in place."""
    return _Expansion(document, scope, quotes=False).single()


def unquote(word: str) -> str:
    """A word's literal text: quotes and backslashes removed, nothing expanded."""
    found: list[str] = []
    at = 0
    quote = ""
    while at < len(word):
        letter = word[at]
        if quote == "'":
            if letter == "'":
                quote = ""
            else:
                found.append(letter)
        elif letter == "\\" and at + 1 < len(word):
            at += 1
            found.append(word[at])
        elif quote == '"':
            if letter == '"':
                quote = ""
            else:
                found.append(letter)
        elif letter in "'\"":
            quote = letter
        else:
            found.append(letter)
        at += 1
    return "".join(found)


class _Expansion:
    def __init__(self, word: str, scope: Scope, depth: int = 0, quotes: bool = True) -> None:
        self.word = word
        self.scope = scope
        self.depth = depth
        self.quotes = quotes
        self.done: list[Pieces] = []
        self.current: list[str | Unknown] = []
        self.exists = False
        self.split = True
        self.nothing = False  # the quotation holds a list without elements

    def fields(self) -> list[Pieces]:
        self.run()
        if self.exists:
            self.flush()
        return self.done

    def single(self) -> Pieces:
        self.split = False
        self.run()
        self.flush()
        return join(self.done)

    def flush(self) -> None:
        if len(self.done) < MOST_FIELDS:
            self.done.append(compact(self.current))
        self.current = []
        self.exists = False

    def add(self, pieces: Pieces) -> None:
        self.current.extend(pieces)
        self.exists = True

    def add_unquoted(self, pieces: Pieces) -> None:
        """The result of an expansion that stands outside of quotes: it is split at blanks."""
        if not self.split:
            self.add(pieces)
            return
        for piece in pieces:
            if isinstance(piece, Unknown):
                self.add((piece,))
                continue
            if piece[:1] and piece[0] in _SPACE and self.exists:
                self.flush()
            parts = piece.split()
            for number, part in enumerate(parts):
                if number:
                    self.flush()
                self.add(globs(part))
            if parts and piece[-1] in _SPACE and self.exists:
                self.flush()

    def add_elements(self, elements: Sequence[Pieces], quoted: bool) -> None:
        if not self.split:
            self.add(join(elements))
            return
        if quoted and not elements:
            self.nothing = True
        for number, element in enumerate(elements):
            if number and self.exists:
                self.flush()
            if quoted:
                self.add(element)
            else:
                self.add_unquoted(element)

    def run(self) -> None:
        word = self.word
        at = 0
        if self.quotes and word[:1] == "~" and (len(word) == 1 or word[1] == "/"):
            self.add((Unknown("~", "env:HOME", "environment"),))
            at = 1
        in_double = not self.quotes
        while at < len(word):
            letter = word[at]
            if letter == "\\" and at + 1 < len(word):
                following = word[at + 1]
                if following == "\n":
                    pass
                elif (in_double and following not in '$`"\\') or (
                    not self.quotes and following == '"'
                ):
                    self.add((letter + following,))
                else:
                    self.add((following,))
                at += 2
            elif letter == '"' and self.quotes:
                in_double = not in_double
                if in_double:
                    self.nothing = False
                elif not self.nothing:
                    self.exists = True
                at += 1
            elif letter == "'" and not in_double:
                end = word.find("'", at + 1)
                end = len(word) if end < 0 else end
                self.add((word[at + 1 : end],))
                at = end + 1
            elif letter == "$" and word[at + 1 : at + 2] == "'" and not in_double:
                at = self.ansi(at + 2)
            elif letter == "$" and word[at + 1 : at + 2] == '"' and not in_double:
                at += 1
            elif letter == "$":
                at = self.dollar(at, in_double)
            elif letter == "`":
                end = closing_tick(word, at + 1)
                said = word[at : end + 1]
                inner = word[at + 1 : end].replace("\\`", "`").replace("\\$", "$")
                self.give(self.scope.substitute(inner, said), in_double)
                at = end + 1
            else:
                end = at + 1
                stop = '\\"$`' if in_double else "\\\"'$`"
                while end < len(word) and word[end] not in stop:
                    end += 1
                plain = self.split and self.quotes and not in_double
                self.add(globs(word[at:end]) if plain else (word[at:end],))
                at = end

    def give(self, pieces: Pieces, quoted: bool) -> None:
        if quoted:
            self.add(pieces)
        else:
            self.add_unquoted(pieces)

    def ansi(self, at: int) -> int:
        """``$'…'`` from behind its opening quote; returns where to go on."""
        word = self.word
        found: list[str] = []
        simple = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "0": "\0"}
        while at < len(word) and word[at] != "'":
            if word[at] == "\\" and at + 1 < len(word):
                at += 1
                found.append(simple.get(word[at], "\\" + word[at]))
            else:
                found.append(word[at])
            at += 1
        self.add(("".join(found),))
        return at + 1

    def dollar(self, at: int, quoted: bool) -> int:
        """An expansion that begins at ``$``; returns where to go on."""
        word = self.word
        following = word[at + 1 : at + 2]
        if word.startswith("$((", at):
            end = closing(word, at + 1)
            inner = word[at + 3 : end - 1]
            if word[end - 1 : end] == ")":
                self.give(self.scope.arithmetic(inner, word[at : end + 1]), quoted)
                return end + 1
        if following == "(":
            end = closing(word, at + 1)
            said = word[at : end + 1]
            if self.depth > DEEPEST or not self.scope.spend():
                self.add((Unknown(said, f"deep:{said}"),))
            else:
                self.give(self.scope.substitute(word[at + 2 : end], said), quoted)
            return end + 1
        if following == "{":
            end = closing(word, at + 1)
            self.parameter(word[at + 2 : end], word[at : end + 1], quoted)
            return end + 1
        if following and (following.isalpha() or following == "_") and following.isascii():
            end = at + 1
            while (
                end < len(word)
                and word[end].isascii()
                and (word[end].isalnum() or word[end] == "_")
            ):
                end += 1
            self.parameter(word[at + 1 : end], word[at:end], quoted)
            return end
        if following and following in "@*#?$!-0123456789":
            self.parameter(following, word[at : at + 2], quoted)
            return at + 2
        self.add(("$",))
        return at + 1

    def parameter(self, inner: str, said: str, quoted: bool) -> None:
        """``${inner}``."""
        if self.depth > DEEPEST or not self.scope.spend():
            self.add((Unknown(said, f"deep:{said}"),))
            return
        name, index, rest = _split_parameter(inner)
        if name in ("@", "*") or index in ("@", "*"):
            count = name.startswith("#") and index is not None
            elements = self.scope.elements(name.lstrip("#") if index is not None else "@")
            if elements is None:
                if index is None:
                    self.give((Unknown(said, f"arguments:{said}", "parameter"),), quoted)
                    return
                value = self.value_of(name)
                elements = [] if value is None else [value]
            if count:
                self.add((str(len(elements)),))
                return
            if rest.startswith(":") and rest[1:2] not in ("-", "=", "+", "?"):
                elements = self.slice(elements, rest[1:], index is None)
            elif rest:
                elements = [self.operate(e, name, rest, said) for e in elements]
            if (name == "*" or index == "*") and quoted:
                self.add(join(elements))
            else:
                self.add_elements(elements, quoted)
            return
        if (name.startswith("#") and len(name) > 1) or (name == "#" and not rest):
            self.give(self.length(name[1:], index, said), quoted)
            return
        if name.startswith("!") and len(name) > 1:
            target = self.value_of(name[1:])
            literal = known(target) if target is not None else None
            if literal is None or not literal.replace("_", "a").isalnum():
                self.add((Unknown(said, f"indirect:{said}"),))
                return
            name = literal
        value = self.element(name, index) if index is not None else self.value_of(name)
        found = self.operate(value, name, rest, said)
        if rest[:2] in (":-", ":+") or rest[:1] in ("-", "+"):
            # the default itself may be quoted words that splice
            self.give(found, quoted)
            return
        self.give(found, quoted)

    def value_of(self, name: str) -> Pieces | None:
        return self.scope.look(name)

    def element(self, name: str, index: str) -> Pieces | None:
        elements = self.scope.elements(name)
        if elements is None:
            value = self.value_of(name)
            return value if index == "0" else None
        number = known(self.scope.arithmetic(index, index))
        if number is None:
            return (Unknown(f"${{{name}[{index}]}}", f"element:{name}:{index}"),)
        place = int(number)
        if -len(elements) <= place < len(elements):
            return elements[place]
        return ()

    def length(self, name: str, index: str | None, said: str) -> Pieces:
        if not name:
            elements = self.scope.elements("@")
            return (
                (str(len(elements)),)
                if elements is not None
                else (Unknown(said, "argc", "parameter"),)
            )
        value = self.element(name, index) if index is not None else self.value_of(name)
        literal = known(value if value is not None else self.scope.outside(name))
        return (str(len(literal)),) if literal is not None else (Unknown(said, f"length:{said}"),)

    def slice(self, elements: Sequence[Pieces], how: str, positional: bool) -> Sequence[Pieces]:
        start_text, _, length_text = how.partition(":")
        start = known(self.scope.arithmetic(start_text, start_text))
        length = known(self.scope.arithmetic(length_text, length_text)) if length_text else None
        if start is None or (length_text and length is None):
            return elements
        first = int(start)
        if positional:
            first -= 1
        if first < 0:
            first = max(len(elements) + first, 0) if int(start) < 0 else 0
        if length is None:
            return elements[first:]
        return elements[first : first + max(int(length), 0)]

    def operate(self, value: Pieces | None, name: str, rest: str, said: str) -> Pieces:
        """Apply what stands behind the name in ``${name…}``."""
        inner = self.depth + 1
        outside = value is None
        if rest[:2] in (":-", ":=", ":+", ":?") or rest[:1] in ("-", "=", "+", "?"):
            colon = rest[0] == ":"
            operator = rest[1] if colon else rest[0]
            other = rest[2:] if colon else rest[1:]
            # Without a value from the script the default counts, except for what a scheduler sets.
            unset = outside and not name.startswith(_OUTSIDE)
            if value is not None and colon and not value:
                unset = True
            if outside and not unset:
                mixed = token(text(other, self.scope, inner))
                return (Unknown(said, f"env:{name}:{operator}{mixed}", "environment"),)
            if operator == "+":
                return () if unset else text(other, self.scope, inner)
            if operator == "?":
                return self.scope.outside(name) if outside else (value or ())
            if not unset:
                return value or ()
            chosen = text(other, self.scope, inner)
            if operator == "=":
                self.scope.assign(name, chosen)
            return chosen
        if value is None:
            value = self.scope.outside(name)
        if not rest:
            return value
        literal = known(value)
        if literal is None:
            return (Unknown(said, f"op:{token(value)}:{rest}", _origin(value)),)
        return self.change(literal, rest, said, inner)

    def change(self, literal: str, rest: str, said: str, depth: int) -> Pieces:
        if rest[0] == ":":
            start_text, _, length_text = rest[1:].partition(":")
            start = known(self.scope.arithmetic(start_text, start_text))
            length = known(self.scope.arithmetic(length_text, length_text)) if length_text else ""
            if start is None or length is None:
                return (Unknown(said, f"op:{literal}:{rest}"),)
            first = int(start)
            if first < 0:
                first += len(literal)
                if first < 0:
                    return ()
            tail = literal[first:]
            if length == "":
                return (tail,)
            size = int(length)
            return (tail[:size] if size >= 0 else literal[first : len(literal) + size],)
        for mark in ("##", "#", "%%", "%"):
            if rest.startswith(mark):
                pattern = known(text(rest[len(mark) :], self.scope, depth))
                if pattern is None:
                    return (Unknown(said, f"op:{literal}:{rest}"),)
                cut = patterns.without_prefix if mark[0] == "#" else patterns.without_suffix
                return (cut(literal, pattern, len(mark) == 2),)
        if rest[0] == "/":
            everywhere = rest[1:2] == "/"
            body = rest[2:] if everywhere else rest[1:]
            pattern_text, _, by_text = _partition_slash(body)
            pattern = known(text(pattern_text, self.scope, depth))
            by = known(text(by_text, self.scope, depth))
            if pattern is None or by is None:
                return (Unknown(said, f"op:{literal}:{rest}"),)
            if pattern[:1] == "#" and not everywhere:
                cut_text = patterns.without_prefix(literal, pattern[1:], True)
                return (by + cut_text if cut_text != literal else literal,)
            if pattern[:1] == "%" and not everywhere:
                cut_text = patterns.without_suffix(literal, pattern[1:], True)
                return (cut_text + by if cut_text != literal else literal,)
            return (patterns.replace(literal, pattern, by, everywhere),)
        if rest[0] == "^":
            return (literal.upper() if rest[:2] == "^^" else literal[:1].upper() + literal[1:],)
        if rest[0] == ",":
            return (literal.lower() if rest[:2] == ",," else literal[:1].lower() + literal[1:],)
        if rest[0] == "@":
            return (literal,)
        return (Unknown(said, f"op:{literal}:{rest}"),)


def _origin(pieces: Pieces) -> str:
    return next((p.origin for p in pieces if isinstance(p, Unknown)), "command")


def _split_parameter(inner: str) -> tuple[str, str | None, str]:
    """``name[index]rest`` of a ``${…}``; the name keeps a leading ``#`` or ``!``."""
    at = 0
    if inner[:1] in ("#", "!") and len(inner) > 1 and (inner[1].isalnum() or inner[1] in "_@*"):
        at = 1
    if inner[at : at + 1] and inner[at] in "@*#?$!-":
        return inner[: at + 1], None, inner[at + 1 :]
    end = at
    while end < len(inner) and inner[end].isascii() and (inner[end].isalnum() or inner[end] == "_"):
        end += 1
    name, rest = inner[:end], inner[end:]
    if rest.startswith("["):
        close = rest.find("]")
        if close > 0:
            return name, rest[1:close], rest[close + 1 :]
    return name, None, rest


def _partition_slash(body: str) -> tuple[str, str, str]:
    at = 0
    while at < len(body):
        if body[at] == "\\":
            at += 2
            continue
        if body[at] == "/" and at > 0:
            return body[:at], "/", body[at + 1 :]
        at += 1
    return body, "", ""


__all__ = ["Scope", "braces", "fields", "here", "text", "unquote", "written"]
