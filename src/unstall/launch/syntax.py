"""Shell text to a small tree of commands.

The parsing is tree-sitter's, with its grammar of bash, which goes on after an error. Only the
structure is taken from it; what stands inside a word is read by :mod:`unstall.launch.words`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from unstall.launch.brackets import hide_tests, split_words, test_end, word_end
from unstall.launch.tree import (
    AndOr,
    Assignment,
    Async,
    Block,
    Branch,
    CFor,
    For,
    Function,
    If,
    Part,
    Pipe,
    Simple,
    Test,
    While,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEEPEST = 60
"""Nesting beyond this is not read."""

LARGEST = 1 << 20
"""A script is read up to so many bytes."""


_BEHIND_A_WORD = (b"", b" ", b"\t", b"\n", b";", b"&", b"|", b")", b"`", b"<", b">")
_WORDS = frozenset(
    ("word", "number", "string", "raw_string", "concatenation", "expansion", "simple_expansion")
)

_parser: Parser | None = None


def _shell() -> Parser:
    global _parser
    if _parser is None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        _parser = Parser(Language(tree_sitter_bash.language()))
    return _parser


class Parsed(msgspec.Struct, frozen=True):
    """A script's commands, and the lines (from 0) where the grammar did not fit."""

    block: Block
    errors: tuple[int, ...] = ()
    cut: bool = False


def parse(text: str) -> Parsed:
    """The commands of a script; lines are counted from 0.

    Never fails: what cannot be read is left out and its line is among ``errors``.
    """
    data = text.encode("utf-8", "surrogatepass")
    cut = len(data) > LARGEST
    if cut:
        data = data[:LARGEST]
        data = data[: data.rfind(b"\n") + 1]
    reader = _Reader(data)
    block = Block(tuple(reader.sequence(_shell().parse(data).root_node, 0)))
    if reader.swallowed:
        hidden, tests = hide_tests(data)
        reader = _Reader(data, tests)
        block = Block(tuple(reader.sequence(_shell().parse(hidden).root_node, 0)))
    return Parsed(block, tuple(sorted(set(reader.errors))), cut)


