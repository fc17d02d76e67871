"""One rank tokenizes while the others wait for it in the first barrier."""

from __future__ import annotations

import re
import time
from pathlib import Path

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Apart, Change, Scenario, Waits
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="late-tokenizing",
    causes=("slow-preprocessing",),
    title=say("one rank tokenizes the data set while the others wait"),
    about=say(
        "Rank 0 tokenizes the whole data set under “main process first”; the other ranks wait in a "
        "barrier, and the work takes longer than the group's time-out."
    ),
    module="late_tokenizing",
    changes=(
        Change("longer-timeout", say("a time-out of the process group that covers the work")),
        Change("tokenize-beforehand", say("tokenize before the job, in a process of its own")),
        Change("share-the-work", say("every rank tokenizes its own part")),
    ),
    fingerprint=(
        Waits("rank 1", "barrier"),
        Waits("rank 0", "tokenize_function"),
        Apart("default_pg", (), "barrier"),
    ),
    steps=6,
    by=0,
    sizes={"seconds": 14.0},
    size_texts={"seconds": say("how long tokenizing takes, in seconds")},
)


def tokenize_function(text: str) -> list[int]:
    """Byte-level pieces of a text."""
    return [len(piece) for piece in re.findall(r"\w+|[^\w\s]", text * 40)]


def prepare_dataset(lab: Lab, share: float) -> int:
    """Tokenize for as long as the data set takes; prints what Hugging Face's ``map`` prints."""
    total, begun, done = 200_000, time.monotonic(), 0
    seconds = lab.size("seconds") * share * (lab.settings.timeout / SCENARIO.timeout)
    text = Path(__file__).read_text(encoding="utf-8")
    say_line(f"Running tokenizer on dataset (num_proc=1):   0%|          | 0/{total}")
    while (spent := time.monotonic() - begun) < seconds:
        tokenize_function(text)
        done = int(total * spent / seconds)
    rate = total / max(seconds, 1e-3)
    say_line(
        f"Running tokenizer on dataset (num_proc=1): 100%|██████████| {total}/{total} "
        f"[00:{int(seconds):02d}<00:00, {rate:.2f} examples/s]"
    )
    return done


def main(lab: Lab) -> None:
    """Prepare the data, rank 0 first, then train."""
    lab.torch()
    timeout = lab.settings.timeout * (10 if lab.changed("longer-timeout") else 1)
    dist = lab.join(timeout)
    say_line(f"rank: {lab.rank}, world_size: {lab.world}")
    if lab.settings.fault and not lab.changed("tokenize-beforehand"):
        if lab.changed("share-the-work"):
            prepare_dataset(lab, 0.25 / lab.world)
        elif lab.rank == 0:
            prepare_dataset(lab, 1.0)
    dist.barrier()
    loop(lab, lambda _step: None)
