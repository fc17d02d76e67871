"""Where a program's command stands in a script's text, and which bytes a change of it replaces.

A command may be the text of another (``bash -c '…'``, ``ssh host "…"``, a heredoc, a variable that
``eval`` gets): such texts are read as scripts of their own, as far as the same bytes stand there
as the inner shell will read.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Language, Node, Parser

from unstall.launch.wrappers import peel
from unstall.model.plan import Program
from unstall.programs.swift.launch import SERVER_LISTS

#: Bytes of a script from a start to an end, and what they become.
Cut = tuple[int, int, bytes]

#: What a launch plan shows as the value of a flag without one.
ON = "true"

_HYDRA = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/-]*=")
#: How deep texts within texts are followed, and how many commands are considered.
_DEEPEST = 3
_MOST = 4000
#: Outer commands that give their own environment on, and that are no words of the shell.
_TRANSPARENT = frozenset(
    [
        "nohup",
        "setsid",
        "exec",
        "command",
        "stdbuf",
        "nice",
        "ionice",
        "taskset",
        "numactl",
        "timeout",
        "conda",
        "uv",
        "nsys",
        "xvfb-run",
    ]
)
#: What may not stand in a text of another command: the outer shell would read it.
_READ_BY_OUTER = {"raw_string": "'", "string": '"$`\\', "heredoc_body": "$`\\", "": "\0"}


class Spot(msgspec.Struct, frozen=True):
    """A command in a script.

    Attributes:
        data: the text that was read: the script, or a text in it.
        offset: where that text begins in the script.
        node: the command.
        outer: characters that cannot be written there.
        depth: how many texts it is in.
        line: of the outermost command, from 0.
    """

    data: bytes
    offset: int
    node: Node
    outer: str = ""
    depth: int = 0
    line: int = 0

    def text(self, node: Node) -> str:
        """A part of it, as written."""
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")

    def words(self) -> list[Node]:
        """Its words, without the assignments before them."""
        return [one for one in self.node.named_children if one.type != "variable_assignment"]

    def moved(self, cuts: Sequence[Cut]) -> list[Cut] | None:
        """Cuts of this text as cuts of the script; ``None`` where they cannot be written here."""
        for _, _, new in cuts:
            if any(char in self.outer for char in new.decode()):
                return None
        return [(start + self.offset, end + self.offset, new) for start, end, new in cuts]


def parse(data: bytes) -> Node:
    """A script's syntax tree."""
    import tree_sitter_bash

    return Parser(Language(tree_sitter_bash.language())).parse(data).root_node


def spots(data: bytes, program: Program) -> list[Spot]:
    """Commands that may be a program's, the likeliest first.

    Those on the line where the plan says that it stands come first, of them those with most of its
    words (``cd x && torchrun … | tee log`` has three); then texts elsewhere that begin as it does.
    """
    if program.place is None:
        return []
    line = program.place.line - 1
    wanted = Counter(program.command)
    first = program.command[0] if program.command else ""
    found: list[tuple[tuple[int, ...], Spot]] = []
    for spot in _all(data):
        on_line = spot.node.start_point[0] <= line <= spot.node.end_point[0]
        if spot.depth:
            on_line = spot.line <= line <= spot.line + spot.data.count(b"\n")
        texts = [spot.text(word) for word in spot.words()]
        score = (Counter(texts) & wanted).total()
        own = first in texts
        if (on_line and (own or not spot.depth)) or (own and score > 1):
            size = spot.node.end_byte - spot.node.start_byte
            found.append(((not own, not on_line, -score, spot.depth, size), spot))
    found.sort(key=lambda one: one[0])
    return [spot for _, spot in found[:8]]


def _all(data: bytes) -> Iterator[Spot]:
    """All commands of a script and of the texts in it."""
    left = _MOST
    todo: list[tuple[bytes, int, Node, str, int, int]] = [(data, 0, parse(data), "", 0, -1)]
    while todo and left:
        own, offset, node, outer, depth, line = todo.pop()
        left -= 1
        if node.type == "command":
            at = line if depth else node.start_point[0]
            yield Spot(own, offset, node, outer, depth, at)
        text = _within(own, node)
        if text is not None and depth < _DEEPEST:
            start, end = text
            inner = own[start:end]
            at = line if depth else node.start_point[0]
            more = outer + _READ_BY_OUTER[node.type]
            todo.append((inner, offset + start, parse(inner), more, depth + 1, at))
        todo.extend(
            (own, offset, child, outer, depth, line) for child in reversed(node.named_children)
        )


def _within(data: bytes, node: Node) -> tuple[int, int] | None:
    """The text of a string or heredoc that may be a script, as bytes of what it stands in."""
    if node.type in ("raw_string", "string"):
        start, end = node.start_byte + 1, node.end_byte - 1
    elif node.type == "heredoc_body":
        start, end = node.start_byte, node.end_byte
    else:
        return None
    inner = data[start:end]
    return (start, end) if b" " in inner.strip() else None


