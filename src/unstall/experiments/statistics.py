"""How sure an answer is: Fisher's exact test, exact bounds, stopping early without cheating."""

from __future__ import annotations

from math import ceil, comb, exp, lgamma, log, log1p


def fisher(hung_a: int, runs_a: int, hung_b: int, runs_b: int) -> float:
    """The one-sided exact probability that B would look so much better by chance.

    Fisher's exact test on the two-by-two table of hung and finished runs: the probability, if the
    change made no difference, of ``hung_b`` or fewer of all hung runs falling on B.

    Raises:
        ValueError: more hung runs than runs, or negative numbers.
    """
    if not (0 <= hung_a <= runs_a and 0 <= hung_b <= runs_b):
        raise ValueError("hung runs must be between 0 and the number of runs")
    hung, runs = hung_a + hung_b, runs_a + runs_b
    total = comb(runs, runs_b)
    ways = sum(
        comb(hung, k) * comb(runs - hung, runs_b - k)
        for k in range(max(0, runs_b - (runs - hung)), hung_b + 1)
    )
    return ways / total


def upper_bound(hung: int, runs: int, confidence: float = 0.95) -> float:
    """The highest hang rate that so few hangs leave plausible (Clopper and Pearson, one-sided).

    Args:
        hung: runs that hung.
        runs: all runs; with none, nothing is known and the bound is 1.
        confidence: of the bound.

    Raises:
        ValueError: numbers out of range.
    """
    if not (0 <= hung <= runs and 0 < confidence < 1):
        raise ValueError("hung runs must be between 0 and the number of runs")
    if runs == 0 or hung == runs:
        return 1.0
    low, high = hung / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(hung, runs, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def runs_for(rate: float, confidence: float = 0.95) -> int:
    """How many runs without a hang bring :func:`upper_bound` down to a rate.

    Raises:
        ValueError: the rate or the confidence is not between 0 and 1.
    """
    if not (0 < rate < 1 and 0 < confidence < 1):
        raise ValueError("a rate and a confidence are between 0 and 1")
    return ceil(log1p(-confidence) / log1p(-rate))


def least_runs(alpha: float) -> int:
    """How many runs of each side it takes at least: with all of A's hung and none of B's.

    Raises:
        ValueError: ``alpha`` is not between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError("alpha is between 0 and 1")
    runs = 1
    while fisher(runs, runs, 0, runs) > alpha:
        runs += 1
    return runs


def runs_to_clear(hung_a: int, runs_a: int, hung_b: int, runs_b: int, alpha: float) -> int | None:
    """How many runs of each would be clear if they went on as they did; ``None`` above 200.

    The shares of hung runs are rounded against the change.
    """
    if not runs_a or not runs_b or hung_a * runs_b <= hung_b * runs_a:
        return None
    for runs in range(max(runs_a, runs_b) + 1, 201):
        if fisher(hung_a * runs // runs_a, runs, -(-hung_b * runs // runs_b), runs) <= alpha:
            return runs
    return None


def _at_most(hung: int, runs: int, rate: float) -> float:
    """Probability of at most ``hung`` hangs in ``runs`` at a rate."""
    if rate >= 1:
        return 0.0 if hung < runs else 1.0
    if rate <= 0:
        return 1.0
    return sum(
        exp(
            lgamma(runs + 1)
            - lgamma(k + 1)
            - lgamma(runs - k + 1)
            + k * log(rate)
            + (runs - k) * log1p(-rate)
        )
        for k in range(hung + 1)
    )


def by_steps(hung_a: int, steps_a: int, hung_b: int, steps_b: int) -> float:
    """The probability that B would look so much better by chance, counted by steps, not by runs.

    For failures that may strike at any step: if a step of B were as dangerous as one of A, each
    hang would fall on B with the share of steps that B ran. It uses that a run of B which
    finishes is longer than one of A which hangs.
    """
    hung, steps = hung_a + hung_b, steps_a + steps_b
    if hung == 0 or steps <= 0:
        return 1.0
    return min(1.0, _at_most(hung_b, hung, steps_b / steps))


#: Numbers of runs (of A and B each) after which the answer may be looked at.
LOOKS = (3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40)


def spent(look: int, alpha: float) -> float:
    """The share of ``alpha`` that a look may use, from 0: halves for later looks in turn.

    Whoever tests after every run and stops at the first success is wrong more often than
    ``alpha`` says. Here the looks' shares sum to ``alpha``, so that the whole is not. The first
    look can only succeed for a liberal ``alpha``; the second gets most.
    """
    shares = (0.05, 0.45, 0.2, 0.1)
    if look < len(shares):
        return alpha * shares[look]
    return float(alpha * 0.2 / 2 ** (look - len(shares) + 1))


def share(alpha: float, number: int, changes: int) -> float:
    """What one of several changes may use of ``alpha``; all shares sum to it.

    Whoever tries changes until one is confirmed is wrong more often than each trial says. The
    first, which the diagnosis trusts most, gets half, the next half of the rest, and the last as
    much as the one before it. That holds as well where the trials share the runs of A.

    Args:
        alpha: allowed for all of them together.
        number: of the change, from 1.
        changes: how many may be tried.
    """
    return float(alpha / 2 ** min(number, changes - 1))


def clear(hung_a: int, runs_a: int, hung_b: int, runs_b: int, alpha: float) -> bool:
    """Whether the answer is statistically clear and no more runs are needed.

    Looks are taken only at the fixed numbers of :data:`LOOKS`, when both have had so many runs.
    """
    if runs_a != runs_b or runs_a not in LOOKS:
        return False
    return fisher(hung_a, runs_a, hung_b, runs_b) <= spent(LOOKS.index(runs_a), alpha)
