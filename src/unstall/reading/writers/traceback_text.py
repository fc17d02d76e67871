"""How the lines of Python tracebacks look, for the reader in ``python.py``."""

from __future__ import annotations

import re
from typing import NamedTuple

from unstall.model.facts import Frame
from unstall.reading.writers.stamps import glog_stamp, python_stamp

HEADER = re.compile(r"Traceback \(most recent call last\)")
ORIGINAL = re.compile(r"Original Traceback|Remote Traceback|RemoteTraceback")
BOX = re.compile(r"[─-]{2,4} ?Traceback \(most recent call last\)")
FRAME = re.compile(
    r"^[\s|+>]{0,40}File \"([^\"]{1,600})\", line (\d{1,8})(?:, in (.{0,300}))?\s*$", re.ASCII
)
BOX_FRAME = re.compile(r"^[│|] (\S{1,500}):(\d{1,8}) in (\S{1,200})\s*[│|]?$", re.ASCII)
CHAIN = re.compile(
    r"The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred"
)
IGNORED = re.compile(r"\s*Exception ignored in")
RAY = re.compile(r"\bray::([\w.:<>]{1,200})(?:\(\))? \(pid=(\d{1,9})(?:, ip=([\w.:]{1,64}))?")
SPAWN = re.compile(r"-- Process (\d{1,6}) terminated with the following error", re.ASCII)
BARE = re.compile(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit)\b[:(]?")

_FINAL = re.compile(r"([A-Za-z_][\w.]{0,200})(\([\w.]{1,200}\))?(?:: ?(.*))?", re.DOTALL)
_SURE = re.compile(r"(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Group)\Z")
_LOWER = {"timeout", "error", "herror", "gaierror"}
_MARKER = re.compile(r"[\^~ |]+")
_HEADS = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d[^\]]{0,40}\] "
    r"(?:[\w.]{1,120}: )?(?:\[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\] )?"
)
_FILE_HEAD = re.compile(r"\[[\w./-]{1,80}\.py:\d{1,6}\] ", re.ASCII)
"""What is left of a logger's header whose beginning was cut off."""
_CONTINUES = re.compile(
    r"CUDA kernel errors|For debugging consider|Compile with `|Search for `cuda|nccl[A-Z]\w{2,30}:"
    r"|Last error:|Device-side|If reserved memory|See documentation|Worker exit|The actor is dead"
    r"|The worker died|There are some potential|Parameter indices|Parameters which did not"
    r"|If you already have|In addition, you can|-- Process \d|Please |Try |Check "
    r"|[-*•] |\(\d\) |Command |Expected |Got |Missing key|Unexpected key|size mismatch"
)
_FOREIGN = re.compile(
    r"\[|\d{4}-|\d\d:\d\d|[IWEF]\d{4} |(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|[=*_#-]{6}"
    r"|Traceback |File \"|rc=\d|srun: |slurmstepd: |terminate called|Exception raised from|frame #"
)
_LAUNCHER_TYPES = {
    "ChildFailedError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SignalException",
}
_LAUNCHER_FILES = (
    "torch/distributed/run.py",
    "torch/distributed/launch.py",
    "torch/distributed/launcher/",
    "torch/distributed/elastic/agent/",
    "accelerate/commands/launch.py",
    "accelerate/commands/accelerate_cli.py",
    "deepspeed/launcher/",
    "/bin/torchrun",
    "/bin/accelerate",
    "/bin/deepspeed",
)


class Final(NamedTuple):
    """A traceback's last line.

    Attributes:
        type: exception class as written.
        told: rest of the line.
        sure: whether the class's name says by itself that it is an exception.
    """

    type: str
    told: str
    sure: bool


def without_headers(text: str) -> str:
    """The line without a logger's header at its start; the indentation behind it is kept."""
    head = text[:400]
    if head[:1] in "DIWEFC":
        for stamp in (python_stamp(head), glog_stamp(head)):
            if stamp is not None and not stamp.before.strip():
                return text[len(head) - len(stamp.message) :]
    if head[:1] == "[" and (found := _HEADS.match(head) or _FILE_HEAD.match(head)) is not None:
        return text[found.end() :]
    return text


def indent_of(text: str) -> int:
    """Columns before the first character, an exception group's bars included."""
    return len(text) - len(text.lstrip(" \t|+"))


def body_of(text: str) -> str:
    """The line without indentation and without an exception group's bar."""
    body = text.strip()
    return body[2:].strip() if body.startswith("| ") else body


def is_marker(body: str) -> bool:
    """Whether a line holds only the ``^^^^`` and ``~~~~`` of Python 3.11 and later."""
    return ("^" in body or "~" in body) and _MARKER.fullmatch(body) is not None


def final_line(body: str, *, trusting: bool) -> Final | None:
    """A stripped line read as a traceback's last line.

    Args:
        body: the line.
        trusting: whether its place says that it is one, so that any class name will do.
    """
    found = _FINAL.fullmatch(body)
    if found is None:
        return None
    name = found[1]
    last = name.rpartition(".")[2]
    dotted = "." in name
    sure = (_SURE.search(last) is not None and last[0].isupper()) or (dotted and last in _LOWER)
    if not sure and not (trusting and last[:1].isupper() and not last.isupper()):
        return None
    if not sure and found[3] is None and not dotted and not trusting:
        return None
    return Final(name + (found[2] or ""), (found[3] or "").strip(), sure)


def goes_on(message: list[str], body: str, indent: int) -> bool:
    """Whether a line directly behind a message's last line still belongs to it."""
    if len(message) > 40:
        return False
    if _CONTINUES.match(body) is not None:
        return True
    if _FOREIGN.match(body) is not None or "%|" in body:
        return False
    if indent > 0:
        return True
    return bool(message) and message[-1].rstrip()[-1:] in (":", ",", "(", "\\")


def from_launcher(kind: str, frames: tuple[Frame, ...]) -> bool:
    """Whether a launcher raised it: its workers' end is what it reports."""
    if kind.rpartition(".")[2] in _LAUNCHER_TYPES:
        return True
    return any(part in frame.file for frame in frames[:8] for part in _LAUNCHER_FILES)
