"""What the first lines of a text tell of all of it: numbering, task and host prefixes, its width.

``0: text`` can be task 0 under ``srun -l``, a viewer's line number or a program's own words.
Only a whole text can tell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

LOOKED_AT = 600  # lines

_A = re.ASCII
_STYLES = {
    "bracket": re.compile(r"\[(\d{1,9})\](?: |$)", _A),
    "colon": re.compile(r" {0,8}(\d{1,9}):(?:[ \[(]|$)", _A),
    "pipe": re.compile(r" {0,8}(\d{1,9}) ?\|", _A),
    "tab": re.compile(r" {0,8}(\d{1,9})\t", _A),
}
_TASK = re.compile(r" {0,6}(\d{1,5}):(?: |$)", _A)
_ROLE = re.compile(r"\[([A-Za-z_][A-Za-z_-]{0,40})\d{1,5}\]:", _A)
_HOST = re.compile(r"([A-Za-z0-9][\w.-]{0,62}):(?: |$)", _A)
_HOST_FORM = re.compile(r"[A-Za-z][\w.-]*\d[\w.-]*|\d{1,3}(?:\.\d{1,3}){3}|localhost", _A)
_CONTAINER = re.compile(r"([A-Za-z0-9][\w.-]{0,62}) {1,60}\|(?: |$)", _A)
_GREP = re.compile(r"[\w./+-]{1,200}?\.(?:log|out|err|txt)[:-]", _A)

#: Names that whoever joined several outputs put before the lines: ``[node1] ``, ``(A) ``,
#: ``server: ``, and the pod and its container as stern prints them.
LABELS = {
    "[": re.compile(r"\[([A-Za-z][\w./-]{0,62})\](?: |$)", _A),
    "(": re.compile(r"\(([A-Za-z][\w./-]{0,62})\)(?: |$)", _A),
    ":": re.compile(r"([A-Za-z][\w./-]{0,62}):(?: |$)", _A),
    " ": re.compile(
        r"([a-z0-9][a-z0-9.]{0,62}(?:-[a-z0-9.]{1,62}){1,8} [a-z][a-z0-9-]{0,62}) ", _A
    ),
}
#: What only a program's own line begins with: a name before it was put there by another.
OWN = re.compile(
    r"\[rank\d{1,6}\]: ?|\[default\d{1,5}\]:|Traceback \(most recent call last\):| {1,8}File \""
    r"|\((?:[^\s()]{1,80} )?pid=\d|\[?[EWIF]\d{3,4} \d\d:\d\d"
    r"|(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:|INFO:     ", _A
)  # fmt: skip
_NO_LABEL = re.compile(
    r"(?:info|warn|warning|err|error|debug|critical|fatal|trace|notice|note|[dewif])\Z"
    r"|.*(?:Error|Exception|Warning|\.py)\Z|raylet\Z|autoscaler\Z", re.IGNORECASE
)  # fmt: skip


class Profile(msgspec.Struct, frozen=True):
    """What holds for a whole text.

    Attributes:
        numbered: line number styles in use: ``bracket``, ``colon``, ``pipe``, ``tab``.
        tasks: lines begin with a Slurm task number.
        hosts: hosts that pdsh put before the lines.
        containers: containers that compose put before the lines.
        roles: torchrun roles in ``[role0]:`` besides its default.
        searched: the lines are a search's result, each with its file's name before it.
        labels: names that stand before most lines, in the form that :data:`LABELS` gives.
        labelled: that form, if any.
    """

    numbered: tuple[str, ...] = ()
    tasks: bool = False
    hosts: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    searched: bool = False
    labels: frozenset[str] = frozenset()
    labelled: str = ""


def profile(lines: Sequence[str]) -> Profile:
    """The profile of a text that begins with these lines (terminal colours removed)."""
    lines = [line for line in lines[:LOOKED_AT] if line.strip()]
    numbered = tuple(style for style in _STYLES if _is_numbered(lines, style))
    labelled, labels = _labels(lines)
    return Profile(
        numbered=numbered,
        tasks="colon" not in numbered and _has_tasks(lines),
        hosts=_names(lines, _HOST, _HOST_FORM, share=0.5),
        containers=_names(lines, _CONTAINER, None, share=0.6),
        roles=_names(lines, _ROLE, None, share=0.3),
        searched=_share(lines, _GREP) >= 0.8,
        labels=labels,
        labelled=labelled,
    )


def _is_numbered(lines: Sequence[str], style: str) -> bool:
    pattern = _STYLES[style]
    found = [(at, int(match[1])) for at, line in enumerate(lines) if (match := pattern.match(line))]
    if len(found) < 3:
        return False
    pairs = list(pairwise(found))
    rising = sum(one[1] < two[1] for one, two in pairs)
    even = sum(two[1] - one[1] == two[0] - one[0] for one, two in pairs)
    if style == "colon" and found[0][1] == 0:
        return False  # tasks count from 0, lines from 1
    if even >= 0.7 * len(pairs):
        return True
    span = found[-1][0] - found[0][0] + 1
    return len(found) >= 4 and rising == len(pairs) and len(found) >= 0.8 * span


def _has_tasks(lines: Sequence[str]) -> bool:
    found = [at for at, line in enumerate(lines) if _TASK.match(line)]
    if len(found) < 2:
        return False
    span = found[-1] - found[0] + 1
    needed = 0.6 if len(found) >= 4 else 1.0
    return len(found) >= needed * span and len(found) >= 0.3 * len(lines)


def _names(
    lines: Sequence[str], pattern: re.Pattern[str], form: re.Pattern[str] | None, share: float
) -> frozenset[str]:
    """Names that stand before at least this share of the lines; few names, each of them often."""
    counts: Counter[str] = Counter()
    for line in lines:
        match = pattern.match(line)
        if match is not None and (form is None or form.fullmatch(match[1])):
            counts[match[1]] += 1
    often = {name: count for name, count in counts.items() if count > 1}
    if sum(often.values()) < max(2.0, share * len(lines)):
        return frozenset()
    return frozenset(often)


def is_label(name: str) -> bool:
    """Whether a word before a line can be a name, and is no level and no exception."""
    return _NO_LABEL.match(name) is None


def _labels(lines: Sequence[str]) -> tuple[str, frozenset[str]]:
    """The names before most lines, where what follows shows that the programs did not say them."""
    for form, pattern in LABELS.items():
        counts: Counter[str] = Counter()
        sure = False
        for line in lines:
            match = pattern.match(line)
            if match is not None and is_label(match[1]):
                counts[match[1]] += 1
                sure = sure or OWN.match(line, match.end()) is not None
        often = {name: count for name, count in counts.items() if count > 1}
        if sure and len(often) <= 256 and sum(often.values()) >= max(3.0, 0.5 * len(lines)):
            return form, frozenset(often)
    return "", frozenset()


def _share(lines: Sequence[str], pattern: re.Pattern[str]) -> float:
    if len(lines) < 2:
        return 0.0
    return sum(pattern.match(line) is not None for line in lines) / len(lines)
