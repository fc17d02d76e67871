"""One rank saves a checkpoint while the others go on to the next step."""

from __future__ import annotations

import threading

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Apart, Change, Scenario, Waits
from unstall.experiments.scenarios._training import loop
from unstall.experiments.scenarios._work import write_shards
from unstall.model.text import say

SCENARIO = Scenario(
    name="late-saving",
    causes=("slow-checkpoint-or-eval",),
    title=say("one rank saves a checkpoint while the others wait"),
    about=say(
        "Rank 0 alone writes the checkpoint; the others wait for it in a barrier, and writing "
        "takes longer than the group's time-out."
    ),
    module="late_saving",
    cuda="asked",
    changes=(
        Change("longer-timeout", say("a time-out of the process group that covers saving")),
        Change("sharded-save", say("every rank writes its own part")),
        Change("asynchronous-save", say("a thread writes a copy while training goes on")),
    ),
    fingerprint=(
        Waits("trainer rank 1", "barrier"),
        Waits("trainer rank 0", "save_checkpoint"),
        Apart("default_pg", ((0, 0), (1, 0)), "barrier"),
    ),
    expect="failure",
    ranks=3,
    steps=6,
    by=3,
    gather=2.0,
    stall=40.0,
    timeout=6.0,
    sizes={"times": 1.6},
    size_texts={"times": say("how long the work takes, in time-outs of the group")},
)


def save_checkpoint(lab: Lab, step: int, seconds: float) -> None:
    """Write a checkpoint."""
    folder = lab.folder / f"checkpoint-{step}" / f"rank{lab.rank}"
    say_line(f"Saving model checkpoint to output/checkpoint-{step}")
    write_shards(folder, seconds)
    say_line(f"Model weights saved in output/checkpoint-{step}/model.safetensors")


def main(lab: Lab) -> None:
    """Train, and save after the third step."""
    lab.torch()
    dist = lab.join(lab.timeouts(10 if lab.changed("longer-timeout") else 1))
    seconds = lab.timeouts(lab.size("times")) if lab.settings.fault else 0.1
    threads: list[threading.Thread] = []

    def maybe_save(step: int) -> None:
        if step == lab.settings.steps:
            for thread in threads:
                thread.join()
        if step != 3:
            return
        if lab.changed("sharded-save"):
            save_checkpoint(lab, step, seconds / 4 / lab.world)
        elif lab.rank == 0 and lab.changed("asynchronous-save"):
            arguments = (lab, step, seconds / 4)
            threads.append(threading.Thread(target=save_checkpoint, args=arguments))
            threads[0].start()
        elif lab.rank == 0:
            save_checkpoint(lab, step, seconds)
        dist.barrier()

    loop(lab, maybe_save)
