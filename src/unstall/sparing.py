"""A defect in one part of a diagnosis costs that part, and is told; the rest is worth having."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unstall.model.facts import Place, Unreadable
from unstall.model.text import say

T = TypeVar("T")


class Spared:
    """Runs the parts of a diagnosis one by one.

    Attributes:
        defects: what failed, for ``Diagnosis.unread``.
    """

    def __init__(self, place: Place) -> None:
        """Defects are told at ``place``: the input's first line that said anything."""
        self._place = place
        self.defects: list[Unreadable] = []

    def __call__(self, make: Callable[[], T], otherwise: T) -> T:
        """What ``make`` returns, or ``otherwise`` where it fails."""
        try:
            return make()
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
            text = say(
                "a part of the diagnosis failed on this input ({error} at {where}) and was left "
                "out: please report it to unstall's maintainers",
                error=type(error).__name__,
                where=where,
            )
            self.defects.append(
                Unreadable(place=self._place, quote="", reason=str(text), text=text, fatal=False)
            )
            return otherwise
