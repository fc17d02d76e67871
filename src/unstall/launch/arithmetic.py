"""Shell arithmetic over 64-bit integers; nothing is evaluated by Python itself."""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 400
_OPERATORS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_TWO = ("||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "**", "++", "--", "+=", "-=", "*=", "/=")


class NotComputable(Exception):  # noqa: N818 - it is an answer, not an error
    """The expression has an unknown part, or is none that this module reads."""


def compute(
    text: str,
    read: Callable[[str], int | None],
    write: Callable[[str, int], None] | None = None,
) -> int:
    """An arithmetic expression's value.

    Args:
        text: the expression, e.g. ``29500 + i``.
        read: a variable's value, ``None`` where it is unknown.
        write: called for assignments (``i++``, ``i+=2``); without it they are not computable.

    Raises:
        NotComputable: an unknown part, a division by zero, or a form that is not read.
    """
    if len(text) > LONGEST:
        raise NotComputable
    reader = _Reader(_tokens(text), read, write)
    if not reader.items:
        return 0
    value = reader.assignment()
    while reader.peek() == ",":
        reader.take()
        value = reader.assignment()
    if reader.at < len(reader.items):
        raise NotComputable
    return value


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        letter = text[at]
        if letter.isspace() or letter in "\"'":
            at += 1
        elif letter.isascii() and (letter.isalnum() or letter == "_"):
            end = at
            while (
                end < len(text)
                and (text[end].isalnum() or text[end] in "_#")
                and text[end].isascii()
            ):
                end += 1
            found.append(text[at:end])
            at = end
        elif (
            letter == "$" and at + 1 < len(text) and (text[at + 1].isalpha() or text[at + 1] == "_")
        ):
            at += 1
        elif text[at : at + 2] in _TWO:
            found.append(text[at : at + 2])
            at += 2
        elif letter in "+-*/%<>=!&|^~?:(),":
            found.append(letter)
            at += 1
        else:
            raise NotComputable
    return found


class _Reader:
    def __init__(
        self,
        items: list[str],
        read: Callable[[str], int | None],
        write: Callable[[str, int], None] | None,
    ) -> None:
        self.items = items
        self.at = 0
        self.depth = 0
        self.read = read
        self.write = write

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def take(self) -> str:
        item = self.peek()
        self.at += 1
        return item

    def assignment(self) -> int:
        name = self.peek()
        following = self.items[self.at + 1] if self.at + 1 < len(self.items) else ""
        if _is_name(name) and following in ("=", "+=", "-=", "*=", "/="):
            self.at += 2
            value = self.assignment()
            if following != "=":
                value = _apply(following[0], self.variable(name), value)
            self.store(name, value)
            return value
        return self.ternary()

    def ternary(self) -> int:
        value = self.binary(0)
        if self.peek() == "?":
            self.take()
            yes = self.assignment()
            if self.take() != ":":
                raise NotComputable
            no = self.assignment()
            return yes if value else no
        return value

    def binary(self, level: int) -> int:
        if level == len(_OPERATORS):
            return self.power()
        left = self.binary(level + 1)
        while self.peek() in _OPERATORS[level]:
            operator = self.take()
            left = _apply(operator, left, self.binary(level + 1))
        return left

    def power(self) -> int:
        base = self.unary()
        if self.peek() == "**":
            self.take()
            return _apply("**", base, self.power())
        return base

    def unary(self) -> int:
        self.depth += 1
        if self.depth > 100:
            raise NotComputable
        try:
            item = self.take()
            if item == "-":
                return -self.unary()
            if item == "+":
                return self.unary()
            if item == "!":
                return int(not self.unary())
            if item == "~":
                return ~self.unary()
            if item in ("++", "--"):
                name = self.take()
                value = self.variable(name) + (1 if item == "++" else -1)
                self.store(name, value)
                return value
            if item == "(":
                value = self.assignment()
                if self.take() != ")":
                    raise NotComputable
                return value
            if _is_name(item):
                value = self.variable(item)
                if self.peek() in ("++", "--"):
                    self.store(item, value + (1 if self.take() == "++" else -1))
                return value
            return _number(item)
        finally:
            self.depth -= 1

    def variable(self, name: str) -> int:
        value = self.read(name)
        if value is None:
            raise NotComputable
        return value

    def store(self, name: str, value: int) -> None:
        if self.write is None or not _is_name(name):
            raise NotComputable
        self.write(name, value)


def _is_name(item: str) -> bool:
    return bool(item) and (item[0].isalpha() or item[0] == "_") and "#" not in item


def _number(item: str) -> int:
    try:
        if "#" in item:
            base, digits = item.split("#", 1)
            return int(digits, int(base))
        if item[:2].lower() == "0x":
            return int(item, 16)
        if len(item) > 1 and item[0] == "0":
            return int(item, 8)
        return int(item)
    except ValueError:
        raise NotComputable from None


def _apply(operator: str, left: int, right: int) -> int:
    value: int
    if operator in ("/", "%"):
        if right == 0:
            raise NotComputable
        quotient = abs(left) // abs(right)
        if (left < 0) != (right < 0):
            quotient = -quotient
        value = quotient if operator == "/" else left - quotient * right
    elif operator == "**":
        if not 0 <= right <= 63:
            raise NotComputable
        value = left**right
    elif operator in ("<<", ">>"):
        if not 0 <= right <= 63:
            raise NotComputable
        value = left << right if operator == "<<" else left >> right
    else:
        value = {
            "||": int(bool(left) or bool(right)),
            "&&": int(bool(left) and bool(right)),
            "|": left | right,
            "^": left ^ right,
            "&": left & right,
            "==": int(left == right),
            "!=": int(left != right),
            "<=": int(left <= right),
            ">=": int(left >= right),
            "<": int(left < right),
            ">": int(left > right),
            "+": left + right,
            "-": left - right,
            "*": left * right,
        }[operator]
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
