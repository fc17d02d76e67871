"""What a run's log ends with: the lines to show of one that failed, and its errors to compare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from unstall.model.text import Text, say

#: Bytes of a log's end that are looked at.
TAIL = 64 << 10
#: Lines that are shown.
SHOWN = 8
_LONGEST = 300
_MOST_ERRORS = 8

#: A line's rank as torchrun (``[default0]:``) and PyTorch (``[rank0]:``) write it.
_PREFIX = re.compile(r"\[(?:rank|default)?\d{1,6}\]:? ?", re.ASCII)
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{0,80}(?:Error|Exception|Interrupt|Exit)(?::|\Z)",
    re.ASCII,
)
#: A shell's, argparse's and the kernel's errors.
_OTHER = re.compile(
    r"command not found\Z|No such file or directory\Z|Permission denied\Z|: error: |"
    r"\A(?:Killed|Aborted|Segmentation fault|Bus error)\b",
    re.ASCII,
)
#: torchrun's own error, raised because a program of its had failed.
_MESSENGER = "ChildFailedError"
_TRACEBACK = "Traceback (most recent call last)"
#: Said by Python of what is raised while it ends; it ends well all the same.
_IGNORED = "Exception ignored"
_VARYING = re.compile(r"unstall-[AB]-|0x[0-9a-f]{1,16}|\d{1,40}", re.ASCII)


def tail(path: Path) -> list[str]:
    """The last lines of a log, whole ones without what a terminal would hide."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            data = file.read(TAIL)
    except OSError:
        return []
    lines = data.decode("utf-8", "replace").split("\n")
    if size > TAIL:
        lines = lines[1:]
    # a bar that returns the carriage has written over what stood there
    shown = (line.rstrip("\r").rpartition("\r")[2].rstrip()[:_LONGEST] for line in lines)
    return [line for line in shown if line]


def of(logs: Iterable[Path]) -> list[str]:
    """The end of the log that tells an error, of the last one written if there are several."""
    tails = [(path.stat().st_mtime, tail(path)) for path in logs if path.exists()]
    ranked = sorted(tails, key=lambda one: (ends_badly(one[1]), bool(errors(one[1])), one[0]))
    return ranked[-1][1] if ranked else []


def _bare(line: str) -> str:
    found = _PREFIX.match(line)
    return (line[found.end() :] if found is not None else line).strip()


def _is_error(line: str) -> bool:
    bare = _bare(line)
    return (
        _EXCEPTION.match(bare) is not None or _OTHER.search(bare) is not None
    ) and _MESSENGER not in bare.partition(":")[0]


def errors(lines: Iterable[str]) -> tuple[str, ...]:
    """The different errors in these lines, the last one last, without what differs by chance."""
    found = [_VARYING.sub("0", _bare(line)) for line in lines if _is_error(line)]
    return tuple(reversed(list(dict.fromkeys(reversed(found)))[:_MOST_ERRORS]))


def shown(lines: list[str]) -> tuple[str, ...]:
    """The lines to show: the last error with what stands above it, and the end."""
    at = max((n for n, line in enumerate(lines) if _is_error(line)), default=None)
    if at is None or at >= len(lines) - SHOWN:
        return tuple(lines[-SHOWN:])
    return (*lines[max(0, at - 4) : at + 1], "…", *lines[-2:])


def ends_badly(lines: list[str]) -> bool:
    """Whether a log ends with an error, whatever the exit code: a pipe has that of its last part.

    torchrun's error is raised after nothing else; another one counts only as the last line, of a
    traceback: errors that a program has dealt with stand in good logs too.
    """
    last = lines[-60:]
    if any(_MESSENGER in line for line in last):
        return True
    begun = max((n for n, line in enumerate(lines) if _TRACEBACK in line), default=None)
    if begun is None or not _is_error(lines[-1]):
        return False
    return not any(_IGNORED in line for line in lines[max(0, begun - 1) : begun])


def same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two runs failed with the same error; ranks tell theirs in any order."""
    return bool(one and other) and (one[-1] == other[-1] or set(one) == set(other))


def advice(code: int, lines: Iterable[str], folder: str) -> Text:
    """What to look at where a script's program did not run.

    Args:
        code: the script's exit code.
        lines: the end of its log.
        folder: the one in which it ran.
    """
    text = "\n".join(lines)
    if code == 127 or "command not found" in text or "failed to run command" in text:
        return say(
            "a command was not found: is the environment (conda, venv, module) active in the shell "
            "in which unstall was called? In a script “conda activate” works only after its "
            "profile.d/conda.sh has been sourced"
        )
    if "ModuleNotFoundError" in text or "ImportError" in text:
        return say(
            "a Python module cannot be imported: is the environment (conda, venv, module) active "
            "in the shell in which unstall was called?"
        )
    if "No such file or directory" in text or "FileNotFoundError" in text:
        return say(
            "a file was not found: relative paths count from the folder in which unstall was "
            "called, {folder}",
            folder=folder,
        )
    if "error: " in text and ("arguments" in text or "argument" in text):
        return say("the program refused its arguments: see the lines above")
    return say(
        "see the lines above, and whether the script runs by hand in this shell: bash SCRIPT, in "
        "the folder {folder}",
        folder=folder,
    )
