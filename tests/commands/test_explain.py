"""``unstall explain`` as a user runs it."""

from __future__ import annotations

import pytest

from tests.commands.running import unstall
from unstall.causes import all_causes
from unstall.reports.explain import FAMILIES

#: The vocabulary of verdicts; identifiers are stable.
VOCABULARY = {
    "slow-preprocessing", "slow-checkpoint-or-eval", "slow-rollout", "driver-stall",
    "rank-dependent-branch", "uneven-batches", "data-dependent-graph", "size-mismatch",
    "pipeline-order", "python-exception", "host-oom", "cuda-oom", "process-limit", "preempted",
    "device-assert", "illegal-memory-access", "graph-capture-race", "gpu-hardware",
    "fabric-manager", "port-collision", "rendezvous-environment", "device-overlap",
    "library-mismatch", "shm-too-small", "peer-to-peer-blocked", "network-transport",
    "network-interface", "engine-desync", "weight-sync-failure", "unknown",
}  # fmt: skip


def test_every_cause_of_the_vocabulary_has_its_module() -> None:
    """None is missing, none is left over."""
    assert {cause.id for cause in all_causes()} == VOCABULARY


def test_all_causes_are_listed() -> None:
    """Without a cause there is one table."""
    text = unstall("explain").stdout.decode()
    assert all(identifier in text for identifier in VOCABULARY)


def test_what_is_of_no_family_stands_last_under_a_heading_of_its_own() -> None:
    """``unknown`` is no cause among others."""
    lines = [line.rstrip() for line in unstall("explain").stdout.decode().splitlines()]
    assert "none" not in lines
    assert lines[-2] == "the evidence does not decide"
    assert lines[-1].startswith("  unknown ")


@pytest.mark.parametrize("cause", all_causes(), ids=lambda cause: cause.id)
def test_a_cause_is_complete(cause: object) -> None:
    """It says how it shows, what decides, what fixes it; look-alikes are causes of the table."""
    from unstall.causes.base import Cause

    assert isinstance(cause, Cause)
    assert cause.family in FAMILIES
    assert cause.shows
    assert cause.remedies
    assert str(cause.decide)
    assert {other.cause for other in cause.look_alikes} <= VOCABULARY
    assert cause.look_alikes or cause.id == "unknown"


def test_one_page_in_both_languages() -> None:
    """Look-alikes are on it."""
    english = unstall("explain", "engine-desync").stdout.decode()
    chinese = unstall("explain", "engine-desync", "--language", "zh").stdout.decode()
    assert "Look-alikes" in english
    assert "slow-rollout" in english
    assert "相似的原因" in chinese


def test_a_slip_gets_near_names() -> None:
    """And exit status 2."""
    result = unstall("explain", "engine-desnyc")
    assert result.returncode == 2
    assert b"engine-desync" in result.stderr
