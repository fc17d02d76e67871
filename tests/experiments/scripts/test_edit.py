"""Changed copies of launch scripts."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts.changes import Edits, edits_of, parse_edits
from unstall.experiments.scripts.edit import apply, line_end_of, patch, plan_of
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


@pytest.mark.parametrize("written", ["drop_last", "--drop-last"])
def test_a_switch_is_appended_without_a_value(tmp_path, written):
    path = tmp_path / "launch.sh"
    path.write_text("torchrun --nproc_per_node 2 train.py --lr 1  # keep\n")
    after = changed(path, sets=[f"trainer.{written}"])
    flag = written if written.startswith("-") else f"--{written}"
    assert after == f"torchrun --nproc_per_node 2 train.py --lr 1 {flag}  # keep\n"


def test_a_switch_beside_a_value(tmp_path):
    path = tmp_path / "launch.sh"
    path.write_text("torchrun --nproc_per_node 2 train.py --lr 1\n")
    after = changed(path, sets=["trainer.drop-last", "trainer.lr=2"])
    assert after == "torchrun --nproc_per_node 2 train.py --lr 2 --drop-last\n"


def test_a_switch_that_is_there_changes_nothing(tmp_path):
    path = tmp_path / "launch.sh"
    path.write_text("torchrun --nproc_per_node 2 train.py --drop-last --lr 1\n")
    assert changed(path, sets=["trainer.drop_last"]) == path.read_text()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torchrun --nproc_per_node 2 train.py --lr 1\n", "trainer.lr"),
        ("torchrun --nproc_per_node 2 train.py --lr=1\n", "trainer.lr"),
        ("python main.py optim.lr=1\n", "main.optim.overlap"),
        ("torchrun --nproc_per_node 2 train.py\n", "trainer."),
    ],
)
def test_what_takes_a_value_is_no_switch(tmp_path, text, wanted):
    path = tmp_path / "launch.sh"
    path.write_text(text)
    with pytest.raises(LabError, match=r"is not PROGRAM\.FLAG=VALUE"):
        changed(path, sets=[wanted])


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


TEXTS = [
    'bash -c "torchrun t.py --lr 1"\n',
    "bash -c 'torchrun t.py --lr 1'\n",
    "bash <<'EOF'\ntorchrun t.py --lr 1\nEOF\n",
    "bash <<EOF\ntorchrun t.py --lr 1\nEOF\n",
    'ssh host "torchrun t.py --lr 1"\n',
    "nohup srun bash -lc 'cd /x && A=1 torchrun t.py \\\n   --lr 1 2>&1 | tee l' &\n",
    'C="torchrun t.py --lr 1"\neval $C\n',
    'C="torchrun t.py --lr 1"\necho "+ $C"\nbash -c "$C"\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_another_command_is_changed_where_it_is_read_as_it_stands(tmp_path, text):
    assert edited(tmp_path, text, sets=["trainer.lr=7"]) == text.replace("--lr 1", "--lr 7")
    assert edited(tmp_path, text, unset=["trainer.lr"]).split() == (
        text.replace("--lr 1", "").replace('t.py "', 't.py"').replace("t.py '", "t.py'").split()
    )


@pytest.mark.parametrize("value", ["$(touch pwned)", "`x`", '$HOME"', "a'b", "\\"])
@pytest.mark.parametrize("text", TEXTS)
def test_no_value_is_read_by_a_second_shell(tmp_path, text, value):
    """Neither is a flag given to bash or ssh instead."""
    try:
        after = edited(tmp_path, text, sets=[f"trainer.lr={value}"])
    except LabError:
        return
    path = tmp_path / "after.sh"
    path.write_text(after)
    assert plan_of(path)[1].programs[0].flags["lr"].text == value
    assert shown_by_bash(tmp_path, after)[1][2] == value


STUB = """#!/bin/bash
{ printf '%s\\0' "${X-unset}" "$@"; } > "$TOLD"
"""
#: Outer commands that are not here; what they do is in their manuals.
OUTER = {
    "sudo": """keep= ; [ "$1" = -E ] && { keep=1; shift; }
