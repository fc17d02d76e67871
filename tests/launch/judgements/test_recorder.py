"""The Flight Recorder by PyTorch's version."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, plan, verdict

RUN = "{} torchrun --standalone --nproc_per_node 2 fit.py\n"
NAME = "Flight Recorder"


@pytest.mark.parametrize(
    ("torch", "given", "expected"),
    [
        ("2.11.0", "", "ok"),
        ("2.13.1+cu130", "", "ok"),
        ("2.10.0", "", "suspicious"),
        ("2.6.0", "", "suspicious"),
        ("2.1.2", "", "suspicious"),
        ("2.1.2", "TORCH_NCCL_TRACE_BUFFER_SIZE=500", "suspicious"),
        ("2.6.0", "TORCH_NCCL_TRACE_BUFFER_SIZE=500", "ok"),
        ("2.6.0", "TORCH_FR_BUFFER_SIZE=500", "suspicious"),
        ("2.8.0", "TORCH_FR_BUFFER_SIZE=500", "ok"),
        ("2.12.0", "TORCH_FR_BUFFER_SIZE=0", "suspicious"),
        ("2.12.0", "TORCH_FR_BUFFER_SIZE=0 TORCH_NCCL_TRACE_BUFFER_SIZE=9", "suspicious"),
        ("2.12.0", "TORCH_NCCL_DUMP_ON_TIMEOUT=0", "suspicious"),
        ("2.14.0", "TORCH_DIST_USE_NCCL2=1", "suspicious"),
        ("2.14.0", "TORCH_DIST_USE_NCCL2=0", "ok"),
        ("2.15.0", "", "ok"),
        ("2.15.0", "TORCH_FR_DUMP_ON_TIMEOUT=false", "suspicious"),
    ],
)
def test_by_version(torch: str, given: str, expected: str) -> None:
    assert verdict(plan(RUN.format(given), versions={"torch": torch}), NAME) == expected


def test_an_unknown_version_leaves_it_open() -> None:
    (row,) = judgements(plan(RUN.format("")), NAME)
    assert row.judgement == "ok"
    assert "before PyTorch 2.11" in str(row.why)
    assert row.correction == (
        "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("TORCH_FR_BUFFER_SIZE=0", "suspicious"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE=9 TORCH_NCCL_DUMP_ON_TIMEOUT=0", "suspicious"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE=9", "ok"),
    ],
)
def test_what_a_script_turns_off_is_off_in_every_version(given: str, expected: str) -> None:
    assert verdict(plan(RUN.format(given)), NAME) == expected


def test_the_default_ring_is_shown() -> None:
    (row,) = judgements(plan(RUN.format(""), versions={"torch": "2.11"}), NAME)
    assert row.values == {"trainer": "2000 (default)"}


def test_the_correction_uses_a_name_that_the_version_reads() -> None:
    (row,) = judgements(plan(RUN.format(""), versions={"torch": "2.9.1"}), NAME)
    assert row.correction == "export TORCH_FR_BUFFER_SIZE=2000"


def test_a_name_that_is_too_new_has_no_effect() -> None:
    found = plan(RUN.format("TORCH_FR_BUFFER_SIZE=64"), versions={"torch": "2.7.1"})
    (row,) = judgements(found, "TORCH_FR_BUFFER_SIZE")
    assert (row.judgement, row.correction) == (
        "no effect",
        "export TORCH_NCCL_TRACE_BUFFER_SIZE=64",
    )


def test_one_process_needs_no_recorder() -> None:
    text = "torchrun --standalone --nproc_per_node 1 fit.py\n"
    assert judgements(plan(text, versions={"torch": "2.6.0"}), NAME) == []
