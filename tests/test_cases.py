"""Every case is diagnosed as it expects."""

from __future__ import annotations

import pytest

from tests.casebook import Case, cases, diagnosed, misses


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_case_is_diagnosed_as_expected(case: Case) -> None:
    """First cause, origin, mentions and fixes are right, and nothing forbidden is claimed."""
    assert misses(case, diagnosed(case)) == []
