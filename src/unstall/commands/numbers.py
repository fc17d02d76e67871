"""Numbers of the command line that a range does not check."""

from __future__ import annotations

import math
from typing import Optional

import typer


def finite(number: Optional[float]) -> Optional[float]:  # noqa: UP045 - as typer's own values
    """A number that is one: ``nan`` is in every range, and nothing ever lasts longer than ``inf``.

    Raises:
        typer.BadParameter: it is ``nan`` or without end.
    """
    if number is not None and not math.isfinite(number):
        raise typer.BadParameter(f"{number} is no number to count with")
    return number
