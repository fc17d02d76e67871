"""One rank tokenizes while the others wait for it in the first barrier."""

from __future__ import annotations

import re
from pathlib import Path

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Apart, Change, Scenario, Waits
from unstall.experiments.scenarios._training import loop
from unstall.experiments.scenarios._work import work
from unstall.model.text import say

SCENARIO = Scenario(
    name="late-tokenizing",
    causes=("slow-preprocessing",),
    title=say("one rank tokenizes the data set while the others wait"),
    about=say(
        "Rank 0 tokenizes the whole data set under “main process first”; the other ranks wait "
        "in a barrier, and the work takes longer than the group's time-out."
    ),
    module="late_tokenizing",
    cuda="asked",
    changes=(
        Change("longer-timeout", say("a time-out of the process group that covers the work")),
        Change("tokenize-beforehand", say("tokenize before the job, not in it")),
        Change("share-the-work", say("every rank tokenizes its own part")),
    ),
    fingerprint=(
        Waits("trainer rank 1", "barrier"),
        Waits("trainer rank 0", "tokenize_function"),
        Apart("default_pg", ((0, 0), (1, 0)), "barrier"),
    ),
    expect="failure",
    ranks=3,
    steps=6,
    by=0,
    gather=2.0,
    stall=40.0,
    timeout=6.0,
    sizes={"times": 1.6},
    size_texts={"times": say("how long the work takes, in time-outs of the group")},
)
TOTAL = 200_000


def tokenize_function(text: str) -> list[int]:
    """Lengths of a text's words and signs."""
    return [len(piece) for piece in re.findall(r"\w+|[^\w\s]", text)]


def prepare_dataset(seconds: float) -> None:
    """Tokenize for as long as the data set takes; prints what Hugging Face's ``map`` prints."""
    text = Path(__file__).read_text(encoding="utf-8")
    label = "Running tokenizer on dataset (num_proc=1)"
    say_line(f"{label}:   0%|          | 0/{TOTAL} [00:00<?, ? examples/s]")
    work(seconds, lambda _number: tokenize_function(text))
    rate = TOTAL / max(seconds, 1e-3)
    say_line(
        f"{label}: 100%|██████████| {TOTAL}/{TOTAL} [00:{int(seconds):02d}<00:00, "
        f"{rate:.2f} examples/s]"
    )


def main(lab: Lab) -> None:
    """Prepare the data, rank 0 first, then train."""
    lab.torch()
    dist = lab.join(lab.timeouts(10 if lab.changed("longer-timeout") else 1))
    say_line(f"rank: {lab.rank}, local_rank: {lab.rank}, world_size: {lab.world}")
    seconds = lab.timeouts(lab.size("times"))
    if lab.settings.fault and not lab.changed("tokenize-beforehand"):
        if lab.changed("share-the-work"):
            prepare_dataset(seconds / 4 / lab.world)
        elif lab.rank == 0:
            prepare_dataset(seconds)
    dist.barrier()
    loop(lab, lambda _step: None)
