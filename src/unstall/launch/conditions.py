"""``[ … ]``, ``[[ … ]]`` and ``(( … ))``: true, false, or not decidable before the run."""

from __future__ import annotations

from unstall.launch import arithmetic, patterns, words
from unstall.launch.brackets import closing
from unstall.launch.strings import Pieces, Unknown, known, token

_LONGEST = 2000


def decide(written: str, scope: words.Scope) -> bool | None:
    """The condition's value; ``None`` where it depends on what only the run knows."""
    text = written.strip()
    if len(text) > _LONGEST:
        return None
    if text.startswith("((") and text.endswith("))"):
        value = known(scope.arithmetic(text[2:-2], text))
        return None if value is None else value not in ("0", "")
    double = text.startswith("[[")
    if double and text.endswith("]]"):
        inner = text[2:-2]
    elif text.startswith("[") and text.endswith("]"):
        inner = text[1:-1]
    else:
        return None
    return _Reader(_split(inner), scope, double).whole()


def decide_words(items: list[Pieces], scope: words.Scope) -> bool | None:
    """The same for the ``test`` command, whose words were expanded already."""
    reader = _Reader([], scope, False)
    return reader.expanded(items)


def _split(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    current = ""
    while at < len(text):
        letter = text[at]
        if letter in " \t\n":
            if current:
                found.append(current)
            current = ""
            at += 1
            continue
        if letter == "\\" and at + 1 < len(text):
            current += text[at : at + 2]
            at += 2
            continue
        if letter in "'\"":
            end = at + 1
            while end < len(text) and text[end] != letter:
                end += 2 if text[end] == "\\" and letter == '"' else 1
            current += text[at : end + 1]
            at = end + 1
            continue
        if letter == "$" and text[at + 1 : at + 2] in ("(", "{"):
            end = closing(text, at + 1)
            current += text[at : end + 1]
            at = end + 1
            continue
        current += letter
        at += 1
    if current:
        found.append(current)
    return found


class _Reader:
    def __init__(self, items: list[str], scope: words.Scope, double: bool) -> None:
        self.items = items
        self.scope = scope
        self.double = double
        self.at = 0
        self.depth = 0

    def whole(self) -> bool | None:
        value = self.either()
        return value if self.at >= len(self.items) else None

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def either(self) -> bool | None:
        left = self.both()
        while self.peek() in ("||", "-o"):
            self.at += 1
            right = self.both()
            if left is True or right is True:
                left = True
            elif left is None or right is None:
                left = None
            else:
                left = False
        return left

    def both(self) -> bool | None:
        left = self.single()
        while self.peek() in ("&&", "-a"):
            self.at += 1
            right = self.single()
            if left is False or right is False:
                left = False
            elif left is None or right is None:
                left = None
            else:
                left = True
        return left

    def single(self) -> bool | None:
        self.depth += 1
        if self.depth > 50:
            self.at = len(self.items) + 1
            return None
        try:
            item = self.peek()
            if item == "!":
                self.at += 1
                inner = self.single()
                return None if inner is None else not inner
            if item == "(":
                self.at += 1
                inner = self.either()
                if self.peek() != ")":
                    return None
                self.at += 1
                return inner
            stop = self.at
            while stop < len(self.items) and self.items[stop] not in ("&&", "||", "-a", "-o", ")"):
                stop += 1
            group = self.items[self.at : stop]
            self.at = stop
            return self.test(group)
        finally:
            self.depth -= 1

    def test(self, group: list[str]) -> bool | None:
        if not group:
            return False
        if group[0] == "-v" and len(group) == 2:
            return True if self.scope.look(group[1]) is not None else None
        if group[0] in ("-n", "-z") and len(group) == 2 and self.from_outside(group[1]):
            return None  # the script asks whether its caller has set it
        values: list[Pieces] = []
        raw: list[str] = []
        for item in group:
            if self.double:
                values.append(words.text(item, self.scope))
                raw.append(item)
            else:
                fields = words.fields(item, self.scope)
                values.extend(fields)
                raw.extend([item] * len(fields))
        return self.compare(values, raw)

    def from_outside(self, item: str) -> bool:
        """Whether an item is ``${NAME:-}`` of a variable that the script has not set."""
        text = item[1:-1] if item[:1] == item[-1:] == '"' else item
        if not text.startswith("${") or not text.endswith((":-}", "-}")):
            return False
        name = text[2 : -3 if text.endswith(":-}") else -2]
        if not name.isidentifier() or self.scope.look(name) is not None:
            return False
        return known(self.scope.outside(name)) is None  # not what the script unset

    def expanded(self, items: list[Pieces]) -> bool | None:
        if items and known(items[0]) == "!":
            inner = self.expanded(items[1:])
            return None if inner is None else not inner
        return self.compare(items, [known(i) or "" for i in items])

    def compare(self, values: list[Pieces], raw: list[str]) -> bool | None:
        if not values:
            return False
        if len(values) == 1:
            return _filled(values[0])
        if len(values) == 2:
            operator = known(values[0])
            if operator in ("-n", "-z"):
                filled = _filled(values[1])
                return filled if operator == "-n" or filled is None else not filled
            return None
        if len(values) != 3:
            return None
        operator = known(values[1]) or ""
        left, right = known(values[0]), known(values[2])
        if operator in ("=", "==", "!="):
            if left is None or right is None:
                if token(values[0]) == token(values[2]):
                    return operator != "!="
                return None
            if self.double and not (raw[2][:1] in "'\"" and raw[2][-1:] in "'\""):
                same = patterns.match(left, right)
            else:
                same = left == right
            return same if operator != "!=" else not same
        if left is None or right is None:
            return None
        if operator in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            try:
                first = arithmetic.compute(left, _nothing)
                second = arithmetic.compute(right, _nothing)
            except arithmetic.NotComputable:
                return None
            return {
                "-eq": first == second,
                "-ne": first != second,
                "-lt": first < second,
                "-le": first <= second,
                "-gt": first > second,
                "-ge": first >= second,
            }[operator]
        if operator in ("<", ">", "\\<", "\\>"):
            return left < right if "<" in operator else left > right
        return None


def _nothing(_name: str) -> int | None:
    return None


def _filled(pieces: Pieces) -> bool | None:
    text = known(pieces)
    if text is not None:
        return bool(text)
    if any(isinstance(p, str) and p for p in pieces):
        return True
    # A port asked of the system is never empty; anything else may be.
    unknowns = [p for p in pieces if isinstance(p, Unknown)]
    return True if any(u.origin in ("free-port", "random") for u in unknowns) else None
