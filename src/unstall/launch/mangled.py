"""Scripts that were damaged on their way through a paste, read as they were meant.

Three damages are common in issue trackers: a trailing backslash is lost, so that a command falls
apart into lines that begin with ``--flag``; a comment loses its sign, so that prose stands between
the commands; Windows line ends. Each is repaired line by line (line numbers stay what they were)
and
reported, since the literal reading of a script without its backslashes is a different one.
"""

from __future__ import annotations

import msgspec

from unstall.launch.brackets import closing
from unstall.launch.prose import is_prose

MOST_LINES = 20000


class Repaired(msgspec.Struct, frozen=True):
    """A script as it was meant.

    Attributes:
        text: one line for each line of the original.
        joined: lines (from 0) to which a lost continuation was given back.
        assignments: those of them that are assignments standing before a command.
        prose: lines that were taken for comments.
        carriage_returns: the line ends were Windows'.
        ended: comments that end a command which was meant to go on below them.
    """

    text: str
    joined: tuple[int, ...] = ()
    assignments: tuple[int, ...] = ()
    prose: tuple[int, ...] = ()
    carriage_returns: bool = False
    ended: tuple[int, ...] = ()


def repair(text: str) -> Repaired:
    """Undo what a paste did. A script without damage comes back unchanged."""
    returns = "\r\n" in text
    lines = text.replace("\r\n", "\n").replace("\r", " ").split("\n")
    if len(lines) > MOST_LINES:
        return Repaired("\n".join(lines), carriage_returns=returns)
    functions = {
        line.split("(")[0].replace("function ", "").strip()
        for line in lines
        if line.rstrip().endswith(("{", "()")) and "(" in line
    }
    starts, prose = _command_starts(lines, functions)
    joined = _lost_continuations(lines, starts)
    assignments: list[int] = []
    if joined:
        assignments = _lost_before(lines, starts, joined, prose)
    for at in prose:
        lines[at] = "#" + lines[at]
    last = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].strip()), 0)
    if lines[last].endswith("\\") and not lines[last].endswith("\\\\"):
        lines[last] = lines[last][:-1]  # nothing goes on behind the end
    for at in (*joined, *assignments):
        lines[at] = lines[at].rstrip() + " \\"
    return Repaired(
        "\n".join(lines),
        tuple(joined),
        tuple(assignments),
        tuple(prose),
        carriage_returns=returns,
        ended=tuple(_ended(lines)),
    )


def _ended(lines: list[str]) -> list[int]:
    """Comments behind a backslash, with what looks like the rest of the command below them."""
    found: list[int] = []
    for at in range(1, len(lines) - 1):
        before = lines[at - 1]
        if not lines[at].lstrip().startswith("#") or before.lstrip().startswith("#"):
            continue
        if not before.endswith("\\") or before.endswith("\\\\"):
            continue
        below = at + 1
        while below < len(lines) and lines[below].lstrip().startswith("#"):
            below += 1
        rest = lines[below].strip() if below < len(lines) else ""
        if _is_flag(rest) or (rest and _is_override(rest.split()[0])):
            found.append(at)
    return found


def _command_starts(lines: list[str], functions: set[str]) -> tuple[list[bool], list[int]]:
    """Which lines begin a command (not inside a quotation or the like), and which are prose."""
    ignored: set[int] = set()
    for _ in range(6):
        starts, prose, open_at = _scan(lines, functions, ignored)
        if open_at is None:
            return starts, prose
        ignored.add(open_at)
    return starts, prose


def _scan(
    lines: list[str], functions: set[str], ignored: set[int]
) -> tuple[list[bool], list[int], int | None]:
    starts: list[bool] = []
    prose: list[int] = []
    ends: list[str] = []
    state = _State()
    for number, line in enumerate(lines):
        if ends:
            starts.append(False)
            if line.strip() == ends[0]:
                ends.pop(0)
            continue
        clean = state.clean and not state.continued
        starts.append(clean)
        if number in ignored:
            state = _State()
            continue
        if clean and is_prose(line, functions):
            prose.append(number)
            continue
        if state.clean:
            state.opened_at = number
        ends.extend(state.feed(line))
    return starts, prose, None if state.clean else state.opened_at


