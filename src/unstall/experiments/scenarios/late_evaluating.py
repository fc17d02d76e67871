"""One rank evaluates while the others go on to the next step."""

from __future__ import annotations

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Apart, Change, Scenario, Waits
from unstall.experiments.scenarios._training import loop, tiny_model
from unstall.experiments.scenarios._work import work
from unstall.model.text import say

SCENARIO = Scenario(
    name="late-evaluating",
    causes=("slow-checkpoint-or-eval",),
    title=say("one rank evaluates while the others wait"),
    about=say(
        "Rank 0 alone evaluates; the others wait in the barrier after it, and evaluation takes "
        "longer than the group's time-out."
    ),
    module="late_evaluating",
    cuda="asked",
    changes=(
        Change("longer-timeout", say("a time-out of the process group that covers evaluation")),
        Change("evaluate-on-every-rank", say("every rank evaluates its own part")),
    ),
    fingerprint=(
        Waits("trainer rank 1", "barrier"),
        Waits("trainer rank 0", "evaluate"),
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


def evaluate(seconds: float) -> None:
    """Run a model over the evaluation set."""
    import torch

    model = tiny_model(torch)
    say_line("***** Running Evaluation *****")
    say_line("  Num examples = 20000")
    say_line("  Batch size = 8")
    with torch.no_grad():
        work(seconds, lambda _number: model(torch.randn(64, 16)))
    say_line(f"{{'eval_loss': 0.5123, 'eval_runtime': {seconds:.4f}, 'epoch': 0.5}}")


def main(lab: Lab) -> None:
    """Train, and evaluate after the third step."""
    lab.torch()
    dist = lab.join(lab.timeouts(10 if lab.changed("longer-timeout") else 1))
    seconds = lab.timeouts(lab.size("times")) if lab.settings.fault else 0.1

    def maybe_evaluate(step: int) -> None:
        if step != 3:
            return
        if lab.changed("evaluate-on-every-rank"):
            evaluate(seconds / 4 / lab.world)
        elif lab.rank == 0:
            evaluate(seconds)
        dist.barrier()

    loop(lab, maybe_evaluate)
