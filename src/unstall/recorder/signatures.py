"""What an operation's name and sizes mean: which of them all ranks must have in common."""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import Any

from unstall.recorder.records import Half, Meaning

# Point-to-point names: ``send 0->1`` and ``recv 1<-0``, ranks within the group.
P2P_NAME = re.compile(r"(send|recv)(?: (\d{1,7})(->|<-)(\d{1,7}))?\Z")

# Sizes every rank must share, by operation; ranks may differ in the others.
# Source: torch.distributed's documentation of each collective.
_SAME_BOTH = frozenset({
    "all_reduce", "allreduce", "allreduce_coalesced", "all_gather", "allgather", "_all_gather_base",
    "_allgather_base", "all_gather_single", "all_gather_into_tensor_coalesced",
    "allgather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_single", "reduce_scatter_tensor_coalesced", "broadcast", "_broadcast_oop",
    "reduce", "_reduce_oop", "barrier", "all_reduce_barrier", "allreduce_barrier",
})  # fmt: skip
_SAME_INPUT = frozenset({"gather"})
_SAME_OUTPUT = frozenset({"scatter"})
_EQUAL_SIDES = frozenset({"all_reduce", "allreduce", "allreduce_coalesced", "broadcast"})


class Signature:
    """One distinct kind of entry within a dump."""

    __slots__ = ("closes", "half", "hash", "meaning", "op", "own_rank", "p2p", "parts", "special")

    def __init__(self, op: str, inputs: Any, outputs: Any, types: tuple[Any, Any]) -> None:
        self.op = op
        self.closes = op == "coalesced" or op in ("ALLGATHER_coalesced", "REDUCE_SCATTER_coalesced")
        self.half: Half | None = None
        self.own_rank: int | None = None
        numels_in, numels_out = [[_numel(size) for size in sizes] for sizes in (inputs, outputs)]
        total_in, total_out = sum(numels_in), sum(numels_out)
        match = P2P_NAME.match(op)
        self.p2p = match is not None
        if match is not None and match[2] is not None:
            own, peer = int(match[2]), int(match[4])
            self.own_rank = own
            sends = match[1] == "send"
            self.half = Half(sends, peer, total_in if sends else total_out or total_in)
        self.parts = () if self.half is None else (self.half,)
        self.special = self.p2p or self.closes
        shared: list[Any] = [op]
        if op in _SAME_BOTH:
            shared += [numels_in, numels_out, types]
        elif op in _SAME_INPUT:
            shared += [numels_in, types[0]]
        elif op in _SAME_OUTPUT:
            shared += [numels_out, types[1]]
        if op in _EQUAL_SIDES and numels_in != numels_out and numels_in and numels_out:
            shared.append("sides differ")
        digest = blake2b(repr(shared).encode("utf-8", "replace"), digest_size=8).digest()
        self.hash = int.from_bytes(digest, "little") >> 1 or 1
        sides = [_shown(inputs), _shown(outputs)]
        kinds = [",".join(kind) if isinstance(kind, (list, tuple)) else str(kind) for kind in types]
        self.meaning = Meaning(
            op,
            min(total_in, 1 << 62),
            min(total_out, 1 << 62),
            sides[0] if sides[0] == sides[1] else f"{sides[0]} -> {sides[1]}",
            (kinds[0] if kinds[0] == kinds[1] else f"{kinds[0]} -> {kinds[1]}")[:80],
            "sizes" if op in _SAME_BOTH | _SAME_INPUT | _SAME_OUTPUT else "",
        )


def _numel(size: Any) -> int:
    """Elements of a tensor of that size; 0 for what is no size."""
    if not isinstance(size, (list, tuple)) or len(size) > 64:
        return 0
    if any(type(length) is not int or not 0 <= length < 1 << 62 for length in size):
        return 0
    return min(math.prod(size), 1 << 62)


def _odd(size: Any) -> bool:
    return len(size) > 64 or any(type(n) is not int or abs(n) >> 62 for n in size)


def _shown(sizes: Any) -> str:
    if any(not isinstance(size, (list, tuple)) or _odd(size) for size in sizes[:4]):
        return "?"
    text = ", ".join(str(list(size)) for size in sizes[:4])
    return (text + (f", … ({len(sizes)})" if len(sizes) > 4 else ""))[:160]


class Batch:
    """Stands for a coalesced batch where a signature is asked; built when its end is met."""

    __slots__ = ("closes", "hash", "meaning", "op", "p2p", "parts")

    def __init__(self, closer: Signature, members: list[Signature]) -> None:
        self.closes, self.op = True, closer.op
        self.p2p = any(member.p2p for member in members)
        self.parts = tuple(member.half for member in members if member.half is not None)
        shared = [closer.op, *(member.hash for member in members)]
        digest = blake2b(repr(shared).encode(), digest_size=8).digest()
        self.hash = 0 if self.p2p else int.from_bytes(digest, "little") >> 1 or 1
        names = ", ".join(f"{member.op} {member.meaning.shape}" for member in members[:3])
        more = f", … ({len(members)})" if len(members) > 3 else ""
        total_in = min(sum(member.meaning.numel_in for member in members), 1 << 62)
        total_out = min(sum(member.meaning.numel_out for member in members), 1 << 62)
        self.meaning = Meaning(closer.op, total_in, total_out, (names + more)[:160], "", "sizes")