class _State:
    """What is open at the end of a line."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.continued = False
        self.opened_at = 0

    @property
    def clean(self) -> bool:
        return not self.stack

    def feed(self, line: str) -> list[str]:
        """Read a line; returns the ends of the here-documents that begin behind it."""
        documents: list[str] = []
        at = 0
        stack = self.stack
        self.continued = False
        while at < len(line):
            letter = line[at]
            top = stack[-1] if stack else ""
            if top == "'":
                end = line.find("'", at)
                if end < 0:
                    return documents
                stack.pop()
                at = end + 1
                continue
            if letter == "\\":
                if at == len(line.rstrip()) - 1:
                    self.continued = True
                    return documents
                at += 2
                continue
            if letter == '"':
                if top == '"':
                    stack.pop()
                else:
                    stack.append('"')
            elif top == '"':
                if letter == "$" and line[at + 1 : at + 2] == "(":
                    stack.append(")")
                    at += 1
            elif letter == "'":
                stack.append("'")
            elif letter == "#" and (at == 0 or line[at - 1] in " \t;("):
                return documents
            elif letter == "$" and line[at + 1 : at + 2] == "{":
                at = closing(line, at + 1)
            elif letter == "(" and (top == ")" or (at and line[at - 1] in "=$(<>")):
                stack.append(")")
            elif letter == ")" and top == ")":
                stack.pop()
            elif letter == "<" and line[at : at + 3] != "<<<" and line[at : at + 2] == "<<":
                word = line[at + 2 :].lstrip("-").strip()
                end_word = ""
                for mark in word:
                    if mark in " \t;|&)>":
                        break
                    end_word += mark
                end_word = end_word.replace("'", "").replace('"', "").replace("\\", "")
                if end_word and not stack and not end_word[0].isdigit():
                    documents.append(end_word)
                at += 1
            at += 1
        return documents


def _is_flag(line: str) -> bool:
    text = line.strip()
    if not text.startswith("-"):
        return False
    first = text.split()[0]
    if first.endswith(")") and "(" not in first:
        return False  # `--model)` is a branch of `case`
    name = text.lstrip("-")
    dashes = len(text) - len(name)
    return dashes <= 2 and name[:1].isalpha() and name[:1].isascii()


_STARTERS = ("torchrun", "accelerate", "deepspeed", "python", "python3", "srun", "mpirun")


def _goes_on(line: str, before: str, joined: bool) -> bool:
    """Whether a line without a flag goes on with the command of the line before.

    A launcher's script on a line of its own, or one of Hydra's ``group.key=value`` overrides.
    """
    words, earlier = line.split(), before.split()
    if not words or not earlier:
        return False
    first = words[0]
    if first.endswith(".py") and first.isascii():
        starter = earlier[0] in _STARTERS and not any(w.endswith(".py") for w in earlier)
        return starter or (joined and _is_flag(before))
    return _is_override(first) and (_is_override(earlier[0]) or "-m" in earlier)


def _is_override(word: str) -> bool:
    key, equals, _ = word.partition("=")
    return bool(equals) and "." in key and key.lstrip("+").replace(".", "_").isidentifier()


def _ends_open(line: str) -> bool:
    """Whether a command may go on behind this line."""
    text = line.rstrip()
    return (
        bool(text) and not text.endswith(("\\", "&", ";", "|", "{", "}", ")"))
    ) or text.endswith("&&")


def _lost_continuations(lines: list[str], starts: list[bool]) -> list[int]:
    """Lines behind which a backslash was lost: a flag stands alone on the next line."""
    joined: list[int] = []
    for at, line in enumerate(lines):
        if not starts[at] or at == 0:
            continue
        before = at - 1
        if not _is_flag(line) and not _goes_on(line, lines[before], before - 1 in joined):
            continue
        # blank lines between the parts are the paste's, too, where the parts go on
        if not lines[before].strip() and before - 1 in joined:
            continue
        text = lines[before].strip()
        if not text or text.startswith("#") or not _ends_open(text):
            continue
        if text.split(None, 1)[0] in ("then", "else", "do", "fi", "done", "esac"):
            continue
        joined.append(before)
    # values on lines of their own between flags: `--files` / `a.json` / `--x 1`
    return joined


def _lost_before(
    lines: list[str], starts: list[bool], joined: list[int], prose: list[int]
) -> list[int]:
    """Assignments on lines of their own directly before a command that was put together again."""
    found: list[int] = []
    gone = set(prose)
    for at in joined:
        if _is_flag(lines[at]):
            continue
        above = at - 1
        block: list[int] = []
        while above >= 0 and starts[above] and above not in gone and _is_assignment(lines[above]):
            block.append(above)
            above -= 1
        found.extend(block)
    return sorted(found)


def _is_assignment(line: str) -> bool:
    text = line.strip()
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not name.isascii() or name != name.upper():
        return False
    if value[:1] == "(":
        return False
    # one word only: `A=1 command` is a whole command of its own
    at = 0
    while at < len(value):
        if value[at] in "'\"":
            end = value.find(value[at], at + 1)
            if end < 0:
                return False
            at = end
        elif value[at] == "$" and value[at + 1 : at + 2] in ("(", "{"):
            at = closing(value, at + 1)
        elif value[at] in " \t;&|#":
            return False
        at += 1
    return True
