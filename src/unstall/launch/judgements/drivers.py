"""A driver that starts its own workers, and a launcher that starts it several times.

Source: verl ``trainer/main_ppo.py`` (``ray.init`` and one ``TaskRunner``; the workers are Ray's).
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places
from unstall.model.plan import Judgement
from unstall.model.text import say

_DRIVERS = ("main_ppo", "main_dapo", "main_generation")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")


def judge(context: Context) -> Iterator[Judgement]:
    """A row for each driver of verl that a launcher of ranks starts more than once."""
    for launch in context.launches:
        if launch.software != "verl" or launch.per_node == 1:
            continue
        launcher = next((name for name in launch.launchers if name in _LAUNCHERS), None)
        texts = [word.text for word in launch.words[:8]]
        driver = next((t for t in texts if any(name in t for name in _DRIVERS)), None)
        if launcher is None or driver is None:
            continue
        yield Judgement(
            "launcher",
            {launch.label: launcher},
            "conflict",
            say(
                "{driver} is one driver that starts its workers itself through Ray; {launcher} "
                "starts it {count} times, and the drivers compete for the same devices",
                driver=driver,
                launcher=launcher,
                count=launch.per_node if launch.per_node is not None else "?",
            ),
            places(launch.place),
            f"python3 -m {driver} …" if "/" not in driver else f"python3 {driver} …",
            ("device-overlap",),
        )
