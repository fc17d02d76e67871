"""Single values of a dump, of whatever type a file has there."""

from __future__ import annotations

import re
from typing import Any

from unstall.recorder.records import Entry, FrameTuple
from unstall.recorder.signatures import P2P_NAME

MAX_TEXT = 300
MAX_GROUPS = 4096
NUMBER_LIMIT = 1 << 62
#: Stands for a number that is not there.
ABSENT = -NUMBER_LIMIT
_KEPT_FRAMES = 48
_DIGITS = re.compile(r"-?[0-9]{1,18}\Z")


def text_of(value: Any) -> str:
    """A short text; numbers of later writers in digits, nothing for anything else."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    return str(value) if isinstance(value, (int, float)) and abs(value) < NUMBER_LIMIT else ""


def whole(value: Any, default: int = ABSENT) -> int:
    """An integer, also where JSON or another writer has it as digits."""
    if type(value) is int:
        return value if -NUMBER_LIMIT < value < NUMBER_LIMIT else default
    if isinstance(value, str) and _DIGITS.match(value):
        return int(value)
    return default


def created_of(entry: dict[str, Any]) -> int:
    """Nanoseconds since 1970; torch 2.2 wrote microseconds."""
    micro = whole(entry.get("time_created_us"), 0)
    return micro * 1000 if 0 < micro < 1 << 53 else whole(entry.get("time_created_ns"), 0)


def read_entry(
    entry: Any, number: int, groups: dict[tuple[str, str], int]
) -> Entry | None:  # fmt: skip
    """One entry in full, or ``None`` where it cannot be understood."""
    try:
        pair = entry.get("process_group") or (str(whole(entry.get("pg_id"), 0)), "")
        name, guid, desc = entry["profiling_name"], pair[0], pair[1]
        if not (type(name) is type(guid) is type(desc) is str):  # before anything is hashed
            return None
        op = name.rpartition(":")[2]
        p2p = entry.get("is_p2p")
        p2p = bool(P2P_NAME.match(op)) if p2p is None else bool(p2p)
        seq = whole(entry.get("p2p_seq_id" if p2p else "collective_seq_id", entry.get("seq_id")))
        return Entry(
            number,
            groups[(guid, desc)],
            seq,
            p2p,
            op[:MAX_TEXT],
            _sizes(entry.get("input_sizes")),
            _sizes(entry.get("output_sizes")),
            _names(entry.get("input_dtypes")),
            _names(entry.get("output_dtypes")),
            text_of(entry.get("state")),
            entry.get("state") == "completed"
            or bool(entry.get("retired"))
            or bool(entry.get("time_discovered_completed_ns")),
            created_of(entry),
            whole(entry.get("timeout_ms"), 0),
            _frames(entry.get("frames")),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None


def _sizes(sizes: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(n for n in size[:16] if type(n) is int and -NUMBER_LIMIT < n < NUMBER_LIMIT)
        for size in sizes[:16]
        if isinstance(size, (list, tuple))
    )


def _names(kinds: Any) -> tuple[str, ...]:
    if isinstance(kinds, str):
        return (kinds[:80],)
    return tuple(kind[:80] for kind in (kinds or ())[:16] if isinstance(kind, str))


def _frames(frames: Any) -> tuple[FrameTuple, ...]:
    if not isinstance(frames, list):
        return ()
    kept = []
    for frame in frames[:_KEPT_FRAMES]:
        if isinstance(frame, dict):
            line = whole(frame.get("line"), 0)
            kept.append((text_of(frame.get("name")), text_of(frame.get("filename")), line))
    return tuple(kept)


def members_of(text: str) -> tuple[int, ...]:
    """``"[0, 2, 4]"`` as numbers, in the group's own order."""
    return tuple(int(digits) for digits in re.findall(r"\d{1,9}", text))
