"""A and B in turn, until the answer is clear."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from unstall.experiments import last_words, statistics
from unstall.experiments.outcome import Run
from unstall.model.text import Text, verbatim

#: Most runs of A and of B each where the caller does not say how many.
MOST = statistics.LOOKS[-1]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one side.

    Attributes:
        label: ``as it is``, or the change.
        runs: in order.
    """

    label: Text
    runs: tuple[Run, ...] = ()

    @property
    def bad(self) -> tuple[Run, ...]:
        """Runs that hung or failed."""
        return tuple(run for run in self.runs if run.outcome in ("hung", "failed"))

    @property
    def finished(self) -> tuple[Run, ...]:
        """Runs that reached their end."""
        return tuple(run for run in self.runs if run.outcome == "finished")

    @property
    def counted(self) -> int:
        """Runs with a clear outcome."""
        return len(self.bad) + len(self.finished)

    @property
    def steps(self) -> int:
        """Steps of all runs together."""
        return sum(run.step for run in self.runs)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What A and B together say.

    Attributes:
        a, b: the sides.
        alpha: error that was allowed.
        p: Fisher's exact probability that B looks so much better by chance.
        p_steps: the same counted by steps; ``None`` where there are no steps.
        bound: upper bound of B's hang rate at 95 %.
        answer: ``confirmed``, ``refuted`` (B hangs as well), ``unclear``, ``not-reproduced``
            (A never hung), ``not-run`` (each run of both failed before its first step) or
            ``stopped`` (by the user).
        own_end: whether runs counted as finished because they ended by themselves with code 0.
        shared: how many of A's runs had been made for a change that was tried before.
    """

    a: Tally
    b: Tally
    alpha: float
    p: float
    p_steps: float | None
    bound: float
    answer: str
    own_end: bool = False
    shared: int = 0

    @property
    def last(self) -> bool:
        """Whether another change is not tried: this one works, A never hung, the user stopped."""
        return self.answer in ("confirmed", "not-reproduced", "stopped")

    @property
    def same_failure(self) -> bool:
        """Whether all runs failed that were bad, and the last of A and B with the same error."""
        return (
            {run.outcome for run in (*self.a.bad, *self.b.bad)} == {"failed"}
            and bool(self.a.bad and self.b.bad)
            and last_words.same(self.a.bad[-1].errors, self.b.bad[-1].errors)
        )

    @property
    def elsewhere(self) -> bool:
        """Whether B only failed where A only hung, and it is another trouble than A's.

        Before A's first step that hung, or diagnosed as something else: a change that makes a
        program refuse its arguments says nothing about the hang.
        """
        if {run.outcome for run in self.a.bad} != {"hung"}:
            return False
        if {run.outcome for run in self.b.bad} != {"failed"}:
            return False
        if max(run.step for run in self.b.bad) < min(run.step for run in self.a.bad):
            return True
        of_a, of_b = _causes(self.a), _causes(self.b)
        return bool(of_a and of_b) and not of_a & of_b


def _never_ran(runs: Sequence[Run]) -> bool:
    """Whether all of these failed before a first step that was looked for."""
    return bool(runs) and all(run.outcome == "failed" and run.started is False for run in runs)


def _causes(tally: Tally) -> set[str]:
    found = {run.verdict.cause for run in tally.bad if run.verdict is not None}
    return found - {"unknown"}


#: Runs one side once: ``("A", 1)``.
RunOne = Callable[[str, int], Run]


def compare(
    run: RunOne,
    label_a: Text,
    label_b: Text,
    *,
    count: int | None = None,
    alpha: float = 0.05,
    tell: Callable[[Run], None] | None = None,
    own_end: bool = False,
    known: Sequence[Run] = (),
) -> Comparison:
    """Run A and B in turn.

    Args:
        run: runs a side once.
        label_a: what A is.
        label_b: what B is.
        count: runs of each; by default until the answer is clear at ``alpha``, at most
            :data:`MOST`, and no more than four of A without a single hang.
        alpha: probability of calling a useless change good.
        tell: hears of each run's end.
        own_end: a run counts as finished when it ends by itself with code 0: then one of B that
            came to no step at which A hung is not counted (a pipe through ``tee`` ends with code 0
            whatever became of the program before it).
        known: runs of A that were made already, for another change: they are A's first ones.
    """
    a: list[Run] = []
    b: list[Run] = []
    for number in range(1, (count or MOST) + 1):
        # every other time B first, so that what one run leaves behind favours neither
        for side in "AB" if number % 2 else "BA":
            if side == "A" and number <= len(known):
                a.append(known[number - 1])
                continue
            runs = a if side == "A" else b
            done = run(side, number)
            runs.append(done)
            if tell is not None:
                tell(done)
        if _pointless(a, b) or (count is None and _enough(a, _counting(a, b, own_end), alpha)):
            break
    found = conclude(
        Tally(label=label_a, runs=tuple(a)),
        Tally(label=label_b, runs=tuple(_counting(a, b, own_end))),
        alpha,
        fixed=count is not None,
        own_end=own_end,
    )
    return msgspec.structs.replace(found, shared=min(len(a), len(known)))


def _pointless(a: list[Run], b: list[Run]) -> bool:
    """Whether nothing runs: neither side made a step, or B never does where A did.

    Once each where the error is the same, else twice: a port may be taken once.
    """
    if _never_ran(a) and _never_ran(b):
        return len(a) > 1 or last_words.same(a[-1].errors, b[-1].errors)
    return len(b) > 1 and _never_ran(b) and last_words.same(b[-1].errors, b[-2].errors)


def _counting(a: list[Run], b: list[Run], own_end: bool) -> list[Run]:
    """The runs of B, those told apart that ended before any step at which A hung."""
    hung = [run.step for run in a if run.outcome in ("hung", "failed")]
    if not own_end or not hung:
        return b
    first = min(hung)
    return [
        msgspec.structs.replace(run, outcome="short")
        if run.outcome == "finished" and run.step < first
        else run
        for run in b
    ]


def _enough(a: list[Run], b: list[Run], alpha: float) -> bool:
    tally_a = Tally(label=verbatim("A"), runs=tuple(a))
    tally_b = Tally(label=verbatim("B"), runs=tuple(b))
    if len(a) >= 4 and not tally_a.bad:
        return True
    if len(b) >= 4 and len(tally_b.bad) >= max(2, len(tally_a.bad)):
        return True
    return statistics.clear(
        len(tally_a.bad), tally_a.counted, len(tally_b.bad), tally_b.counted, alpha
    )


def conclude(a: Tally, b: Tally, alpha: float, *, fixed: bool, own_end: bool = False) -> Comparison:
    """The answer of all runs of both sides; ``fixed``: their number was chosen beforehand."""
    p = statistics.fisher(len(a.bad), a.counted, len(b.bad), b.counted)
    by_steps = None
    if a.steps and b.steps:
        by_steps = statistics.by_steps(len(a.bad), a.steps, len(b.bad), b.steps)
    good = (
        p <= alpha
        if fixed
        else statistics.clear(len(a.bad), a.counted, len(b.bad), b.counted, alpha)
    )
    if _never_ran(a.runs) and _never_ran(b.runs):
        answer = "not-run"
    elif not a.bad:
        answer = "not-reproduced"
    elif b.bad and len(b.bad) * max(a.counted, 1) >= len(a.bad) * max(b.counted, 1):
        answer = "refuted"
    elif good and len(b.finished) == b.counted:
        answer = "confirmed"
    else:
        answer = "unclear"
    found = Comparison(
        a=a,
        b=b,
        alpha=alpha,
        p=p,
        p_steps=by_steps,
        bound=statistics.upper_bound(len(b.bad), b.counted),
        answer=answer,
        own_end=own_end,
    )
    if answer == "refuted" and found.elsewhere:
        return msgspec.structs.replace(found, answer="unclear")
    return found
