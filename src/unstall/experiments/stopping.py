"""What is told and kept of a call that the user stopped (Ctrl-C, SIGTERM, a closed terminal)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unstall.experiments import statistics
from unstall.experiments.outcome import Run
from unstall.experiments.telling import Teller
from unstall.experiments.trials import Comparison, Tally
from unstall.model.text import Text, say

#: Exit status of a call that was stopped, as shells count Ctrl-C.
STOPPED = 130


def exit_code(found: Comparison) -> int:
    """0 confirmed, 2 nothing could run, 130 stopped by the user, 1 else."""
    return {"confirmed": 0, "not-run": 2, "stopped": STOPPED}.get(found.answer, 1)


def so_far(
    teller: Teller,
    folders: Sequence[Path],
    labels: tuple[Text, Text],
    alpha: float,
    before: Sequence[Run] = (),
) -> Comparison:
    """What A and B had shown when they were stopped; its answer is ``stopped``.

    Args:
        teller: has heard of all runs.
        folders: that hold the folders of runs, those of this change first.
        labels: what A is, and B.
        alpha: error that was allowed.
        before: runs of the changes that were tried before this one; of them A's are its as well.
    """
    teller.stopped([folder / teller.name for folder in folders])
    known = {id(run) for run in before}
    a = tuple(run for run in teller.ended if run.name.startswith("A"))
    b = tuple(run for run in teller.ended if run.name.startswith("B") and id(run) not in known)
    sides = Tally(label=labels[0], runs=a), Tally(label=labels[1], runs=b)
    bad = [len(side.bad) for side in sides]
    counted = [side.counted for side in sides]
    return Comparison(
        a=sides[0],
        b=sides[1],
        alpha=alpha,
        p=statistics.fisher(bad[0], counted[0], bad[1], counted[1]),
        p_steps=None,
        bound=statistics.upper_bound(bad[1], counted[1]),
        answer="stopped",
    )


def measured(found: Comparison) -> Text:
    """How much of a comparison had been measured when it was stopped."""
    if not found.a.counted and not found.b.counted:
        return say("Stopped by you before a run had ended: nothing was measured.")
    return say(
        "Stopped by you after {a} runs of A and {b} of B: nothing is proved by so many; what they "
        "showed stands above.",
        a=found.a.counted,
        b=found.b.counted,
    )
