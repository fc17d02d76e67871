"""Changed copies of launch scripts."""

from pathlib import Path

import pytest

from unstall.experiments.nurse import LabError
from unstall.experiments.script_edit import apply, edits_of, parse_edits, patch, plan_of
from unstall.model.findings import Change

SCRIPT = """#!/bin/bash
export NCCL_DEBUG=INFO
LR=1e-5 torchrun --nproc_per_node 4 train.py \\
    --model_path /m/x \\
    --lr $LR --bf16 true   # keep
python other.py --steps=10
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "launch.sh"
    path.write_text(SCRIPT)
    return path


def changed(script: Path, *, sets=(), unset=(), env=()):
    text, plan = plan_of(script)
    return apply(text, plan, parse_edits(plan, sets, unset, env))


def label_of(script: Path, word: str) -> str:
    _, plan = plan_of(script)
    return next(p.label for p in plan.programs if word in " ".join(p.command))


def test_a_flag_that_stands_there_is_replaced(script):
    trainer = label_of(script, "train.py")
    after = changed(script, sets=[f"{trainer}.bf16=false"])
    assert after == SCRIPT.replace("--bf16 true", "--bf16 false")


def test_the_writing_with_an_equals_sign_is_kept(script):
    other = label_of(script, "other.py")
    after = changed(script, sets=[f"{other}.steps=20"])
    assert after == SCRIPT.replace("--steps=10", "--steps=20")


def test_a_new_flag_is_appended_before_the_comment(script):
    trainer = label_of(script, "train.py")
    after = changed(script, sets=[f"{trainer}.ddp_timeout=60"])
    assert "--bf16 true --ddp_timeout 60   # keep" in after


def test_a_flag_is_removed_with_its_value(script):
    trainer = label_of(script, "train.py")
    after = changed(script, unset=[f"{trainer}.lr"])
    assert after == SCRIPT.replace("--lr $LR ", "")


def test_a_variable_is_set_for_one_program_only(script):
    trainer = label_of(script, "train.py")
    after = changed(script, env=[f"{trainer}.NCCL_P2P_DISABLE=1"])
    assert after.count("NCCL_P2P_DISABLE=1") == 1
    assert "python other.py --steps=10" in after


def test_values_are_quoted_for_the_shell(script):
    other = label_of(script, "other.py")
    after = changed(script, sets=[f"{other}.steps=1; rm -rf x"])
    assert "--steps='1; rm -rf x'" in after


def test_unknown_program_names_those_that_exist(script):
    with pytest.raises(LabError, match="names no program"):
        changed(script, sets=["nobody.steps=1"])


def test_a_flag_to_remove_must_be_there(script):
    other = label_of(script, "other.py")
    with pytest.raises(LabError, match="is not given the flag"):
        changed(script, unset=[f"{other}.learning_rate"])


def test_a_diagnosis_fix_becomes_flags_and_variables(script):
    _, plan = plan_of(script)
    other = label_of(script, "other.py")
    edits = edits_of(plan, Change(other, {"steps": "5", "NCCL_NVLS_ENABLE": "0"}))
    assert edits is not None
    assert edits.set == {"steps": "5"}
    assert edits.env == {"NCCL_NVLS_ENABLE": "0"}


def test_patch_is_unified():
    text = patch("a\nb\n", "a\nc\n", "x.sh")
    assert text.splitlines() == ["--- a/x.sh", "+++ b/x.sh", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]


def test_a_missing_script_is_told(tmp_path):
    with pytest.raises(LabError, match="cannot be read"):
        plan_of(tmp_path / "none.sh")
