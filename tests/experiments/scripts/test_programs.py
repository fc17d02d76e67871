"""Programs that no framework's rules know can be changed as any other."""

import pytest

from unstall.experiments.scripts.changes import parse_edits
from unstall.experiments.scripts.edit import apply, plan_of_text


def changed(text, *sets, env=()):
    plan = plan_of_text(text, "launch.sh")
    return apply(text, plan, parse_edits(plan, sets, (), env))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("python main.py --lr 1\n", "main"),
        ("A=1 python3.11 -u src/run.py --lr 1 2>&1 | tee log\n", "run"),
        ("nohup ./tool.py --lr 1 &\n", "tool"),
        ("python -m pkg.cli --lr 1\n", "pkg.cli"),
    ],
)
def test_any_python_program_has_a_name(text, label):
    after = text.replace("--lr 1", "--lr 7")
    assert changed(text, f"{label}.lr=7") == after
    assert changed(text, "trainer.lr=7") == after  # the only one
    assert "X=3" in changed(text, env=["X=3"])


def test_beside_a_known_program_it_is_named_by_its_file():
    text = "python prepare.py --n 1\ntorchrun t.py --lr 1\npython prepare.py --n 2\n"
    plan = plan_of_text(text, "launch.sh")
    assert [p.label for p in plan.programs] == ["trainer", "prepare", "prepare 2"]
    assert changed(text, "prepare 2.n=5") == text.replace("--n 2", "--n 5")
    assert changed(text, "trainer.lr=5") == text.replace("--lr 1", "--lr 5")


@pytest.mark.parametrize(
    "text", ["python -c 'print(1)'\n", "python - <<E\n1\nE\n", "P=$(python port.py)\n", "ls x.py\n"]
)
def test_what_is_no_program_of_its_own_is_none(text):
    assert plan_of_text(text, "launch.sh").programs == ()
