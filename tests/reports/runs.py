"""Runs of experiments, as reports get them."""

from unstall.experiments.outcome import Run, Verdict
from unstall.model.text import verbatim


def hung(name, cause, operation):
    verdict = Verdict(
        cause=cause, confidence=0.9, summary=verbatim(f"a {cause}"), operation=operation,
        why=(verbatim("[rank 1] never came"),),
    )  # fmt: skip
    return Run(name=name, outcome="hung", step=7, seconds=3.0, folder="f", verdict=verdict)


def good(name):
    return Run(name=name, outcome="finished", step=20, seconds=3.0, folder="f")