# --- flags ----------------------------------------------------------------------------------------


def canonical(flag: str) -> str:
    """A flag's name without dashes."""
    return flag.lstrip("-+~").replace("-", "_")


def can_switch(program: Program, flag: str) -> bool:
    """Whether a program may be given a flag without a value: it has none with one."""
    known = program.flags.get(canonical(flag))
    given = known is not None and not known.default and known.text != ON
    return not given and not _takes_keys(program)


def _takes_keys(program: Program) -> bool:
    """Whether a program is given Hydra's keys (``optim.lr=1``) and no flags."""
    return any(_HYDRA.match(word) for word in program.command) and not any(
        word.startswith("--") and "config" not in word for word in program.command
    )


def set_flags(
    spot: Spot, flags: dict[str, str], program: Program, switches: Sequence[str] = ()
) -> list[Cut]:
    """Flags replaced where they stand, else appended; switches without their value."""
    words = spot.words()
    hydra = _takes_keys(program)
    found: list[Cut] = []
    for flag, value in flags.items():
        spans = _flag_spans(spot, words, flag, program)
        if spans:
            start, end, written = spans[-1]  # of several, programs take the last
            joined = "=" if spot.data[start:end].startswith(f"{written}=".encode()) else " "
            found.append((start, end, f"{written}{joined}{_quoted(value, flag)}".encode()))
            continue
        end = words[-1].end_byte
        if hydra:
            new = f" {flag}={_quoted(value)}"
        else:
            new = f" {flag if flag.startswith('-') else f'--{flag}'}"
            new += "" if flag in switches else f" {_quoted(value, flag)}"
        found.append((end, end, new.encode()))
    return found


def put_flag(spot: Spot, flag: str, written: str, program: Program) -> list[Cut]:
    """A flag with a value that is put in as it is, an expression of the shell, say."""
    words = spot.words()
    spans = _flag_spans(spot, words, flag, program)
    if not spans:
        return [(words[-1].end_byte, words[-1].end_byte, f" --{flag} {written}".encode())]
    start, end, name = spans[-1]
    joined = "=" if spot.data[start:end].startswith(f"{name}=".encode()) else " "
    if " " in written:
        joined = " "  # a list
    return [(start, end, f"{name}{joined}{written}".encode())]


def unset_flags(spot: Spot, flags: Sequence[str], program: Program) -> list[Cut] | None:
    """Flags removed with their values; ``None`` where one does not stand in the command."""
    found: list[Cut] = []
    for flag in flags:
        spans = _flag_spans(spot, spot.words(), flag, program)
        if not spans:
            return None
        found += [_removal(spot.data, start, end) for start, end, _ in spans]
    return found


def _quoted(value: str, flag: str = "") -> str:
    """A value as a shell's word, or as several where the flag takes several."""
    if canonical(flag) in SERVER_LISTS:
        return " ".join(map(shlex.quote, value.split())) or "''"
    return shlex.quote(value)


def _removal(data: bytes, start: int, end: int) -> Cut:
    first = start
    while first > 0 and data[first - 1 : first] == b" ":
        first -= 1
    rest, newline, _ = data[end:].partition(b"\n")
    if (
        first >= 2 and data[first - 2 : first] == b"\\\n"
    ):  # it begins a line that goes on from another
        if rest.strip() == b"\\":
            return first, end + len(rest) + len(newline), b""
        if not rest.strip() or rest.lstrip()[:1] in (b"&", b";", b")"):
            # the last of a command's lines: the one before is not continued any more
            return len(data[: first - 2].rstrip(b" ")), end, b""
    if first == 0 or data[first - 1 : first] == b"\n":  # keep the line's indentation
        while data[end : end + 1] == b" ":
            end += 1
        return start, end, b""
    return first, end, b""


def _flag_spans(
    spot: Spot, words: Sequence[Node], flag: str, program: Program
) -> list[tuple[int, int, str]]:
    """Where a flag and its values stand each time, and how it is written there."""
    wanted = canonical(flag)
    value = program.flags.get(wanted)
    found = []
    for number, word in enumerate(words):
        name, equals, _ = spot.text(word).partition("=")
        if canonical(name) != wanted or not (equals or name.startswith("-")):
            continue
        end = word.end_byte
        if not equals:
            for after in words[number + 1 :]:
                if spot.text(after).startswith("-") and not _negative(spot.text(after)):
                    break
                if value is not None and end > word.end_byte and " " not in value.text:
                    break  # its one value is there: the rest is the program's own (a script, say)
                end = after.end_byte
        found.append((word.start_byte, end, name))
    return found


def _negative(text: str) -> bool:
    return text[1:2].isdigit()


# --- variables ------------------------------------------------------------------------------------


