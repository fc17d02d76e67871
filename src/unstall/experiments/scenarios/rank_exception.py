"""An exception on one rank, under torchrun."""

from __future__ import annotations

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, Ended, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._launcher import torchrun
from unstall.experiments.scenarios._training import loop
from unstall.model.text import say

SCENARIO = Scenario(
    name="rank-exception",
    causes=("python-exception",),
    title=say("an exception on one rank"),
    about=say(
        "One sample of rank 1 cannot be read. Its exception ends that rank; torchrun stops the "
        "others and calls it “first observed failure”."
    ),
    module="rank_exception",
    programs=(ProgramSpec("trainer", "launcher", ranks=1, own_log=True, own_torch=True),),
    changes=(Change("skip-the-sample", say("a sample that cannot be read is left out")),),
    fingerprint=(
        Says("trainer", "UnidentifiedImageError"),
        Says("trainer", "ChildFailedError"),
        Ended("trainer", 1),
    ),
    expect="failure",
    steps=8,
    by=4,
    stall=30.0,
)


class UnidentifiedImageError(OSError):
    """What Pillow raises for a file that is no image."""


def load_sample(lab: Lab, number: int) -> bytes:
    """Read an image of the data set."""
    bad = lab.settings.fault and lab.rank == 1 and number == 4
    data = b"\x89PNG" if not bad else b"<htm"
    if not data.startswith(b"\x89PNG"):
        raise UnidentifiedImageError(f"cannot identify image file 'images/{number:06d}.png'")
    return data


def main(lab: Lab) -> None:
    """Launch, or train."""
    if lab.role == "launcher":
        torchrun(lab, "rank_exception")
    lab.torch()
    lab.join()

    def load(step: int) -> None:
        try:
            load_sample(lab, step)
        except UnidentifiedImageError as error:
            if not lab.changed("skip-the-sample"):
                raise
            say_line(f"skipping a sample: {error}")

    loop(lab, lambda _step: None, before=load)