[ "$keep" ] || unset X
exec env "$@"
""",
    "srun": """while [[ $1 == -* ]]; do
  case $1 in --export=NONE*) unset X;; esac
  case $1 in --export=*X=*) v=${1##*X=}; export X=${v%%,*};; esac
  shift
done
exec "$@"
""",
    "ssh": 'unset X; shift; exec bash -c "$*"\n',
    "mpirun": """while [[ $1 == -* ]]; do
  if [ "$1" = -x ]; then export "$2"; fi
  shift 2
done
exec "$@"
""",
    "docker": """unset X; shift
while [[ $1 == -* ]]; do
  if [ "$1" = -e ]; then export "$2"; shift; fi
  shift
done
shift; exec "$@"
""",
}


def shown_by_bash(folder, text):
    """``X`` and the arguments that a script's program gets, the outer commands stood in for."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, body in {
        **{k: f"#!/bin/bash\n{v}" for k, v in OUTER.items()},
        "torchrun": STUB,
    }.items():
        (tools / name).write_text(body)
        (tools / name).chmod(0o755)
    told = folder / "told"
    told.unlink(missing_ok=True)
    (folder / "run.sh").write_text(text.replace("cd /x", "true").replace("bash -lc", "bash -c"))
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "TOLD": str(told)}
    subprocess.run(
        ["bash", folder / "run.sh"], env=environment, cwd=folder, check=False, capture_output=True
    )
    for _ in range(100):  # some are in the background
        if told.exists() and told.stat().st_size:
            break
        time.sleep(0.05)
    variable, *words = told.read_text().split("\0")[:-1]
    return variable, words


ENVIRONMENTS = [
    "torchrun t.py\n",
    "X=2 torchrun t.py\n",
    "export X=2\ntorchrun t.py\n",
    "export X=2\nX=4 torchrun t.py\n",
    "env X=2 torchrun t.py\n",
    "X=3 env A=1 X=2 torchrun t.py\n",
    "sudo torchrun t.py\n",
    "export X=2\nsudo -E torchrun t.py\n",
    "X=2 sudo torchrun t.py\n",
    "sudo -E env X=2 torchrun t.py\n",
    "X=1 sudo X=2 torchrun t.py\n",
    "srun --export=ALL,X=2 torchrun t.py\n",
    "srun --export=NONE torchrun t.py\n",
    "X=2 srun -N1 torchrun t.py\n",
    "mpirun -np 2 -x X=2 torchrun t.py\n",
    "docker run -e X=2 image torchrun t.py\n",
    "docker run --rm image torchrun t.py\n",
    "time torchrun t.py\n",
    "export X=2; time torchrun t.py\n",
    "nohup torchrun t.py > log 2>&1 &\nwait\n",
    "X=2 timeout 60 torchrun t.py\n",
    "bash -c 'X=2 torchrun t.py'\n",
    'export X=2\nbash -c "torchrun t.py | cat"\n',
    "ssh host 'X=2 torchrun t.py'\n",
    "ssh host torchrun t.py\n",
    "bash <<EOF\nexport X=2\ntorchrun t.py\nEOF\n",
    "f() {\n  torchrun t.py\n}\nX=2 f\n",
    "declare -x X=2\nif true; then exec torchrun t.py; fi\n",
    'C="X=2 torchrun t.py"\neval "$C"\n',
    "export X=${X:-2}\ntorchrun t.py\n",
]


@pytest.mark.parametrize("text", ENVIRONMENTS)
def test_a_variable_reaches_the_program_wherever_it_is_set(tmp_path, text):
    after = edited(tmp_path, text, env=["trainer.X=7"])
    assert shown_by_bash(tmp_path, after) == ("7", ["t.py"])
    assert edited(tmp_path, text, env=["X=7"]) == after