class Wrapped(msgspec.Struct, frozen=True):
    """The outer commands of a program: their names and where each begins, where it begins."""

    names: tuple[str, ...]
    begins: tuple[int, ...]
    inner: int


def wrapped(spot: Spot) -> Wrapped:
    """What stands before a program in its command, by the number of the word."""
    texts = [_unquoted(spot.text(word)) for word in spot.words()]
    names: list[str] = []
    begins: list[int] = []
    at = 0
    while (outer := peel(texts[at:])) is not None and len(names) < 8:
        if outer.start <= 0 or at + outer.start >= len(texts):
            break
        names.append(outer.name)
        begins.append(at)
        at += outer.start
    return Wrapped(tuple(names), tuple(begins), at)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def set_variable(spot: Spot, name: str, value: str) -> list[Cut]:
    """A variable set where the command sets it last, else right before the program."""
    new = f"{name}={_quoted(value)}"
    words, around = spot.words(), wrapped(spot)
    for word in reversed(words[: around.inner]):
        start, end, before = word.start_byte, word.end_byte, _assigned(spot, word, name)
        if before is None:
            continue
        return [(start, end, f"{before}{new}".encode())]
    if set(around.names) <= _TRANSPARENT | {"env"}:
        for word in _before_command(spot, name):
            return [(word.start_byte, word.end_byte, new.encode())]
    return [_before(spot, words, around, new, f"env {new}")]


def _assigned(spot: Spot, word: Node, name: str) -> str | None:
    """What stands in a wrapper's word before ``NAME=value``; ``None`` where it is none."""
    text = _unquoted(spot.text(word))
    if text.startswith(f"{name}="):
        return ""
    for option in ("--env=", "-e"):
        if text.startswith(f"{option}{name}="):
            return option
    return None


def _before(spot: Spot, words: Sequence[Node], around: Wrapped, plain: str, command: str) -> Cut:
    """An assignment where it reaches the program whatever stands before it."""
    if "docker" in around.names:
        outer = around.begins[around.names.index("docker")]
        for word in words[outer:]:
            if spot.text(word) in ("run", "exec", "create"):
                return word.end_byte, word.end_byte, f" -e {plain}".encode()
    if set(around.names) <= _TRANSPARENT:
        start = spot.node.start_byte
        return start, start, f"{plain} ".encode()
    start = words[around.inner].start_byte
    last = around.names[-1] if around.names else ""
    return start, start, f"{plain if last == 'env' else command} ".encode()


def unset_variable(spot: Spot, name: str) -> list[Cut]:
    """A variable removed where the command sets it, and kept from the program."""
    words, around = spot.words(), wrapped(spot)
    found: list[Cut] = []
    for number, word in enumerate(words[: around.inner]):
        start, text = word.start_byte, spot.text(word)
        if text.startswith("--export=") and f"{name}=" in text:
            parts = text[len("--export=") :].split(",")
            left = ",".join(part for part in parts if not part.startswith(f"{name}="))
            found.append((start, word.end_byte, f"--export={left or 'NONE'}".encode()))
            continue
        before = _assigned(spot, word, name)
        if before is None:
            continue
        if not before and number and spot.text(words[number - 1]) in ("-e", "--env", "-x"):
            start = words[number - 1].start_byte
        found.append(_removal(spot.data, start, word.end_byte))
    for word in _before_command(spot, name):
        end = word.end_byte
        while spot.data[end : end + 1] == b" ":
            end += 1
        found.append((word.start_byte, end, b""))
    return found


def _before_command(spot: Spot, name: str) -> list[Node]:
    """Assignments ``NAME=…`` that stand before a command."""
    return [
        word
        for word in spot.node.named_children
        if word.type == "variable_assignment" and spot.text(word).startswith(f"{name}=")
    ]


def keep_from(spot: Spot, name: str) -> list[Cut]:
    """``env -u NAME`` right before the program."""
    words, around = spot.words(), wrapped(spot)
    start = words[around.inner].start_byte
    return [(start, start, f"env -u {name} ".encode())]


def assignments(data: bytes, name: str) -> list[Node]:
    """Statements of the script itself that set a variable, not those before a command."""
    return [
        node
        for node in _nodes(parse(data))
        if node.type == "variable_assignment"
        and node.parent is not None
        and node.parent.type != "command"
        and data[node.start_byte : node.end_byte].startswith(f"{name}=".encode())
    ]


def reads(root: Node, data: bytes, name: str) -> list[int]:
    """Lines, from 1, on which the script itself puts a variable's value in."""
    return sorted(
        {
            node.start_point[0] + 1
            for node in _nodes(root)
            if node.type == "variable_name"
            and node.parent is not None
            and node.parent.type in ("simple_expansion", "expansion")
            and data[node.start_byte : node.end_byte] == name.encode()
        }
    )


def _nodes(root: Node) -> Iterator[Node]:
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.named_children))
