"""Trains a small language model with FSDP2 on a corpus that is dealt to the ranks.

    torchrun --standalone --nproc-per-node 2 train.py --samples 321 --epochs 2

Sample ``i`` belongs to rank ``i % world``, as in many streamed data sets, and the last batch may
be smaller. Where the samples do not divide, some ranks have one more; where that one begins a
batch of its own, they have a batch more. Nothing else is wrong with it. It needs torch alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, IterableDataset

VOCABULARY = 96
LENGTH = 32


class Corpus(IterableDataset[Tensor]):
    """This rank's part of the samples: sequences that count on, each by a number of its own."""

    def __init__(self, samples: int, seed: int) -> None:
        self.samples = samples
        self.seed = seed

    def __iter__(self) -> Iterator[Tensor]:
        for index in range(dist.get_rank(), self.samples, dist.get_world_size()):
            draw = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
            first, by = torch.randint(1, VOCABULARY, (2,), generator=draw)
            yield (first + by * torch.arange(LENGTH + 1)) % VOCABULARY


class Block(nn.Module):
    """Attention and a feed-forward part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """One layer; ``mask`` is true where a token may not look."""
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        more: Tensor = self.mlp(self.norm2(x))
        return x + more


class Model(nn.Module):
    """A decoder of a few blocks."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss of predicting each token from those before it."""
        tokens, wanted = tokens[:, :-1], tokens[:, 1:]
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        for block in self.blocks:
            x = block(x, mask)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), wanted.flatten())


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--samples", type=int, default=321, help="of the whole corpus")
    parser.add_argument("--batch-size", type=int, default=8, help="of each rank")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="checkpoint.pt")
    parser.add_argument(
        "--drop-last", action="store_true", help="leave out the samples that do not divide"
    )
    parser.add_argument(
        "--agree", action="store_true", help="leave an epoch as soon as one rank has no batch"
    )
    return parser.parse_args()


def agreed(loader: DataLoader[Tensor], device: str) -> Iterator[Tensor]:
    """Batches, as long as every rank has one."""
    batches = iter(loader)
    while True:
        batch = next(batches, None)
        has_batch = torch.tensor(int(batch is not None), device=device)
        dist.all_reduce(has_batch, op=dist.ReduceOp.MIN)
        if batch is None or not has_batch.item():
            return
        yield batch


def train_epoch(
    args: argparse.Namespace,
    epoch: int,
    step: int,
    model: nn.Module,
    loader: DataLoader[Tensor],
    optimizer: torch.optim.Optimizer,
    device: str,
) -> tuple[int, float]:
    """One epoch; the number of the last step and the mean loss over all ranks."""
    total = torch.zeros(2, device=device)
    for batch in agreed(loader, device) if args.agree else loader:
        loss = model(batch.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += torch.stack([loss.detach(), torch.ones_like(loss)])
        step += 1
        if dist.get_rank() == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    return step, mean_loss(total)


def mean_loss(total: Tensor) -> float:
    """The mean loss over the batches of all ranks."""
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main() -> None:
    """Train, then write a checkpoint."""
    args = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.manual_seed(args.seed)

    samples = args.samples
    if args.drop_last:
        samples -= samples % (args.batch_size * dist.get_world_size())
    loader = DataLoader(Corpus(samples, args.seed), batch_size=args.batch_size)

    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model = Model().to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    step = 0
    for epoch in range(1, args.epochs + 1):
        step, loss = train_epoch(args, epoch, step, model, loader, optimizer, device)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} finished, mean loss {loss:.4f}", flush=True)

    save_checkpoint(model, optimizer, args.output)
    dist.destroy_process_group()


def save_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, path: str) -> None:
    """Gather the whole state and write it on rank 0 (``dcp.save`` would need numpy)."""
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, state = get_state_dict(model, optimizer, options=whole)
    if dist.get_rank() == 0:
        torch.save({"model": weights, "optimizer": state}, path)
        print(f"saved {path}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
    # Not through Python's shutdown: a thread of gloo that still drops a tensor then aborts the
    # process (once in some dozens of runs; pytorch issue 190489).
    sys.stdout.flush()
    os._exit(0)
