"""Releases in a known defect's range."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, plan, wrong
from unstall.programs.known_bugs import known_bugs

RUN = "{} torchrun --standalone --nproc_per_node 2 fit.py {}\n"


def defects(text: str, **versions: str) -> list[str | None]:
    """The corrections of all known defects that are told."""
    given = {name.replace("_", "-"): version for name, version in versions.items()}
    return [j.correction for j in judgements(plan(text, versions=given), "known defect")]


def test_inside_the_range() -> None:
    found = plan(RUN.format("", ""), versions={"torch": "2.7.0+cu128"})
    (row,) = judgements(found, "known defect")
    assert row.judgement == "suspicious"
    assert row.values == {"trainer": "torch 2.7.0+cu128"}
    assert row.correction == "export TORCH_NCCL_USE_COMM_NONBLOCKING=0"
    assert "https://github.com/pytorch/pytorch/issues/153960" in str(row.why)
    assert wrong(found) == set()


@pytest.mark.parametrize("version", ["2.6.0", "2.7.1", "2.8.0"])
def test_outside_the_range(version: str) -> None:
    assert defects(RUN.format("", ""), torch=version) == []


def test_the_cure_is_in_place_already() -> None:
    text = RUN.format("TORCH_NCCL_USE_COMM_NONBLOCKING=0", "")
    assert defects(text, torch="2.7.0") == []


def test_no_version_no_defect() -> None:
    assert defects(RUN.format("", "")) == []


def test_a_variable_that_the_defect_needs() -> None:
    bad = RUN.format("CUDA_LAUNCH_BLOCKING=1", "")
    assert defects(bad, nccl="2.16.2") == ["unset CUDA_LAUNCH_BLOCKING"]
    assert defects(RUN.format("", ""), nccl="2.16.2") == []
    assert defects(bad, nccl="2.18.1") == []


def test_nccl_by_its_packages_name() -> None:
    assert len(defects(RUN.format("", ""), nvidia_nccl_cu13="2.29.2")) == 1


def test_a_word_that_the_defect_needs() -> None:
    text = "deepspeed --num_gpus 2 fit.py --deepspeed zero3.json --model org/{}\n"
    assert len(defects(text.format("Mixtral-9x"), deepspeed="0.12.6")) == 1
    assert defects(text.format("dense-9b"), deepspeed="0.12.6") == []
    assert defects(text.format("Mixtral-9x"), deepspeed="0.14.0") == []


def test_symptoms_without_an_end_of_the_range_are_not_told() -> None:
    """A range without an end and a sign that only a run shows would accuse every newer release."""
    endless = {b.id for b in known_bugs() if b.fixed is None and all(s.fact for s in b.signs)}
    assert "trl-stale-weight-group" in endless
    text = "trl vllm-serve --model m --tensor_parallel_size 2\n"
    assert defects(text, trl="0.30.0", torch="2.14.0") == []


def test_one_process_is_not_concerned() -> None:
    assert defects("torchrun --standalone --nproc_per_node 1 fit.py\n", torch="2.7.0") == []
