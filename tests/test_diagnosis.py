"""Claims compete: what is left after the look-alikes is the confidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.making import place
from unstall.diagnosis import UNKNOWN, rank
from unstall.model.findings import Evidence, Finding
from unstall.model.text import say


def _claim(cause: str, support: float, against: float = 0.0, ceiling: float = 0.97) -> Finding:
    def one(weight: float) -> tuple[Evidence, ...]:
        return (Evidence(say("seen"), place(1), weight),) if weight else ()

    return Finding(
        cause=cause,
        summary=say("seen"),
        support=one(support),
        against=one(against),
        ceiling=ceiling,
    )


def test_a_lone_claim_needs_evidence() -> None:
    """As much as the odds of everything else is a coin toss; far more is nearly sure."""
    even = rank([_claim("host-oom", UNKNOWN)])[0]
    sure = rank([_claim("host-oom", UNKNOWN + 6)])[0]
    assert even.confidence == pytest.approx(0.5, abs=0.01)
    assert sure.confidence > 0.95


def test_equal_claims_share_the_odds() -> None:
    """Two causes that fit alike are not both likely."""
    both = rank([_claim("host-oom", 8), _claim("preempted", 8)])
    assert [round(one.confidence, 1) for one in both] == [0.5, 0.5]


def test_evidence_against_lowers_a_claim() -> None:
    """The better explained one leads."""
    ranked = rank([_claim("slow-checkpoint-or-eval", 7, against=3), _claim("python-exception", 7)])
    assert [one.finding.cause for one in ranked] == ["python-exception", "slow-checkpoint-or-eval"]


def test_a_ceiling_holds() -> None:
    """However much speaks for it."""
    assert rank([_claim("illegal-memory-access", 30, ceiling=0.6)])[0].confidence == 0.6


def test_unknown_leads_where_no_claim_is_strong() -> None:
    """It has what the others leave."""
    ranked = rank([_claim("unknown", 1), _claim("host-oom", 1)])
    assert ranked[0].finding.cause == "unknown"
    assert ranked[0].confidence > 0.8


def test_unknown_is_silent_beside_a_strong_claim() -> None:
    """Nothing is left for it."""
    ranked = rank([_claim("unknown", 1), _claim("host-oom", 9)])
    assert [one.finding.cause for one in ranked] == ["host-oom"]


def test_of_one_cause_the_strongest_claim_stands() -> None:
    """Two readings of one cause are not two causes."""
    (only,) = rank([_claim("host-oom", 5), _claim("host-oom", 8)])
    assert only.finding.support[0].weight == 8


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", "d", "unknown"]),
            st.floats(0, 60),
            st.floats(0, 60),
        ),
        max_size=12,
    )
)
def test_confidences_are_probabilities(rows: list[tuple[str, float, float]]) -> None:
    """Each between 0 and 1, together not above 1, in order."""
    ranked = rank([_claim(cause, support, against) for cause, support, against in rows])
    confidences = [one.confidence for one in ranked]
    assert all(0 <= value <= 1 for value in confidences)
    assert sum(confidences) <= 1.01
    assert confidences == sorted(confidences, reverse=True)
