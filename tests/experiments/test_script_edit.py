"""Changed copies of launch scripts."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.experiments.nurse import LabError
from unstall.experiments.script_edit import (
    Edits,
    apply,
    edits_of,
    line_end_of,
    parse_edits,
    patch,
    plan_of,
)
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


def edited(tmp_path, text, *, sets=(), unset=(), env=()):
    path = tmp_path / "own.sh"
    path.write_text(text)
    return changed(path, sets=sets, unset=unset, env=env)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("torchrun t.py --lr 1 2>&1 | tee log\n", "torchrun t.py --lr 7 2>&1 | tee log\n"),
        ("cd /x && A=3 torchrun t.py --lr 1\n", "cd /x && A=3 torchrun t.py --lr 7\n"),
        ("nohup torchrun t.py --lr 1 > log &\n", "nohup torchrun t.py --lr 7 > log &\n"),
        ("torchrun --lr 1 t.py\n", "torchrun --lr 7 t.py\n"),  # the script is no value
        ("torchrun t.py --lr 1 --lr 2\n", "torchrun t.py --lr 1 --lr 7\n"),  # the last one holds
        ('A=(--lr 1)\ntorchrun t.py "${A[@]}"\n', 'A=(--lr 1)\ntorchrun t.py "${A[@]}" --lr 7\n'),
        ("timeout 9 torchrun t.py\n", "timeout 9 torchrun t.py --lr 7\n"),
        ("torchrun t.py \\\n  --lr 1 \\\n  --b 2\n", "torchrun t.py \\\n  --lr 7 \\\n  --b 2\n"),
    ],
)
def test_the_change_is_made_in_the_command_of_the_program(tmp_path, text, after):
    assert edited(tmp_path, text, sets=["trainer.lr=7"]) == after


def test_of_two_commands_on_a_line_the_right_one_is_changed(tmp_path):
    text = "if [ $X ]; then torchrun t.py --lr 1; else torchrun t.py --lr 2; fi\n"
    assert edited(tmp_path, text, sets=["trainer 2.lr=7"]) == text.replace("--lr 2", "--lr 7")


def test_a_key_of_hydra_is_written_as_one(tmp_path):
    text = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=5 trainer.nnodes=1\n"
    assert edited(tmp_path, text, sets=["trainer.actor_rollout_ref.rollout.n=8"]) == text.replace(
        "n=5", "n=8"
    )
    after = edited(tmp_path, text, sets=["trainer.actor_rollout_ref.nccl_timeout=60"])
    assert after == text.replace("\n", " actor_rollout_ref.nccl_timeout=60\n")


def test_one_command_in_a_loop_gets_a_variable_once(tmp_path):
    text = "for i in 1 2; do torchrun t.py --lr $i; done\n"
    assert edited(tmp_path, text, env=["NCCL_X=1"]).count("NCCL_X=1") == 1


@pytest.mark.parametrize(
    "text",
    [
        'bash -c "torchrun t.py --lr 1"\n',
        "bash <<'EOF'\ntorchrun t.py --lr 1\nEOF\n",
        "bash <<EOF\ntorchrun t.py --lr 1\nEOF\n",
        'ssh host "torchrun t.py --lr 1"\n',
        'C="torchrun t.py --lr 1"\neval $C\n',
    ],
)
def test_what_is_text_of_another_command_is_not_changed_blindly(tmp_path, text):
    """Neither is a flag given to bash or ssh instead, nor is a value read by a second shell."""
    with pytest.raises(LabError):
        edited(tmp_path, text, sets=["trainer.lr=$(touch pwned)"])
    with pytest.raises(LabError):
        edited(tmp_path, text, unset=["trainer.lr"])


@pytest.mark.parametrize(
    ("sets", "env"),
    [
        (["trainer.x;touch pwned;#=1"], []),
        (["trainer.$(touch pwned)=1"], []),
        (["trainer.x y=1"], []),
        (["trainer.x=\udcff"], []),
        ([], ["trainer.A;touch pwned;B=1"]),
        ([], ["trainer.1A=1"]),
        ([], ["trainer.$(touch pwned)=1"]),
        ([], ["变=1"]),
        ([], ["A=\udcff"]),
    ],
)
def test_a_name_that_a_shell_would_read_is_refused(tmp_path, sets, env):
    with pytest.raises(LabError):
        edited(tmp_path, "torchrun t.py --lr 1\n", sets=sets, env=env)


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40))
def test_any_value_arrives_as_it_is(value):
    """What bash would pass on is read back from the changed text by another reader of shells."""
    text = "torchrun t.py --lr 1 --b 2\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.sh"
        path.write_text(text)
        _, plan = plan_of(path)
    try:
        after = apply(text, plan, [Edits("trainer", {"lr": value}, (), {"V": value})])
    except LabError:
        return  # told, not changed
    line = ["bash", "-c", f'torchrun() {{ printf \'%s\\0\' "$V" "$@"; }}\n{after}']
    words = subprocess.run(line, capture_output=True, check=True).stdout.decode().split("\0")
    assert words == [value, "t.py", "--lr", value, "--b", "2", ""]


def test_windows_line_ends_are_kept_in_mind(tmp_path):
    path = tmp_path / "own.sh"
    path.write_bytes(b"export A=1\r\ntorchrun t.py --lr 1\r\n")
    text, _ = plan_of(path)
    assert text == "export A=1\ntorchrun t.py --lr 1\n"
    assert line_end_of(path.read_bytes().decode()) == "\r\n"
    assert line_end_of("a\r\nb\n") == line_end_of("") == "\n"
