"""Shared memory of the container that a program runs in."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places
from unstall.model.plan import Judgement
from unstall.model.text import say

_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
ENOUGH = 1 << 30
_CORRECTIONS = {
    "kubernetes": "volumes: [{name: shm, emptyDir: {medium: Memory}}], mounted at /dev/shm",
    "compose": "shm_size: 16gb",
}
"""How each engine is asked for a larger one; docker by a flag."""


def judge(context: Context) -> Iterator[Judgement]:
    """A row for each program in a container."""
    for launch in context.launches:
        found = launch.container
        if found is None or found.get("verb") == "exec":
            continue
        size = found.get("shm-size")
        shared = found.get("ipc") in ("host", "mounted") or found.get("ipc", "").startswith(
            "container:"
        )
        amount = bytes_of(size) if size is not None else None
        names = ("docker", "kubernetes", "compose")
        place = next((o.place for o in launch.call.outer if o.name in names), launch.place)
        # each container has a /dev/shm of its own: only the ranks of one node share it
        ranks = launch.per_node if launch.per_node is not None else launch.processes
        several = ranks is None or ranks > 1
        if (
            shared
            or (amount is not None and amount >= ENOUGH)
            or (size is not None and amount is None)
        ):
            yield Judgement(
                "shared memory",
                {launch.label: size or f"ipc {found.get('ipc')}"},
                "ok",
                say("the container's /dev/shm is large enough for several ranks"),
                places(place),
                None,
                ("shm-too-small",),
            )
            continue
        yield Judgement(
            "shared memory",
            {launch.label: size or "64 MB (default)"},
            "conflict" if ranks is not None and _too_little(amount, ranks) else "suspicious",
            say(
                "the container's /dev/shm has {size}: NCCL's segments between {count} ranks and "
                "the "
                "workers of a DataLoader do not fit (no space left on device, bus error)",
                size=size or "64 MB",
                count=ranks if ranks is not None else say("several"),
            )
            if several
            else say(
                "the container's /dev/shm has {size}: the workers of a DataLoader may not fit (bus "
                "error)",
                size=size or "64 MB",
            ),
            places(place, launch.place),
            _CORRECTIONS.get(found.get("engine", "docker"), "--shm-size=16g"),
            ("shm-too-small",),
        )


def _too_little(amount: int | None, ranks: int) -> bool:
    """Less than 64 MB for each of several ranks: NCCL alone takes about half of that."""
    return ranks > 1 and (64 << 20 if amount is None else amount) < (64 << 20) * ranks


def bytes_of(text: str) -> int | None:
    """``16g``, ``512m``, ``1073741824`` as bytes; also Kubernetes' ``64Gi``."""
    lowered = text.strip().lower()
    for suffix in ("ib", "b", "i"):
        if (
            lowered.endswith(suffix)
            and len(lowered) > len(suffix)
            and not lowered[-len(suffix) - 1].isdigit()
        ):
            lowered = lowered[: -len(suffix)]
            break
    unit = 1
    if lowered and lowered[-1] in _UNITS:
        unit = _UNITS[lowered[-1]]
        lowered = lowered[:-1]
    try:
        return int(float(lowered) * unit)
    except (ValueError, OverflowError):
        return None
