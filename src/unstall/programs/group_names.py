"""Names of process groups that are not counted: ``split_group`` and local synchronization.

Source: ``torch/distributed/distributed_c10d.py``, ``_hash_ranks_to_str`` (read in 2.13): the SHA-1
of the members and of the number of groups that the process had joined before.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache


def hashed_name(ranks: tuple[int, ...], joined: int) -> str:
    """The name of a group that is not counted (``_hash_ranks_to_str``).

    Args:
        ranks: its members, in order.
        joined: how many groups the process was a member of before, of any back end.
    """
    text = "_".join([*(str(rank) for rank in ranks), str(joined)])
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@lru_cache(maxsize=64)
def members_of_hash(guid: str, world: int) -> tuple[int, ...] | None:
    """The members of a group named by a hash, ``None`` if they are not found.

    Tries every evenly spaced list of up to ``world`` ranks (at most 64), made after at most 24
    other groups.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", guid):
        return None
    world = min(world, 64)
    for size in range(1, world + 1):
        widest = (world - 1) // (size - 1) if size > 1 else 1
        for stride in range(1, widest + 1):
            for first in range(world - stride * (size - 1)):
                ranks = tuple(range(first, first + stride * size, stride))
                if any(hashed_name(ranks, joined) == guid for joined in range(25)):
                    return ranks
    return None
