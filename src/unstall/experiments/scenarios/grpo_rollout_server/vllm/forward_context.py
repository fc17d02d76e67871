"""What engines agree on before each forward pass."""

from __future__ import annotations

from typing import Any


class DPMetadata:
    """Token counts over the data-parallel engines."""

    @staticmethod
    def num_tokens_across_dp(num_tokens: int, dp_size: int, dp_rank: int, group: Any) -> list[int]:
        """Every engine's token count of this step: one all-reduce of as many elements."""
        import torch
        import torch.distributed as dist

        counts = torch.zeros(dp_size, dtype=torch.int32)
        counts[dp_rank] = num_tokens
        dist.all_reduce(counts, group=group)
        return [int(count) for count in counts]
