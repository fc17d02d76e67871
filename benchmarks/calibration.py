"""How often the diagnosis is right, and whether its confidences can be believed.

Runs every case of ``tests/cases`` and prints: accuracy of the first cause and of the origin, the
count of confident wrong answers (confidence of 0.7 and more), the Brier score, and a reliability
table (what share of the answers given at a confidence was right).

    python -m benchmarks.calibration            # all cases
    python -m benchmarks.calibration --wrong    # only what is not as expected
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NamedTuple

from tests.casebook import Case, cases, diagnosed, misses

CONFIDENT = 0.7
BANDS = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.85), (0.85, 0.95), (0.95, 1.01))


class Answer(NamedTuple):
    """One case's answer."""

    case: Case
    cause: str | None
    confidence: float
    right: bool
    origin_right: bool | None
    misses: list[str]


def answer(case: Case) -> Answer:
    """The first cause given for a case, held against what it expects."""
    found = diagnosed(case)
    first: dict[str, Any] | None = found["causes"][0] if found["causes"] else None
    wanted = case.expected.get("causes", [])
    cause = first["id"] if first is not None else None
    right = cause == wanted[0] if wanted else cause is None
    return Answer(
        case,
        cause,
        first["confidence"] if first is not None else 1.0,
        right,
        _origin_right(case, found),
        misses(case, found),
    )


def _origin_right(case: Case, found: dict[str, Any]) -> bool | None:
    """Whether role and ranks are as expected; ``None`` where the case asks for neither."""
    wanted, origin = case.expected, found.get("origin") or {}
    if "role" not in wanted and "ranks" not in wanted:
        return None
    roles = wanted.get("role", origin.get("role"))
    roles = roles if isinstance(roles, list) else [roles]
    ranks = wanted.get("ranks", origin.get("ranks") or [])
    return origin.get("role") in roles and sorted(origin.get("ranks") or []) == sorted(ranks)


def main() -> int:
    """Print the figures; exit status 1 if any case is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrong", action="store_true", help="list only what is not as expected")
    options = parser.parse_args()
    answers = []
    for case in cases():
        one = answer(case)
        answers.append(one)
        if one.misses or not options.wrong:
            mark = "ok   " if not one.misses else "WRONG"
            print(f"{mark} {case.name:<44} {one.cause or '-':<26} {one.confidence:.2f}")
            for miss in one.misses:
                print(f"      {miss}")
    if not answers:
        print("no cases found")
        return 1
    _figures(answers)
    return 1 if any(one.misses for one in answers) else 0


def _figures(answers: list[Answer]) -> None:
    decided = [one for one in answers if one.cause not in (None, "unknown")]
    origins = [one.origin_right for one in answers if one.origin_right is not None]
    confident = [one for one in decided if not one.right and one.confidence >= CONFIDENT]
    brier = sum((one.confidence - one.right) ** 2 for one in decided) / max(1, len(decided))
    print()
    print(f"cases                     {len(answers)}")
    print(f"first cause right         {_share([one.right for one in answers])}")
    print(f"origin right              {_share(origins)}")
    print(f"confident wrong answers   {len(confident)}  (confidence of {CONFIDENT} and more)")
    print(f"Brier score               {brier:.4f}  (0 is best; a coin toss gives 0.25)")
    print("\nconfidence    answers   right")
    for low, high in BANDS:
        band = [one for one in decided if low <= one.confidence < high]
        if band:
            share = _share([one.right for one in band])
            print(f"{low:.2f}-{min(high, 1):.2f}     {len(band):>5}    {share}")


def _share(right: list[bool]) -> str:
    if not right:
        return "-"
    return f"{100 * sum(right) / len(right):.1f} %  ({sum(right)} of {len(right)})"


if __name__ == "__main__":
    sys.exit(main())
