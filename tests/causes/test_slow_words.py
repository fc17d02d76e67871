"""Words of saving that stand in another log, or above a run that began anew, prove little."""

from __future__ import annotations

from tests.making import place, timeout
from unstall.diagnosis import weigh
from unstall.model.facts import Fact, GroupTag, Phase, Progress
from unstall.model.plan import Plan

DEFAULT = GroupTag(0, "0", "default_pg")


def wait(source: str = "run.log") -> list[Fact]:
    """Ranks 1 to 3 wait in a barrier from line 50 on; rank 0 is not there."""
    return [timeout(rank, 44, 50 + rank, tag=DEFAULT, source=source) for rank in (1, 2, 3)]


def said(line: int, kind: str, source: str = "run.log", *, finished: bool = False) -> Phase:
    return Phase(place=place(line, source), quote=kind, kind=kind, finished=finished)


def sure(*facts: Fact) -> float:
    """How sure it is that a rank was saving or evaluating."""
    causes = weigh(facts, Plan()).causes
    return max(
        (c.confidence for c in causes if c.finding.cause == "slow-checkpoint-or-eval"), default=0.0
    )


def test_a_save_in_another_log_without_times_is_not_the_last_word() -> None:
    """A healthy job's log beside this one's does not tell what this one did."""
    assert sure(*wait(), said(40, "save")) >= 0.7
    assert sure(*wait(), said(40, "save", "other.log")) < 0.7


def test_a_run_that_began_after_the_save_is_another() -> None:
    """Data are prepared once, before training; training that ended saves no more."""
    assert sure(*wait(), said(20, "save"), said(40, "tokenize")) == 0.0
    assert sure(*wait(), said(20, "evaluate"), said(40, "end", finished=True)) == 0.0
    assert sure(*wait(), said(20, "save"), said(60, "tokenize")) >= 0.7


def test_a_bar_that_reached_its_end_is_no_evaluation_under_way() -> None:
    """100 %: it was over when the others waited, or nearly so."""

    def bar(done: int) -> Progress:
        return Progress(place=place(40), quote="Validating", label="Validating", done=done, total=9)

    assert sure(*wait(), said(40, "evaluate"), bar(9)) < sure(*wait(), said(40, "evaluate"), bar(4))
