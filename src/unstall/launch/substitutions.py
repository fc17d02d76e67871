"""Output of the few harmless commands whose output follows from their input alone.

Nothing is run: each is re-implemented here for the options that launch scripts use; everything else
answers ``None`` and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

LONGEST = 65536
_FREE = (
    "getsockname",
    "free_port",
    "open_port",
    "free port",
    "unused_port",
    "freeport",
    "get_port",
)
_RANDOM = ("shuf", "$RANDOM", "${RANDOM", "random", "jot -r", "/dev/urandom")
_FRESH = ("date", "mktemp", "uuidgen", "python", "curl", "time")


def origin_of(command: str) -> str:
    """Where a command's unknown output comes from, see :class:`unstall.launch.strings.Unknown`."""
    if any(mark in command for mark in _FREE) or ("bind(" in command and "socket" in command):
        return "free-port"
    if any(mark in command for mark in _RANDOM):
        return "random"
    return "command"


def repeatable(command: str) -> bool:
    """Whether the command, run twice, can be taken to print the same."""
    return origin_of(command) == "command" and not any(mark in command for mark in _FRESH)


def output(words: Sequence[str], feed: str) -> str | None:
    """What a command prints, or ``None`` where that is not known here."""
    if not words:
        return ""
    name = words[0].rsplit("/", 1)[-1]
    action = _ACTIONS.get(name)
    if action is None:
        return None
    try:
        found = action(list(words[1:]), feed)
    except (ValueError, IndexError):
        return None
    return found[:LONGEST] if found is not None else None


def _lines(text: str) -> list[str]:
    return text.split("\n")[:-1] if text.endswith("\n") else (text.split("\n") if text else [])


def _echo(arguments: list[str], _feed: str) -> str:
    end = "\n"
    escapes = False
    while arguments and arguments[0] in ("-n", "-e", "-ne", "-en", "-E"):
        flag = arguments.pop(0)
        end = "" if "n" in flag else end
        escapes = escapes or "e" in flag
    text = " ".join(arguments)
    return (_escape(text) if escapes else text) + end


def _escape(text: str) -> str:
    found: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            found.append(
                {"n": "\n", "t": "\t", "\\": "\\", "r": "\r"}.get(text[at], "\\" + text[at])
            )
        else:
            found.append(text[at])
        at += 1
    return "".join(found)


def _printf(arguments: list[str], _feed: str) -> str | None:
    form, values = arguments[0], arguments[1:]
    found: list[str] = []
    for _ in range(1000):
        used = False
        at = 0
        form_text = _escape(form)
        while at < len(form_text):
            letter = form_text[at]
            if letter != "%":
                found.append(letter)
                at += 1
                continue
            end = at + 1
            while end < len(form_text) and form_text[end] in "0123456789-":
                end += 1
            kind = form_text[end : end + 1]
            width = form_text[at + 1 : end]
            at = end + 1
            if kind == "%":
                found.append("%")
                continue
            if kind not in ("s", "d"):
                return None
            value = values.pop(0) if values else ("" if kind == "s" else "0")
            used = True
            if kind == "d":
                value = str(int(value or "0"))
            size = int(width.strip("-") or "0")
            if size > 1000:
                return None
            if width.startswith("0") and kind == "d":
                found.append(value.zfill(size))
            else:
                found.append(value.ljust(size) if width.startswith("-") else value.rjust(size))
        if not values or not used:
            break
    return "".join(found)


