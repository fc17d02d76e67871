"""When a run has finished, as ``--until`` says it: a step, so many seconds, a line of the log."""

from __future__ import annotations

import re
from contextlib import suppress

import msgspec

from unstall.experiments.nurse import LabError
from unstall.model.text import say

_STEP = re.compile(r"\s*step\s*(>=?)\s*(\d{1,9})\s*\Z", re.ASCII)

#: A comparison of something that is called a step, in any spelling: never meant for a line of a
#: log, which would be waited for in vain.
_LIKE_A_STEP = re.compile(
    r"\s*(?:(?:(?:global|train|training|max|current)[_ -]?)?(?:steps?|iterations?|iters?|epochs?)"
    r"\s*(?:[<>=≥≤]|is\b|at least\b)|[<>=≥≤]{1,2}\s*[\w.+-]*\s*\Z"
    r"|[\d.,_]+\s*[<>=≥≤]{1,2}\s*(?:global_)?steps?\b)",
    re.IGNORECASE,
)
_LIKE_SECONDS = re.compile(
    r"\s*[+-]?\d[\d.,_]*\s*"
    r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|steps?|it|iterations?)\s*\Z",
    re.IGNORECASE | re.ASCII,
)


class Until(msgspec.Struct, frozen=True):
    """When a run counts as finished besides its own end: at most one of these.

    Attributes:
        step: it made this step.
        seconds: it still makes progress after so long.
        pattern: a regular expression that a line of its log fits.
    """

    step: int | None = None
    seconds: float | None = None
    pattern: str | None = None


def step_of(text: str) -> int | None:
    """The step of ``step>=200``; ``None`` where the text does not look like such a condition.

    Raises:
        LabError: it looks like one and is none (``step>=x``, ``steps>=200``, ``>=200``), or it
            would hold from the start on.
    """
    if (found := _STEP.match(text)) is not None:
        step = int(found[2]) + (found[1] == ">")
        if not step:
            raise _too_early(text)
        return step
    if _LIKE_A_STEP.match(text) is not None:
        raise LabError(
            say(
                "--until “{text}” looks like a condition on the step and is none: write "
                "'step>=200' with a number. (A line of the log that holds these words: put "
                "one letter in brackets, as in '[s]tep=200'.)",
                text=text,
            )
        )
    return None


def parse_until(text: str | None) -> Until:
    """``step>=200``, a number of seconds, or a pattern.

    Raises:
        LabError: it is like a step or a time and is none, the pattern is no regular expression, or
            it would hold from the start on.
    """
    if text is None:
        return Until()
    if (step := step_of(text)) is not None:
        return Until(step=step)
    with suppress(ValueError):
        seconds = float(text)
        if not (0 < seconds < float("inf")):
            raise _too_early(text)
        return Until(seconds=seconds)
    if _LIKE_SECONDS.match(text) is not None:
        raise LabError(
            say(
                "--until “{text}” is neither seconds nor a step: seconds are a plain number "
                "(--until 600), a step is written 'step>=200'.",
                text=text,
            )
        )
    try:
        if re.search(text, "") is not None:
            raise _too_early(text)
    except re.error as error:
        raise LabError(
            say("“{text}” is no regular expression: {error}", text=text, error=str(error))
        ) from error
    return Until(pattern=text)


def _too_early(text: str) -> LabError:
    return LabError(say("--until “{text}” would hold at once: no run could hang.", text=text))
