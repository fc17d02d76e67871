"""What PyTorch's C++ lines say of groups and operations.

Source: ``ProcessGroupNCCL.cpp`` of PyTorch 1.13 to 2.15, ``logPrefix`` and ``WorkNCCL``'s output
operator. Forks for other accelerators (``WorkHCCL``, ``WorkXCCL``) print the same.
"""

from __future__ import annotations

import re

from unstall.model.facts import GroupTag, Work
from unstall.reading.writers.drafts import integer

_GROUP = re.compile(
    r"\[PG (?:ID )?(\d{1,9}) ?(?:PG GUID ([^\s()\[\]]{1,120}) ?)?"
    r"(?:\(([^\[\]]{0,200})\) ?)?Rank (\d{1,9})\\?\]",
    re.ASCII,
)
_TC = re.compile(
    r"\[TC\\?\](?:\[rank=(-?\d{1,9})\\?\])?(?:\[name=([^\[\]]{0,200})\\?\])?", re.ASCII
)
_RANK = re.compile(r"\[Rank (\d{1,9})\\?\]", re.ASCII)
_WORK = re.compile(
    r"Work([A-Z][A-Z0-9]{1,9})\((?:SeqNum ?= ?(\d{1,20}), ?)?OpType ?= ?([\w\\]{1,60})"
    r"(?:, ?TensorShape ?= ?\\?\[([\d, ]{0,200})\\?\])?"
    r"(?:, ?NumelIn ?= ?(\d{1,20}))?(?:, ?NumelOut ?= ?(\d{1,20}))?"
    r"(?:, ?Timeout\(ms\) ?= ?(\d{1,20}))?",
    re.ASCII,
)
_RETOLD = re.compile(r"Work([A-Z][A-Z0-9]{1,9})\(((?:[^()]|\(ms\)){0,400})\)", re.ASCII)
_FIELD = re.compile(
    r"(SeqNum|OpType|NumelIn|NumelOut|Timeout\(ms\)) ?= ?(\w{1,60})(?![\w.])", re.ASCII
)
_NO_COUNT = 2**63
"""Element counts from here on are a negative number printed as unsigned (COALESCED)."""


def group_tag(text: str) -> GroupTag:
    """The group that a text names first; all fields ``None`` where it names none."""
    found = _GROUP.search(text)
    if found is not None:
        pg_id, guid, description, rank = found.groups()
        return GroupTag(
            pg_id=int(pg_id),
            guid=guid,
            description=None if description in (None, "", "undefined") else description,
            rank=int(rank),
        )
    if (found := _TC.search(text)) is not None:
        # nccl2 names its communicators as torch names the groups: by the number of the call.
        return GroupTag(guid=found[2], rank=integer(found[1]))
    found = _RANK.search(text)
    return GroupTag(rank=int(found[1])) if found else GroupTag()


def work(text: str) -> tuple[Work, str, int] | None:
    """The first operation of a text, its back end (``nccl``, ``hccl`` …), and where it ends."""
    found = _WORK.search(text)
    if found is None or (found[2] is None and "SeqNum" in text[found.end() : found.end() + 80]):
        return _abridged(text)
    backend, seq, op, shape, numel_in, numel_out, timeout = found.groups()
    if found.end() == len(text) and found.end() == found.end(3):
        op = ""  # The line was cut here: maybe in the middle of the name.
    return (
        Work(
            op=op.replace("\\", ""),
            seq=integer(seq),
            numel_in=_count(numel_in),
            numel_out=_count(numel_out),
            shape=None if shape is None else tuple(int(n) for n in shape.split(",") if n.strip()),
            timeout_ms=integer(timeout),
        ),
        backend.lower(),
        found.end(),
    )


def _abridged(text: str) -> tuple[Work, str, int] | None:
    """An operation as people retell it: fields in another order, left out, or dots for them."""
    found = _RETOLD.search(text)
    if found is None:
        return None
    told: dict[str, str] = dict(_FIELD.findall(found[2]))
    if "OpType" not in told:
        return None
    return (
        Work(
            op=told["OpType"],
            seq=_number(told.get("SeqNum")),
            numel_in=_number(told.get("NumelIn")),
            numel_out=_number(told.get("NumelOut")),
            timeout_ms=_number(told.get("Timeout(ms)")),
        ),
        found[1].lower(),
        found.end(),
    )


def _number(word: str | None) -> int | None:
    return _count(word) if word is not None and word.isdecimal() and len(word) <= 20 else None


def symbol(frame: str) -> str:
    """The qualified name in a C++ frame: no arguments, offset or library; ``""`` for unknown."""
    name = frame.partition(" + 0x")[0].strip()
    if name.startswith(("+ 0x", "<unknown function>")):
        return ""
    depth = 0
    for place, letter in enumerate(name):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth <= 0:
            if name.startswith("(anonymous namespace)", place):
                continue
            if name.endswith("operator", 0, place) and name.startswith("()", place):
                continue
            if place:
                return name[:place].strip()
    return name


def _count(digits: str | None) -> int | None:
    if digits is None or int(digits) >= _NO_COUNT:
        return None
    return int(digits)
