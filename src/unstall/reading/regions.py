"""What the parts of a pasted text are: launch scripts, configurations, prose, logs.

A pasted report holds all of them, often without any marks between them and with a script that lost
its backslashes and comment signs. A script region runs from its first to its last line that is
shell; what stands between stays, so that its lines keep their numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from unstall.model.facts import Place, Remark
from unstall.reading.parts import ConfigText, ScriptText
from unstall.reading.remarks import Tongue, remarks
from unstall.reading.shellwords import (
    PROMPT,
    TRACE,
    is_assignment,
    is_command,
    is_flag,
    is_launch,
    straight,
    without_prompt,
)
from unstall.reading.tidy import SPACES

_A = re.ASCII
_FENCE = re.compile(r"\s{0,8}(?:```|~~~)\s*([A-Za-z+-]{0,20})")
_SHELLS = ("bash", "sh", "shell", "zsh", "console", "shellsession", "shell-session")
_CONFIGS = {"json": "json", "jsonc": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml",
            "ini": "ini", "python": "python", "py": "python"}  # fmt: skip
_SHEBANG = re.compile(r"\s*#!\s*\S*/(?:env +)?\w*sh\b", _A)
_LOG = re.compile(
    r"""\[(?:rank|default)\d | \[[VIWEF](?:\d{3,4}\ \d|\ [\w.]+:\d) | ProcessGroup\w*\.cpp
    | ^Traceback\ \(most | ^\s+File\ " | ^\s*frame\ +\#\d | \d%\| | \bNCCL\ (?:INFO|WARN)\b
    | ^\s*(?:INFO|WARNING|ERROR|DEBUG|CRITICAL|FATAL)\b | ^\[?\d{4}[-/]\d\d[-/]\d\d[ T_]
    | ^\d\d/\d\d/\d{4}\  | ^\[[A-Z]+[\]:|] | ^\s*what\(\): | ^Exception\ raised\ from
    | \d(?:it/s|s/it)\b | ^terminate\ called | ^[VIWEF]\d{4}\ \d\d:\d\d | ^\{'\w+'\s?:
    | ^[\w.]+(?:Error|Exception|Warning)\b | ^\S+\.(?:py|cpp|cu|cc):\d | ^\(\S+\ pid=\d
    | ^\s{2,}[\w.<>]+\ \(\S+:\d+\)$ | ^Thread\ 0?x?[\da-f]+ | ^Process\ \d+: | ^slurmstepd
    | ^srun: | ^[\w-]+:\d+:\d+\ \[\d | ^\s*[{}\[\]]\s*,?$ | ^\|\s | ^\+[-=+]{4}
    """,
    re.VERBOSE | _A,
)
_PACKAGE = re.compile(
    r"\s*(?:[-*]\s+)?[A-Za-z][\w.\[\]-]{0,60}\s*(?:==|>=|~=|<=)\s*\d[\w.+!-]*", _A
)
_CALL = re.compile(r"(?:^|[^`])`([^`\n]{6,4000})`(?!`)")
_ANNOUNCED = re.compile(
    r"(?:run sh: |cmd = |[Cc]ommand(?: line)?(?: is)?\s?[:=]\s*"
    r"|命令(?:行)?(?:如下|为|是)?\s?[:：]\s*"
    r"|[Ll]aunch(?:ed|ing)?(?: with| by)?: |[Rr]unning: |[Ee]xecut(?:e|ing): )[`'\"]?(.{6,16000})"
)
_NOTE = re.compile(r"\s*#\s?-{2,}")
_HEADING = re.compile(r"#{1,3} \S")
_QUOTED = re.compile(r"\.(?:py|cpp|cc):\d+\]", _A)  # a title that is itself a line of a log
_CHINESE = re.compile("[\u4e00-\u9fff]")
_DEEPSPEED = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size",
              "gradient_clipping", "fp16", "bf16")  # fmt: skip
_YAML = re.compile(r"\s{0,12}(?:- )?[a-z][\w.-]{1,60}:(?: +[^\s].{0,300})?$", _A)
_YAML_KEYS = ("distributed_type:", "num_processes:", "model_name_or_path:", "deepspeed_config:",
              "compute_environment:", "tensor_parallel_size:", "fsdp_config:", "n_gpus_per_node:",
              "nproc_per_node:", "backoffLimit:", "apiVersion:")  # fmt: skip

_GAP = 6  # other lines between two commands of one script
_GAP_AFTER_SHEBANG = 15
_MOST = 200  # regions of one source
_OF_TITLES = frozenset({"stuck", "complaint", "ranks-apart", "slow-data"})
_BLOCK = 500  # lines of a configuration in a text

NOTED = (
    *("+ ", "`", "run sh: ", "cmd = ", "ommand", "命令", "aunch", "unning: ", "xecut"),
    *(f"#{space}--" for space in ("", *SPACES)),
)
"""Literals of which one stands in every line that is a note or, in a log, holds a command."""


class Regions(msgspec.Struct):
    """What stands in one text.

    Attributes:
        scripts: script regions, in order; commands in prose as scripts of one line.
        configs: configurations.
        remarks: people's notes about the run.
        tongue: what people wrote, by language.
    """

    scripts: list[ScriptText]
    configs: list[ConfigText]
    remarks: list[Remark]
    tongue: Tongue


class _Block(msgspec.Struct):
    """Lines ``first`` to before ``end``; ``label`` is the fence's, ``None`` outside fences."""

    first: int
    end: int
    label: str | None


def regions(name: str, lines: Sequence[str], first: int = 1) -> Regions:
    """The regions of a text.

    Args:
        name: its source.
        lines: its lines without prefixes and terminal escapes, one for each physical line.
        first: the number of the first of them.
    """
    found = Regions([], [], [], Tongue())
    kinds = _kinds(lines)
    for block in _blocks(lines):
        if block.label in _CONFIGS and len(found.configs) < _MOST:
            text = "\n".join(lines[block.first : block.end])
            place = Place(name, first + block.first)
            found.configs.append(ConfigText(place, text, _CONFIGS[block.label]))
            kinds[block.first : block.end] = ["config"] * (block.end - block.first)
            continue
        for start, end in _scripts(lines, kinds, block):
            if len(found.scripts) >= _MOST:
                break
            text = "\n".join(
                line if kind in ("prose", "comment") else straight(without_prompt(line))
                for line, kind in zip(lines[start:end], kinds[start:end], strict=True)
            )
            found.scripts.append(ScriptText(Place(name, first + start), text))
            for at in range(start, end):
                kinds[at] = "note" if kinds[at] in ("prose", "comment") else "script"
    _unfenced_configs(name, lines, kinds, first, found)
    for at, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
        if kind in ("prose", "comment", "note"):
            found.tongue.hear(line)
        if kind in ("prose", "log") and len(found.scripts) < _MOST:
            command = one_liner(line)
            if command is not None:
                place = Place(name, first + at)
                found.scripts.append(ScriptText(place, command, echo=is_echo(line)))
        if kind == "prose" or (kind == "comment" and _NOTE.match(line)):
            found.remarks.extend(note(name, first + at, line))
        elif kind == "comment" and _HEADING.match(line) and not _QUOTED.search(line):
            # a report's title tells how it ended, and nothing of the run that may be relied on
            found.remarks.extend(
                one for one in note(name, first + at, line) if one.topic in _OF_TITLES
            )
    found.scripts.sort(key=lambda script: script.place.line)
    return found


def note(name: str, number: int, line: str) -> list[Remark]:
    """The remarks in one line that a person wrote."""
    place = Place(name, number)
    return [
        Remark(place=place, quote=line[:600], topic=topic, values=values)
        for topic, values in remarks(line)
    ]


def is_note(line: str) -> bool:
    """Whether a line in a log is a person's note (``# --- no output for 3 h ---``)."""
    return line[:1] == "#" and _NOTE.match(line) is not None


def one_liner(line: str) -> str | None:
    """The launch command that a sentence or a log line holds, if it holds one."""
    if TRACE.match(line) or PROMPT.match(line):
        command = without_prompt(line)
        return command if is_launch(command) else None
    if "`" in line:
        for found in _CALL.finditer(line[:20_000]):
            command = without_prompt(found[1].strip())
            if is_launch(command):
                return command
    announced = _ANNOUNCED.search(line[:20_000])
    if announced is not None:
        command = announced[1].rstrip("`'\" ")
        if is_launch(command):
            return command
    return None


def is_echo(line: str) -> bool:
    """Whether a line with a launch command was printed by what ran it, not typed by a person."""
    return TRACE.match(line) is not None or _ANNOUNCED.search(line[:20_000]) is not None


def _kinds(lines: Sequence[str]) -> list[str]:
    """What each line is: ``blank``, ``launch``, ``shell``, ``flag``, ``log``, ``prose``, more."""
    kinds: list[str] = []
    after = ""
    for line in reversed(lines):
        short = straight(line[:20_000])
        kinds.append(_kind(short, after))
        if line.strip():
            after = short
    kinds.reverse()
    return kinds


def _kind(line: str, after: str) -> str:
    if not line.strip():
        return "blank"
    if _FENCE.match(line):
        return "fence"
    bare = without_prompt(line)
    if is_launch(bare, after):
        return "launch"
    if bare is not line and PROMPT.match(line):
        return "shell"
    if _PACKAGE.match(line):
        return "package"
    if is_command(bare):
        return "shell"
    if is_assignment(bare):
        return "assign"
    if is_flag(line):
        return "flag"
    if line.lstrip()[:1] == "#":
        return "comment"
    if _LOG.search(line[:2000]):
        return "log"
    if line.rstrip().endswith("\\") and not _CHINESE.search(line):
        return "flag"
    return "prose"


def _blocks(lines: Sequence[str]) -> list[_Block]:
    """The text cut at its fences."""
    blocks: list[_Block] = []
    start, label = 0, None
    for at, line in enumerate(lines):
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence is None:
            continue
        if at > start:
            blocks.append(_Block(start, at, label))
        opening = label is None
        label = fence[1].lower() if opening else None
        start = at + 1
    if len(lines) > start:
        blocks.append(_Block(start, len(lines), label))
    return blocks


def _scripts(lines: Sequence[str], kinds: list[str], block: _Block) -> list[tuple[int, int]]:
    """Script regions of a block, from their first to behind their last shell line."""
    found: list[tuple[int, int]] = []
    at = block.first
    while at < block.end:
        if kinds[at] not in ("launch", "shell", "assign"):
            at += 1
            continue
        start = last = at
        shebang = _SHEBANG.match(lines[at]) is not None
        gap = 0
        at += 1
        while at < block.end:
            kind = kinds[at]
            if kind in ("launch", "shell", "assign", "flag"):
                last, gap = at, 0
            elif kind == "log" and not _within_quotes(lines[at]):
                if not shebang or _log_follows(kinds, at, block.end):
                    break
            elif kind not in ("blank", "comment", "package"):
                gap += 1
                if gap > (_GAP_AFTER_SHEBANG if shebang else _GAP):
                    break
            at += 1
        at = last + 1
        if shebang or block.label in _SHELLS or _is_script(kinds[start : last + 1]):
            found.append((start, last + 1))
    return found


def _is_script(kinds: Sequence[str]) -> bool:
    """Whether such lines are a script: something is launched, or nearly all is shell.

    Assignments alone are a printed environment.
    """
    shell = sum(kind in ("launch", "shell", "assign", "flag") for kind in kinds)
    if "launch" in kinds:
        return True
    spoken = sum(kind in ("prose", "log", "package") for kind in kinds)
    strong = sum(kind in ("shell", "assign") for kind in kinds)
    return "shell" in kinds and strong >= 2 and shell >= 2 * spoken


def _log_follows(kinds: Sequence[str], at: int, end: int) -> bool:
    """Whether a log begins here, rather than one odd line of a script."""
    return sum(kind == "log" for kind in kinds[at : min(at + 4, end)]) >= 2


def _within_quotes(line: str) -> bool:
    return line.rstrip().endswith("\\")


def _unfenced_configs(
    name: str, lines: Sequence[str], kinds: list[str], first: int, found: Regions
) -> None:
    """JSON and YAML that stand in the text without a fence."""
    at = 0
    while at < len(lines) and len(found.configs) < _MOST:
        line = lines[at].strip()
        end = at
        kind = ""
        if kinds[at] not in ("config", "script") and line == "{":
            end, kind = _json_end(lines, at), "json"
        elif kinds[at] in ("prose", "log") and _YAML.match(lines[at]):
            end, kind = _yaml_end(lines, at), "yaml"
        if end <= at:
            at += 1
            continue
        text = "\n".join(lines[at:end])
        found.configs.append(ConfigText(Place(name, first + at), text, kind))
        kinds[at:end] = ["config"] * (end - at)
        at = end


def _json_end(lines: Sequence[str], at: int) -> int:
    """Behind the object that begins here, if it is a configuration; else ``at``."""
    depth = 0
    for end in range(at, min(len(lines), at + _BLOCK)):
        depth += lines[end].count("{") - lines[end].count("}")
        if depth <= 0:
            text = "\n".join(lines[at : end + 1])
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return at
            known = isinstance(value, dict) and any(key in value for key in _DEEPSPEED)
            return end + 1 if known else at
    return at


def _yaml_end(lines: Sequence[str], at: int) -> int:
    """Behind the mapping that begins here, if it is a configuration; else ``at``."""
    end = at
    while end < min(len(lines), at + _BLOCK) and _YAML.match(lines[end]):
        end += 1
    block = lines[at:end]
    known = any(key in line for line in block for key in _YAML_KEYS)
    return end if known and len(block) >= 4 else at
