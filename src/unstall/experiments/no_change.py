"""Changes that change nothing: B would be run as A is, which proves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts.edit import plan_of_text
from unstall.model.plan import Value
from unstall.model.text import say

T = TypeVar("T")

_TRUTH = ("true", "false")


def same(script_a: str, script_b: str) -> bool:
    """Whether two scripts start the same programs with the same flags and variables.

    A value may be written in another way: ``--flag=1`` for ``--flag 1.0``, ``True`` for ``true``.
    A flag that is given its default is told apart from one that is not given: what is known of a
    default may be another release's.
    """
    if script_a == script_b:
        return True
    a, b = (plan_of_text(script, "script") for script in (script_a, script_b))
    return len(a.programs) == len(b.programs) and all(
        one.label == other.label
        and _alike(one.flags, other.flags, loosely=True)
        and _alike(one.environment, other.environment, loosely=False)
        for one, other in zip(a.programs, b.programs, strict=True)
    )


def _alike(a: Mapping[str, Value], b: Mapping[str, Value], *, loosely: bool) -> bool:
    given_a, given_b = (
        {name: value for name, value in side.items() if not value.default} for side in (a, b)
    )
    return given_a.keys() == given_b.keys() and all(
        value.known == given_b[name].known and _equal(value.text, given_b[name].text, loosely)
        for name, value in given_a.items()
    )


def _equal(a: str, b: str, loosely: bool) -> bool:
    if a == b or not loosely:
        return a == b
    if a.lower() in _TRUTH or b.lower() in _TRUTH:
        return a.lower() == b.lower()
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def changing(base: str, changed: Sequence[str], candidates: Sequence[T], asked: str) -> list[T]:
    """Those of the candidates whose script is another than the one without a change.

    Args:
        base: the script of A.
        changed: that of each candidate's B.
        candidates: what can be tried.
        asked: the changes as the user wrote them; empty where the diagnosis says them.

    Raises:
        LabError: none is.
    """
    found = [one for one, text in zip(candidates, changed, strict=True) if not same(base, text)]
    if found:
        return found
    if asked:
        raise LabError(
            say(
                "“{asked}” changes nothing: the script says so already. A and B would be the same, "
                "and whatever they did would prove nothing.",
                asked=asked,
            )
        )
    raise LabError(
        say(
            "The script has every fix of the diagnosis already: A and B would be the same, and "
            "whatever they did would prove nothing. Say another change with --set or --env."
        )
    )
