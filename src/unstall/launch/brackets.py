"""Where brackets close in shell text, and brace expansion."""

from __future__ import annotations


def closing_tick(word: str, at: int) -> int:
    """Where the backtick that was opened before ``at`` closes."""
    while at < len(word) and word[at] != "`":
        at += 2 if word[at] == "\\" else 1
    return min(at, len(word))


def closing(word: str, at: int) -> int:
    """Where the bracket that opens at ``at`` closes; the end of the word if it does not."""
    pairs = {"(": ")", "{": "}"}
    stack = [pairs[word[at]]]
    at += 1
    quote = ""
    while at < len(word):
        letter = word[at]
        if letter == "\\" and quote != "'":
            at += 2
            continue
        if quote == "'":
            if letter == "'":
                quote = ""
        elif letter == '"':
            if stack and stack[-1] == '"':
                stack.pop()
            else:
                stack.append('"')
        elif letter == "'" and stack[-1] != '"':
            quote = "'"
        elif letter == "$" and word[at + 1 : at + 2] in ("(", "{"):
            stack.append(pairs[word[at + 1]])
            at += 1
        elif letter in "({" and stack[-1] == pairs[letter]:
            stack.append(pairs[letter])
        elif letter == stack[-1]:
            stack.pop()
            if not stack:
                return at
        at += 1
    return len(word)


def braces(word: str, limit: int = 256) -> list[str]:
    """Brace expansion: ``a{b,c}`` and ``{1..4}``; the word itself where there is none."""
    if "{" not in word or len(word) > 4096:
        return [word]
    found = _braces(word, 0)
    return found[:limit] if found else [word]


def _braces(word: str, depth: int) -> list[str]:
    at = 0
    quote = ""
    while at < len(word) and depth < 6:
        letter = word[at]
        if letter == "\\" and quote != "'":
            at += 2
            continue
        if quote:
            if letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter == "$" and word[at + 1 : at + 2] in ("{", "("):
            at = closing(word, at + 1)
        elif letter == "{":
            end = closing(word, at)
            if end >= len(word):
                return [word]
            options = _options(word[at + 1 : end])
            if options is not None:
                tails = _braces(word[end + 1 :], depth + 1)
                heads = [o for option in options for o in _braces(option, depth + 1)]
                return [word[:at] + h + t for h in heads[:256] for t in tails[:256]][:256]
        at += 1
    return [word]


def _options(inner: str) -> list[str] | None:
    parts: list[str] = []
    start = at = depth = 0
    quote = ""
    while at < len(inner):
        letter = inner[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(inner[start:at])
            start = at + 1
        at += 1
    if parts:
        return [*parts, inner[start:]]
    ends = inner.split("..")
    if len(ends) in (2, 3):
        try:
            first, last = int(ends[0]), int(ends[1])
            step = abs(int(ends[2])) if len(ends) == 3 else 1
        except ValueError:
            if (
                len(ends) == 2
                and len(ends[0]) == len(ends[1]) == 1
                and inner[0].isalpha()
                and inner[-1].isalpha()
            ):
                low, high = ord(ends[0]), ord(ends[1])
                order = range(low, high + 1) if low <= high else range(low, high - 1, -1)
                return [chr(c) for c in order][:256]
            return None
        step = step or 1
        width = (
            max(len(e.lstrip("-")) for e in ends[:2])
            if any(len(e.lstrip("-")) > 1 and e.lstrip("-")[0] == "0" for e in ends[:2])
            else 0
        )
        order = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        return [f"{n:0{width}d}" if width else str(n) for n in order[:256]]
    return None


def split_words(text: str) -> list[tuple[str, int]]:
    """A simple command's words with their offsets; redirections are left out, quotes stay."""
    found: list[tuple[str, int]] = []
    at = 0
    size = len(text)
    drop = False
    while at < size:
        letter = text[at]
        if letter in " \t\n":
            at += 1
            continue
        if text.startswith("\\\n", at):
            at += 2
            continue
        if letter == "#":
            end = text.find("\n", at)
            at = size if end < 0 else end
            continue
        start = at
        at = word_end(text, at)
        word = text[start:at].replace("\\\n", "")
        if (at < size and text[at] in "<>&|;") or at == start:
            # a redirection: its descriptor is no word, nor is what it names
            descriptor = word.isdigit() or word == ""
            operator = at
            while at < size and text[at] in "<>&|;":
                at += 1
            here = text[operator:at]
            if not descriptor and not drop:
                found.append((word, start))
            drop = "<" in here or ">" in here
            if at == operator:
                at += 1
            continue
        if not drop:
            found.append((word, start))
        drop = False
    return found


def word_end(text: str, at: int) -> int:
    """Where a word ends that begins at ``at``."""
    size = len(text)
    while at < size:
        letter = text[at]
        if letter == "\\":
            at += 2
        elif letter == "'":
            end = text.find("'", at + 1)
            at = size if end < 0 else end + 1
        elif letter == "$" and text[at + 1 : at + 2] == "'":
            at += 2
            while at < size and text[at] != "'":
                at += 2 if text[at] == "\\" else 1
            at += 1
        elif letter == '"':
            at = _quote_end(text, at + 1)
        elif (letter in "$<>" and text[at + 1 : at + 2] == "(") or text.startswith("${", at):
            at = closing(text, at + 1) + 1
        elif letter == "`":
            at = closing_tick(text, at + 1) + 1
        elif letter in " \t\n<>&|;":
            break
        else:
            at += 1
    return min(at, size)


def _quote_end(text: str, at: int) -> int:
    """Behind the double quote that closes the one before ``at``."""
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 2
        elif letter == '"':
            return at + 1
        elif letter == "$" and text[at + 1 : at + 2] in ("(", "{"):
            at = closing(text, at + 1) + 1
        elif letter == "`":
            at = closing_tick(text, at + 1) + 1
        else:
            at += 1
    return at


def test_end(text: str) -> int:
    """Where a ``[ … ]`` or ``[[ … ]]`` that begins the text ends; -1 where it does not."""
    mark = "]]" if text.startswith("[[") else "]"
    for word, offset in split_words(text[:4000].split("\n", 1)[0]):
        if word == mark:
            return offset + len(mark)
    return -1


_KEYWORDS = ("if", "elif", "while", "until", "then", "do", "else", "!")


def hide_tests(data: bytes) -> tuple[bytes, dict[int, int]]:
    """Every ``[ … ]`` at the place of a command as one word of the same length.

    The grammar sometimes takes the ``]`` of a later test for the end of an earlier one. Returns the
    text and, for each test, where it begins and ends.
    """
    found = bytearray(data)
    tests: dict[int, int] = {}
    base = 0
    for line in data.split(b"\n"):
        text = line.decode("latin-1")
        at = text.find("[")
        while at >= 0:
            before = text[:at].rstrip()
            opens = text[at : at + 2] in ("[ ", "[[")
            if opens and (not before or before[-1] in ";|&({" or before.split()[-1] in _KEYWORDS):
                end = test_end(text[at:])
                if end > 0:
                    tests[base + at] = base + at + end
                    found[base + at : base + at + end] = b"t" * end
                    at += end
            at = text.find("[", at + 1)
        base += len(line) + 1
    return bytes(found), tests
