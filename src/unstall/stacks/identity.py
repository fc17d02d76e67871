"""Which program, and which of its processes, a stack belongs to."""

from __future__ import annotations

import re

import msgspec

from unstall.model.facts import ProcessStack
from unstall.stacks.classify import own_frames
from unstall.stacks.knowledge import role_signs
from unstall.stacks.rows import RoleSign, matches

_ENGINE = re.compile(r"EngineCore_(?:DP)?(\d{1,6})\b")
_PARTS = re.compile(r"_(DP|PP|TP|EP|PCP|DCP|CP|LP)(\d{1,6})(?=_|\b)")
_TITLED = re.compile(r"(?:VLLM|sglang)::\w+|EngineCore\w*|Worker_\w+|scheduler_\w+")
_RANK_FLAG = re.compile(r"--(?:node|local)[_-]rank\b|--rank[= ](\d{1,7})\b")
UNKNOWN = "unknown"


class ProcessIdentity(msgspec.Struct, frozen=True):
    """What a process is.

    Attributes:
        software: name in :mod:`unstall.programs`; ``unknown``.
        role: ``trainer``, ``rollout``, ``inference``, ``reward``, ``launcher``; ``unknown``.
        process: ``engine``, ``front end``, ``http server``, ``trainer``, ``worker``, ``driver``,
            ``coordinator``, ``launcher``, ``loader``, ``helper``; ``unknown``.
        engine_index: data-parallel number of an inference engine.
        rank: global rank, where a prefix, a heading or the command line gives it.
        parts: numbers within parallel groups that a process title gives: ``{"DP": 0, "TP": 1}``.
        source: by what it is known.
    """

    software: str = UNKNOWN
    role: str = UNKNOWN
    process: str = UNKNOWN
    engine_index: int | None = None
    rank: int | None = None
    parts: dict[str, int] = {}
    source: str = ""


def identify(stack: ProcessStack) -> ProcessIdentity:
    """What the process is, by its title, its frames and its threads."""
    command = (stack.command or "")[:4000]
    title = " ".join([*_TITLED.findall(command), *_TITLED.findall(stack.speaker.name or "")]) or (
        stack.speaker.name or ""
    )
    parts = {name: int(number) for name, number in _PARTS.findall(title)}
    engine = _ENGINE.search(title)
    index = int(engine[1]) if engine else parts.get("DP")
    rank = stack.speaker.rank
    if rank is None:
        flag = _RANK_FLAG.search(command)
        rank = int(flag[1]) if flag and flag[1] else None
    words = f"{command}\n{stack.speaker.name or ''}"
    for sign in role_signs():
        if _applies(sign, stack, words):
            return ProcessIdentity(
                sign.software,
                sign.role,
                sign.process,
                index if sign.role in ("inference", "rollout") else None,
                rank,
                parts,
                sign.source,
            )
    return ProcessIdentity(rank=rank, parts=parts)


def _applies(sign: RoleSign, stack: ProcessStack, words: str) -> bool:
    if sign.command and not any(word in words for word in sign.command):
        return False
    if sign.thread and not any(t.name.startswith(sign.thread) for t in stack.threads):
        return False
    if sign.functions:
        frames = own_frames(stack.threads[0]) if stack.threads else ()
        return any(matches(frame, sign.functions, sign.file) for frame in frames)
    return bool(sign.command or sign.thread)