def _seq(arguments: list[str], _feed: str) -> str | None:
    between = "\n"
    values: list[str] = []
    while arguments:
        item = arguments.pop(0)
        if item == "-s":
            between = arguments.pop(0)
        elif item.startswith("-s"):
            between = item[2:]
        elif item.startswith("--separator="):
            between = item.split("=", 1)[1]
        elif item in ("-w", "-f"):
            return None
        else:
            values.append(item)
    numbers = [int(v) for v in values]
    if len(numbers) == 1:
        first, step, last = 1, 1, numbers[0]
    elif len(numbers) == 2:
        first, step, last = numbers[0], 1, numbers[1]
    else:
        first, step, last = numbers
    if step == 0 or abs((last - first) // step) > 4096:
        return None
    found = range(first, last + (1 if step > 0 else -1), step)
    return between.join(map(str, found)) + "\n" if found else ""


def _ranges(text: str) -> Callable[[int], bool]:
    wanted: list[tuple[int, int]] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        wanted.append((int(low or "1"), int(high or "1000000") if dash else int(low)))
    return lambda n: any(low <= n <= high for low, high in wanted)


def _cut(arguments: list[str], feed: str) -> str | None:
    delimiter, chosen, letters = "\t", None, None
    while arguments:
        item = arguments.pop(0)
        if item in ("-d", "-f", "-c"):
            value = arguments.pop(0)
        elif item[:2] in ("-d", "-f", "-c"):
            item, value = item[:2], item[2:]
        elif item.startswith("--delimiter="):
            item, value = "-d", item.split("=", 1)[1]
        elif item.startswith("--fields="):
            item, value = "-f", item.split("=", 1)[1]
        else:
            return None
        if item == "-d":
            delimiter = value
        elif item == "-f":
            chosen = _ranges(value)
        else:
            letters = _ranges(value)
    found = []
    for line in _lines(feed):
        if letters is not None:
            found.append("".join(c for n, c in enumerate(line, 1) if letters(n)))
        elif chosen is None or len(delimiter) != 1:
            return None
        elif delimiter not in line:
            found.append(line)
        else:
            parts = line.split(delimiter)
            found.append(delimiter.join(p for n, p in enumerate(parts, 1) if chosen(n)))
    return "".join(f + "\n" for f in found)


def _tr(arguments: list[str], feed: str) -> str | None:
    if len(arguments) == 2 and arguments[0] == "-d":
        gone = _set(arguments[1])
        return "".join(c for c in feed if c not in gone)
    if len(arguments) == 2 and arguments[0] == "-s":
        squeezed = _set(arguments[1])
        found = [c for n, c in enumerate(feed) if not (n and c == feed[n - 1] and c in squeezed)]
        return "".join(found)
    if len(arguments) != 2 or arguments[0].startswith("-"):
        return None
    source, target = _set(arguments[0]), _set(arguments[1])
    if not target:
        return None
    table = {ord(c): target[min(n, len(target) - 1)] for n, c in reversed(list(enumerate(source)))}
    return feed.translate(table)


def _set(text: str) -> str:
    named = {"[:space:]": " \t\n\r\v\f", "[:blank:]": " \t", "[:digit:]": "0123456789"}
    named["[:lower:]"] = "abcdefghijklmnopqrstuvwxyz"
    named["[:upper:]"] = named["[:lower:]"].upper()
    if text in named:
        return named[text]
    text = _escape(text)
    found: list[str] = []
    at = 0
    while at < len(text):
        if at + 2 < len(text) and text[at + 1] == "-" and text[at] <= text[at + 2] < "\x7f":
            found.extend(chr(c) for c in range(ord(text[at]), ord(text[at + 2]) + 1))
            at += 3
        else:
            found.append(text[at])
            at += 1
    return "".join(found)


def _ends(arguments: list[str], feed: str, first: bool) -> str | None:
    count = 10
    while arguments:
        item = arguments.pop(0)
        if item == "-n":
            count = int(arguments.pop(0))
        elif item.startswith("-n"):
            count = int(item[2:])
        elif item[:1] == "-" and item[1:].isdigit():
            count = int(item[1:])
        elif item.startswith("--lines="):
            count = int(item.split("=", 1)[1])
        else:
            return None
    lines = _lines(feed)
    if count < 0:
        return None
    chosen = lines[:count] if first else lines[max(len(lines) - count, 0) :]
    return "".join(line + "\n" for line in chosen)


def _wc(arguments: list[str], feed: str) -> str | None:
    if arguments == ["-l"]:
        return f"{feed.count(chr(10))}\n"
    if arguments == ["-w"]:
        return f"{len(feed.split())}\n"
    if arguments == ["-c"]:
        return f"{len(feed.encode('utf-8', 'surrogatepass'))}\n"
    return None


def _awk(arguments: list[str], feed: str) -> str | None:
    separator: str | None = None
    while len(arguments) > 1 and arguments[0].startswith("-F"):
        item = arguments.pop(0)
        separator = item[2:] or arguments.pop(0)
    if len(arguments) != 1 or (separator is not None and len(separator) != 1):
        return None
    program = arguments[0].strip()
    if separator is not None and separator == " ":
        separator = None
    lines = _lines(feed)
    if not (program.startswith("{") and program.endswith("}")):
        return None
    inner = program[1:-1].strip().rstrip(";").strip()
    if inner == "print NF":
        return "".join(f"{len(line.split(separator))}\n" for line in lines)
    if not inner.startswith("print $"):
        return None
    which = inner[len("print $") :].strip()
    found = []
    for line in lines:
        parts = line.split(separator)
        if which == "NF":
            found.append(parts[-1] if parts else "")
        elif which == "0":
            found.append(line)
        else:
            number = int(which)
            found.append(parts[number - 1] if 0 < number <= len(parts) else "")
    return "".join(f + "\n" for f in found)


def _basename(arguments: list[str], _feed: str) -> str | None:
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        return None
    name = arguments[0].rstrip("/").rsplit("/", 1)[-1] or "/"
    if len(arguments) == 2 and name.endswith(arguments[1]) and name != arguments[1]:
        name = name[: len(name) - len(arguments[1])]
    return name + "\n"


def _dirname(arguments: list[str], _feed: str) -> str | None:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        return None
    head, slash, _ = arguments[0].rstrip("/").rpartition("/")
    return (head or ("/" if slash else ".")) + "\n"


def _sort(arguments: list[str], feed: str) -> str | None:
    lines = _lines(feed)
    if arguments in (["-n"], ["-nu"], ["-un"]):
        numbers = sorted(lines, key=int)
        return "".join(line + "\n" for line in numbers) if "u" not in arguments[0] else None
    return None


_ACTIONS: dict[str, Callable[[list[str], str], str | None]] = {
    "echo": _echo,
    "printf": _printf,
    "seq": _seq,
    "cut": _cut,
    "tr": _tr,
    "head": lambda a, f: _ends(a, f, True),
    "tail": lambda a, f: _ends(a, f, False),
    "wc": _wc,
    "awk": _awk,
    "basename": _basename,
    "dirname": _dirname,
    "sort": _sort,
    "cat": lambda a, f: f if not a or a == ["-"] else None,
    "paste": lambda a, f: (
        ",".join(_lines(f)) + "\n"
        if a in (["-sd,"], ["-sd,", "-"], ["-s", "-d,"], ["-sd", ","])
        else None
    ),
    "xargs": lambda a, f: " ".join(f.split()) + "\n" if not a else None,
    "true": lambda _a, _f: "",
    ":": lambda _a, _f: "",
}
