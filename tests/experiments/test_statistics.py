"""Exact probabilities against values worked out by hand."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.experiments.statistics import (
    LOOKS,
    by_steps,
    clear,
    fisher,
    least_runs,
    runs_for,
    runs_to_clear,
    share,
    spent,
    upper_bound,
)


def test_all_of_a_hang_and_none_of_b():
    """With n of n against 0 of n only one of C(2n, n) arrangements is so extreme."""
    assert fisher(3, 3, 0, 3) == pytest.approx(1 / comb(6, 3))
    assert fisher(10, 10, 0, 10) == pytest.approx(1 / comb(20, 10))


def test_a_mixed_table():
    """3 of 4 against 1 of 4: (C(4,0) C(4,4) + C(4,1) C(4,3)) / C(8,4) = 17/70."""
    assert fisher(3, 4, 1, 4) == pytest.approx(17 / 70)


def test_no_hang_at_all_says_nothing():
    assert fisher(0, 5, 0, 5) == 1.0


@pytest.mark.parametrize("wrong", [(4, 3, 0, 3), (-1, 3, 0, 3), (0, 3, 5, 3)])
def test_impossible_counts_are_refused(wrong):
    with pytest.raises(ValueError, match="between 0"):
        fisher(*wrong)


def test_bound_without_a_hang_is_the_rule_of_three_exactly():
    """No hang in n runs: the bound solves (1 - p)^n = 5 %."""
    assert upper_bound(0, 10) == pytest.approx(1 - 0.05 ** (1 / 10), abs=1e-9)
    assert upper_bound(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100), abs=1e-9)


def test_bound_with_one_hang_in_two():
    """1 - p^2 = 5 % is the chance of at most one hang in two runs."""
    assert upper_bound(1, 2) == pytest.approx(0.95**0.5, abs=1e-9)


def test_bound_where_nothing_is_known():
    assert upper_bound(0, 0) == 1.0
    assert upper_bound(4, 4) == 1.0


def test_hangs_by_steps():
    """Two hangs in 100 steps of A, none in 900 of B: 0.1 squared."""
    assert by_steps(2, 100, 0, 900) == pytest.approx(0.01)
    assert by_steps(0, 100, 0, 900) == 1.0


def test_the_looks_share_alpha_and_no_more():
    assert sum(spent(look, 0.05) for look in range(len(LOOKS))) <= 0.05


def test_clear_only_at_planned_looks():
    """4 of 4 against 0 of 4 has p = 1/70, which the second look's share of 5 % covers."""
    assert not clear(3, 3, 0, 3, 0.05)
    assert clear(4, 4, 0, 4, 0.05)
    assert not clear(7, 7, 0, 7, 0.05)
    assert not clear(4, 4, 0, 5, 0.05)


@given(st.integers(1, 30), st.data())
def test_probabilities_stay_probabilities(runs, data):
    hung_a = data.draw(st.integers(0, runs))
    hung_b = data.draw(st.integers(0, runs))
    assert 0 < fisher(hung_a, runs, hung_b, runs) <= 1
    bound = upper_bound(hung_b, runs)
    assert hung_b / runs <= bound <= 1


@given(st.integers(0, 10), st.integers(1, 40))
def test_more_good_runs_never_raise_the_bound(hung, more):
    assert upper_bound(hung, hung + more + 1) <= upper_bound(hung, hung + more) + 1e-12


@given(st.floats(1e-6, 0.5), st.integers(1, 30))
def test_the_shares_of_all_changes_are_what_is_allowed(alpha, changes):
    shares = [share(alpha, number, changes) for number in range(1, changes + 1)]
    assert sum(shares) == pytest.approx(alpha)
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(("rate", "runs"), [(0.1, 29), (0.05, 59), (0.01, 299)])
def test_runs_that_bring_the_bound_down(rate, runs):
    """0.9^29 = 0.0471, 0.9^28 = 0.0523: the least number with at most 5 % left."""
    assert runs_for(rate) == runs
    assert upper_bound(0, runs) <= rate + 1e-9 < upper_bound(0, runs - 1)


@pytest.mark.parametrize(("alpha", "runs"), [(0.05, 3), (0.04, 4), (0.2, 2), (0.5, 1), (1e-6, 12)])
def test_the_least_number_of_runs_that_can_be_clear(alpha, runs):
    """One of C(2n, n): 1/2, 1/6, 1/20, 1/70, … 1/2704156 at n = 12."""
    assert least_runs(alpha) == runs


def test_runs_that_would_be_clear_if_they_went_on_so():
    """2 of 2 against 0 of 2 goes on as 3 of 3 against 0 of 3: 1/20."""
    assert runs_to_clear(2, 2, 0, 2, 0.05) == 3
    assert runs_to_clear(2, 4, 0, 4, 0.05) == 8  # 4 of 8 against none: C(8,4) / C(16,4) = 0.038
    assert runs_to_clear(2, 4, 2, 4, 0.05) is None
    assert runs_to_clear(0, 0, 0, 4, 0.05) is None


@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9), st.integers(1, 9))
def test_so_many_runs_are_more_than_there_were(hung_a, runs_a, hung_b, runs_b):
    found = runs_to_clear(min(hung_a, runs_a), runs_a, min(hung_b, runs_b), runs_b, 0.05)
    assert found is None or found > max(runs_a, runs_b)