class _Reader:
    def __init__(self, data: bytes, tests: dict[int, int] | None = None) -> None:
        self.data = data
        self.errors: list[int] = []
        self.tests = tests or {}
        self.swallowed = False

    def text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def sequence(self, node: Node, depth: int) -> list[Part]:
        """The commands among a node's children."""
        found: list[Part] = []
        if depth > DEEPEST:
            self.errors.append(node.start_point.row)
            return found
        last: int | None = None
        for child in node.children:
            if child.type == "&":
                if last is not None and last < len(found):
                    tail: Part = found[-1]
                    if isinstance(tail, AndOr) or len(found) - last == 1:
                        found[-1] = Async(tail)
                    else:  # pragma: no cover - one node gives one part
                        found[last:] = [Async(Block(tuple(found[last:])))]
                continue
            if not child.is_named or child.type in ("comment", "heredoc_body"):
                continue
            last = len(found)
            part = self.part(child, depth + 1)
            if part is not None:
                found.append(part)
            elif child.type == "ERROR":
                found.extend(self.sequence(child, depth + 1))
        return found

    def part(self, node: Node, depth: int) -> Part | None:
        if depth > DEEPEST:
            self.errors.append(node.start_point.row)
            return None
        method = getattr(self, "_" + node.type, None)
        if method is not None:
            found: Part | None = method(node, depth)
            return found
        if node.type == "ERROR":
            self.errors.append(node.start_point.row)
        return None

    # --- simple commands ---------------------------------------------------------------------

    def _command(self, node: Node, _depth: int) -> Part:
        # The grammar tells where a command begins and ends; it is split here, since the grammar
        # loses escaped blanks and splits some words.
        if node.start_byte in self.tests:
            end = self.tests[node.start_byte]
            said = self.data[node.start_byte : end].decode("utf-8", "replace")
            return Test(said, node.start_point.row)
        assignments: list[Assignment] = []
        feed: str | None = None
        start = node.start_byte
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.extend(self._one_assignment(child))
                start = self._value_end(child)
            elif child.type == "herestring_redirect":
                feed = self.text(child)[3:].strip()
            elif child.type == "ERROR":
                self.errors.append(child.start_point.row)
        text = self.data[start : self._end(node)].decode("utf-8", "replace")
        row = node.start_point.row + self.data.count(b"\n", node.start_byte, start)
        words: list[str] = []
        lines: list[int] = []
        at = 0
        for word, offset in split_words(text) if start < node.end_byte else ():
            row += text.count("\n", at, offset)
            at = offset
            words.append(word)
            lines.append(row)
        end = node.end_byte
        if words and words[-1].isdigit() and self.data[end : end + 1] in (b"<", b">"):
            # behind an escaped blank the grammar takes `2` of `2>&1` for a word
            words.pop()
            lines.pop()
        return Simple(
            tuple(words), tuple(assignments), node.start_point.row, feed, lines=tuple(lines)
        )

    def _end(self, node: Node) -> int:
        """A command's end, with the escaped blanks that the grammar leaves behind it."""
        end = node.end_byte
        while True:
            at = end
            while self.data[at : at + 1] in (b" ", b"\t"):
                at += 1
            if self.data[at : at + 1] != b"\\" or self.data[at + 1 : at + 2] not in (b" ", b"\t"):
                return end
            end = at + 2

    def _value_end(self, node: Node) -> int:
        """An assignment's end: the grammar ends a value early in ``X=a/$B/$C/d``."""
        end = node.end_byte
        value = node.child_by_field_name("value")
        if value is None or value.type == "array" or self.data[end : end + 1] in _BEHIND_A_WORD:
            return end
        text = self.data[value.start_byte : value.start_byte + 65536].decode("utf-8", "replace")
        return max(end, value.start_byte + len(text[: word_end(text, 0)].encode()))

    def _one_assignment(self, node: Node) -> list[Assignment]:
        name_node = node.child_by_field_name("name")
        value_node = node.child_by_field_name("value")
        if name_node is None:
            return []
        append = any(c.type == "+=" for c in node.children)
        index: str | None = None
        name = self.text(name_node)
        if name_node.type == "subscript":
            inner = name_node.child_by_field_name("name")
            key = name_node.child_by_field_name("index")
            name = self.text(inner) if inner is not None else name
            index = self.text(key) if key is not None else "0"
        line = node.start_point.row
        if value_node is not None and value_node.type == "array":
            inside = self.data[value_node.start_byte + 1 : value_node.end_byte - 1]
            items = tuple(w for w, _ in split_words(inside.decode("utf-8", "replace")))
            return [Assignment(name, "", line, items, append, index)]
        value = ""
        if value_node is not None:
            # the whole rest of the word: the grammar sometimes splits a value into pieces
            end = self._value_end(node)
            value = self.data[value_node.start_byte : end].decode("utf-8", "replace")
        return [Assignment(name, value, line, None, append, index)]

    def _variable_assignment(self, node: Node, _depth: int) -> Part:
        return Simple((), tuple(self._one_assignment(node)), node.start_point.row)

    def _variable_assignments(self, node: Node, _depth: int) -> Part:
        found: list[Assignment] = []
        for child in node.children:
            if child.type == "variable_assignment":
                found.extend(self._one_assignment(child))
        return Simple((), tuple(found), node.start_point.row)

    def _declaration_command(self, node: Node, _depth: int) -> Part:
        words: list[str] = []
        assignments: list[Assignment] = []
        declares = node.children[0].type if node.children else "declare"
        covered = 0
        for child in node.children[1:]:
            if child.start_byte < covered:
                continue
            if child.type == "variable_assignment":
                covered = self._value_end(child)
                assignments.extend(self._one_assignment(child))
            elif child.is_named and child.type != "comment":
                words.append(self.text(child))
        return Simple(tuple(words), tuple(assignments), node.start_point.row, declares=declares)

    def _unset_command(self, node: Node, _depth: int) -> Part:
        words = ["unset", *(self.text(c) for c in node.children[1:] if c.is_named)]
        row = node.start_point.row
        return Simple(tuple(words), (), row, lines=(row,) * len(words))

    def _test_command(self, node: Node, _depth: int) -> Part:
        text = self.text(node)
        if text.startswith("[") and test_end(text) != len(text):
            self.swallowed = True
        return Test(text, node.start_point.row)

    # --- structure ------------------------------------------------------------------------------

    def _redirected_statement(self, node: Node, depth: int) -> Part | None:
        body = node.child_by_field_name("body")
        inner = self.part(body, depth + 1) if body is not None else None
        feed: str | None = None
        literal = False
        piped: list[Part] = []
        more: list[tuple[str, int]] = []
        for child in node.children:
            if child.type == "herestring_redirect":
                feed = self.text(child)[3:].strip()
            elif child.type == "file_redirect":
                more.extend(self._behind(child))
            if child.type != "heredoc_redirect":
                continue
            more.extend(
                (self.text(part), part.start_point.row)
                for part in child.children
                if part.type in _WORDS
            )
            for part in child.children:
                if part.type == "heredoc_start":
                    literal = any(mark in self.text(part) for mark in "'\"\\")
                elif part.type == "heredoc_body":
                    feed = self.text(part)
                elif part.type == "pipeline":
                    piped.extend(self.sequence(part, depth + 1))
                elif part.is_named and inner is None:
                    inner = self.part(part, depth + 1)
        if isinstance(inner, Simple) and more:
            inner = msgspec.structs.replace(
                inner,
                words=(*inner.words, *(word for word, _ in more)),
                lines=(*inner.lines, *(line for _, line in more)),
            )
        if isinstance(inner, Simple) and feed is not None:
            inner = msgspec.structs.replace(inner, feed=feed, quoted_feed=literal)
        elif isinstance(inner, Pipe) and feed is not None and isinstance(inner.parts[0], Simple):
            first = msgspec.structs.replace(inner.parts[0], feed=feed, quoted_feed=literal)
            inner = Pipe((first, *inner.parts[1:]))
        if inner is None:
            return None
        return Pipe((inner, *piped)) if piped else inner

    def _behind(self, node: Node) -> list[tuple[str, int]]:
        """Words behind a redirection: the command's, which the grammar counts to the file's."""
        named = [c for c in node.children if c.is_named and c.type != "file_descriptor"]
        if len(named) < 2:
            return []
        start = named[0].start_byte
        text = self.data[start : self._end(node)].decode("utf-8", "replace")
        row = named[0].start_point.row
        return [(word, row + text.count("\n", 0, at)) for word, at in split_words(text)[1:]]

    def _pipeline(self, node: Node, depth: int) -> Part | None:
        parts = self.sequence(node, depth)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else Pipe(tuple(parts))

    def _negated_command(self, node: Node, depth: int) -> Part | None:
        inner = self.sequence(node, depth)
        return inner[0] if inner else None

    def _list(self, node: Node, depth: int) -> Part | None:
        # `a && b && c …` nests to the left: unrolled, so that depth is not spent on length
        chain: list[tuple[str, Node]] = []
        current = node
        while current.type == "list":
            operator = next((c.type for c in current.children if c.type in ("&&", "||")), None)
            named = [c for c in current.children if c.is_named and c.type != "comment"]
            if operator is None or len(named) != 2:
                return Block(tuple(self.sequence(current, depth)))
            chain.append((operator, named[1]))
            current = named[0]
        left = self.part(current, depth + 1)
        end = current
        for operator, right_node in reversed(chain):
            right = self.part(right_node, depth + 1)
            said = self.text(end)
            end = right_node
            if left is None or right is None:
                left = right if left is None else left
                continue
            left = AndOr(left, operator, right, said)
        return left

    def _compound_statement(self, node: Node, depth: int) -> Part:
        if node.children and node.children[0].type == "((":
            return Test(self.text(node), node.start_point.row)
        return Block(tuple(self.sequence(node, depth)))

    def _subshell(self, node: Node, depth: int) -> Part:
        return Block(tuple(self.sequence(node, depth)), subshell=True)

    def _do_group(self, node: Node, depth: int) -> Block:
        return Block(tuple(self.sequence(node, depth)))

    def _function_definition(self, node: Node, depth: int) -> Part | None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is None or body is None:
            return None
        inner = self.part(body, depth + 1)
        if inner is None:
            return None
        return Function(self.text(name), inner if isinstance(inner, Block) else Block((inner,)))

    def _if_statement(self, node: Node, depth: int) -> Part:
        branches: list[Branch] = []

        def clause(parent: Node, skip: tuple[str, ...]) -> None:
            head: list[Node] = []
            body: list[Node] = []
            target = head
            for child in parent.children:
                if child.type == "then":
                    target = body
                elif child.type in skip or child.type in ("elif_clause", "else_clause"):
                    continue
                else:
                    target.append(child)
            condition = [p for c in head if c.is_named and (p := self.part(c, depth + 1))]
            said = " ".join(self.text(c) for c in head if c.is_named)
            branches.append(
                Branch(
                    Block(tuple(condition)) if condition else None,
                    said,
                    Block(tuple(self._listed(body, depth))),
                )
            )

        clause(node, ("if", "fi"))
        for child in node.children:
            if child.type == "elif_clause":
                clause(child, ("elif",))
            elif child.type == "else_clause":
                branches.append(Branch(None, "else", Block(tuple(self.sequence(child, depth + 1)))))
        return If(tuple(branches), node.start_point.row)

    def _listed(self, nodes: list[Node], depth: int) -> list[Part]:
        found: list[Part] = []
        for child in nodes:
            if child.type == "&" and found:
                found[-1] = Async(found[-1])
            elif child.is_named and child.type != "comment":
                part = self.part(child, depth + 1)
                if part is not None:
                    found.append(part)
        return found

    def _case_statement(self, node: Node, depth: int) -> Part:
        value = node.child_by_field_name("value")
        branches: list[Branch] = []
        for child in node.children:
            if child.type != "case_item":
                continue
            patterns: list[str] = []
            body: list[Node] = []
            opened = False
            for part in child.children:
                if part.type == ")" and not opened:
                    opened = True
                elif not opened:
                    if part.is_named:
                        patterns.append(self.text(part))
                elif part.type not in (";;", ";&", ";;&"):
                    body.append(part)
            branches.append(
                Branch(None, "|".join(patterns), Block(tuple(self._listed(body, depth))))
            )
        return If(
            tuple(branches),
            node.start_point.row,
            self.text(value) if value is not None else "",
        )

    def _for_statement(self, node: Node, depth: int) -> Part | None:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return None
        values = node.children_by_field_name("value")
        words: tuple[str, ...] = ()
        if values:
            # split here, since the grammar splits some words
            end = self._end(values[-1])
            text = self.data[values[0].start_byte : end].decode("utf-8", "replace")
            words = tuple(word for word, _ in split_words(text))
        given = any(c.type == "in" for c in node.children)
        return For(
            self.text(variable),
            words if given else None,
            self._do_group(body, depth + 1),
            node.start_point.row,
        )

    def _c_style_for_statement(self, node: Node, depth: int) -> Part | None:
        body = node.child_by_field_name("body")
        if body is None:
            return None
        head = self.data[node.start_byte : body.start_byte].decode("utf-8", "replace")
        inner = head[head.find("((") + 2 : head.rfind("))")]
        pieces = [*inner.split(";"), "", "", ""][:3]
        return CFor(
            pieces[0].strip(),
            pieces[1].strip(),
            pieces[2].strip(),
            Block(tuple(self.sequence(body, depth + 1))),
            node.start_point.row,
        )

    def _while_statement(self, node: Node, depth: int) -> Part | None:
        body = node.child_by_field_name("body")
        if body is None:
            return None
        head = [c for c in node.children if c.is_named and c.start_byte < body.start_byte]
        condition = [p for c in head if (p := self.part(c, depth + 1))]
        return While(
            Block(tuple(condition)) if condition else None,
            " ".join(self.text(c) for c in head),
            Block(tuple(self.sequence(body, depth + 1))),
            node.start_point.row,
            any(c.type == "until" for c in node.children),
        )
