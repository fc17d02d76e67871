"""What of the environment comes through the commands around a program."""

import pytest

from unstall.launch import read_plan
from unstall.launch.texts import Script
from unstall.model.facts import Place


def received(text):
    (program,) = read_plan([Script(Place("launch.sh", 1), text)]).programs
    own = program.environment.get("X")
    return own.text if own is not None else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("export X=2\nenv -u X torchrun t.py\n", None),
        ("export X=2\nenv --unset=X torchrun t.py\n", None),
        ("export X=2\nenv -u Y torchrun t.py\n", "2"),
        ("export X=2\nenv -u X X=3 torchrun t.py\n", "3"),
        ("X=2 env -i torchrun t.py\n", None),
        ("X=2 env -i X=3 torchrun t.py\n", "3"),
        ("export X=2\nsudo torchrun t.py\n", None),
        ("export X=2\nsudo -E torchrun t.py\n", "2"),
        ("export X=2\nsudo --preserve-env=A,X torchrun t.py\n", "2"),
        ("export X=2\nsudo --preserve-env=A torchrun t.py\n", None),
        ("sudo X=2 torchrun t.py\n", "2"),
        ("sudo bash -c 'X=2 torchrun t.py'\n", "2"),
        ("export X=2\nsrun --export=ALL,X=4 torchrun t.py\n", "4"),
        ("srun --export=ALL,X=4 env X=5 torchrun t.py\n", "5"),
        ("srun --export=NONE bash -c 'export X=5; torchrun t.py'\n", "5"),
        ("X=2 srun --export=NONE bash -c 'torchrun t.py'\n", None),
        ("docker run -e X=2 image bash -c 'export X=5 && torchrun t.py'\n", "5"),
        ("export X=2\ndocker run image torchrun t.py\n", None),
        ("docker run image env X=5 torchrun t.py\n", "5"),
        ("X=5 bash -c 'srun --export=NONE torchrun t.py'\n", None),
        ("mpirun -np 4 -H a:2,b:2 -x X=2 env X=5 python t.py --lr 1\n", "5"),
    ],
)
def test_a_program_receives_what_reaches_it(text, value):
    assert received(text) == value