@pytest.mark.parametrize("text", [text for text in ENVIRONMENTS if "X=" in text])
def test_a_variable_is_kept_from_the_program_wherever_it_is_set(tmp_path, text):
    path = tmp_path / "own.sh"
    path.write_text(text)
    if "X" not in plan_of(path)[1].programs[0].environment:
        assert "sudo torchrun" in text  # it does not get it as it is
        return
    after = edited(tmp_path, text, unset=["trainer.X"])
    assert shown_by_bash(tmp_path, after) == ("unset", ["t.py"])


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("export X=2\ntorchrun t.py --n $X\n", "export X=7\ntorchrun t.py --n $X\n"),
        ("X=2\nexport X\ntorchrun t.py --n ${X}\n", "X=7\nexport X\ntorchrun t.py --n ${X}\n"),
        (
            "#!/bin/bash\n#SBATCH -N 1\n\ntorchrun t.py --n ${X:-1}\n",
            "#!/bin/bash\n#SBATCH -N 1\n\nexport X=7\ntorchrun t.py --n ${X:-1}\n",
        ),
        (
            "export X=${X:-2}\nN=$((X+1))\ntorchrun t.py --n $X\n",
            "export X=7\nN=$((X+1))\ntorchrun t.py --n $X\n",
        ),
    ],
)
def test_a_variable_that_the_script_reads_is_changed_where_it_is_set(tmp_path, text, after):
    """Before one command it would not reach ``$X``: the shell has put that in already."""
    assert edited(tmp_path, text, env=["X=7"]) == after


@pytest.mark.parametrize(
    ("text", "env", "told"),
    [
        (
            "export X=2\ntorchrun t.py --n $X\ntorchrun o.py\n",
            "trainer 1.X=7",
            "read by the script itself as well (line 2)",
        ),
        ("export X=2\n[ $A ] && X=3\ntorchrun t.py --n $X\n", "X=7", "on several lines"),
    ],
)
def test_where_it_is_ambiguous_the_lines_are_told(tmp_path, text, env, told):
    with pytest.raises(LabError) as caught:
        edited(tmp_path, text, env=[env])
    assert told in caught.value.text.render()


def test_a_variable_of_no_program_cannot_be_removed(tmp_path):
    with pytest.raises(LabError, match="gets the variable"):
        edited(tmp_path, "torchrun t.py\n", unset=["NO_SUCH_VARIABLE_X"])


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


def test_programs_that_one_command_starts_are_named_together(tmp_path):
    text = "for RANK in 0 1; do\n  RANK=$RANK torchrun t.py --lr 1 > r$RANK.log &\ndone\nwait\n"
    assert edited(tmp_path, text, sets=["trainer.lr=7"]) == text.replace("--lr 1", "--lr 7")
    assert edited(tmp_path, text, unset=["trainer.lr"]) == text.replace(" --lr 1", "")
    assert "  X=1 RANK=$RANK torchrun" in edited(tmp_path, text, env=["trainer.X=1"])


def test_programs_of_several_commands_are_to_be_told_apart(tmp_path):
    text = "torchrun t.py --lr 1 &\ntorchrun u.py --lr 1\n"
    with pytest.raises(LabError, match=r"names several programs.*trainer 1, trainer 2"):
        edited(tmp_path, text, sets=["trainer.lr=7"])


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("torchrun t.py \\\n  --lr 1 \\\n  --b 2 &\n", "torchrun t.py \\\n  --b 2 &\n"),
        ("torchrun t.py \\\n  --b 2 \\\n  --lr 1 &\n", "torchrun t.py \\\n  --b 2 &\n"),
        ("torchrun t.py \\\n  --lr 1\necho x\n", "torchrun t.py\necho x\n"),
        ("torchrun t.py \\\n  --lr 1 --b 2\n", "torchrun t.py \\\n  --b 2\n"),
    ],
)
def test_a_line_that_held_only_what_was_removed_goes_with_it(tmp_path, text, after):
    assert edited(tmp_path, text, unset=["trainer.lr"]) == after


def test_flags_of_neighbouring_lines_are_removed_together(tmp_path):
    text = "torchrun t.py \\\n  --a 1 \\\n  --lr 1 \\\n  --b 2 &\nwait\n"
    after = edited(tmp_path, text, unset=["trainer.lr", "trainer.b"])
    assert shown_by_bash(tmp_path, after)[1] == ["t.py", "--a", "1"]
    assert after.endswith("&\nwait\n")
