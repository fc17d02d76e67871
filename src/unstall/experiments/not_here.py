"""Causes that no scenario produces, and why not."""

from __future__ import annotations

from unstall.model.text import Text, say

_GPU = say("it happens on a GPU, and scenarios run on the CPU")

#: Why there is no scenario of a cause; a cause that stands neither here nor in one is a mistake.
WHY: dict[str, Text] = {
    "cuda-oom": _GPU,
    "device-assert": _GPU,
    "device-overlap": _GPU,
    "graph-capture-race": _GPU,
    "illegal-memory-access": _GPU,
    "fabric-manager": say("it needs a machine with NVSwitch whose fabric manager does not run"),
    "gpu-hardware": say("it needs a GPU, memory or link that is broken"),
    "peer-to-peer-blocked": say("it needs GPUs between which P2P is blocked"),
    "network-transport": say("it needs several nodes and a network between them that fails"),
    "library-mismatch": say(
        "it is in what is installed: driver, CUDA, NCCL and torch that do not fit together"
    ),
}


def not_here(cause: str) -> Text | None:
    """Why a cause cannot be reproduced here and what to do instead; ``None`` if it is none."""
    why = WHY.get(cause)
    if why is None:
        return None
    return say(
        "{cause} is a cause of which nothing can be reproduced here: {why}. How it shows and what "
        "fixes it: unstall explain {cause}. A fix can be tried where it happens: unstall confirm "
        "--script launch.sh --set PROGRAM.FLAG=VALUE (or --env NAME=VALUE)",
        cause=cause,
        why=why,
    )
