"""The policy: a transformer of one layer, its vocabulary and its task.

A prompt is an image of one of eight colours, as a token; the task is to answer with the colour's
own token and to stop.
"""

from __future__ import annotations

from typing import Any

VOCABULARY = 24
PAD, START, END = 0, 1, 2
COLOURS = 8
FIRST_COLOUR = 3  # tokens 3..10 stand for images, 11..18 answer them
FIRST_ANSWER = FIRST_COLOUR + COLOURS
LONGEST = 160
WIDTH = 24


def build(torch: Any) -> Any:
    """A causal transformer with :data:`VOCABULARY` outputs."""
    nn = torch.nn
    functional = nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)
            self.up = nn.Linear(WIDTH, 2 * WIDTH)
            self.down = nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norm(x)).unsqueeze(1).chunk(3, dim=-1)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
            x = x + self.out(seen)
            return x + self.down(functional.relu(self.up(x)))

    class Policy(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.places = nn.Embedding(LONGEST + 4, WIDTH)
            self.block = Block()
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids: Any) -> Any:
            places = torch.arange(ids.shape[1])
            return self.head(self.block(self.tokens(ids) + self.places(places)))

    torch.manual_seed(1)
    return Policy()


def reward(colour: int, completion: list[int], longest: int) -> float:
    """1 for the image's own token and nothing more, less for what follows it, else 0."""
    if not completion or completion[0] != FIRST_ANSWER + colour:
        return 0.0
    more = sum(token != END for token in completion[1:])
    return 1.0 - 0.8 * more / max(longest - 1, 1)
