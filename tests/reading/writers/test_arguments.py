from __future__ import annotations

import pytest

from unstall.reading.writers.arguments import RefusedArguments


@pytest.mark.parametrize(
    "line",
    [
        "fit.py: error: unrecognized arguments: --drop-last true",
        "[rank1]: fit.py: error: unrecognized arguments: --lr2 1",
        "[default0]:fit.py: error: the following arguments are required: --data",
        "fit.py: error: argument --steps: invalid int value: '1e3'",
        "fit.py: error: argument --mode: invalid choice: 'x' (choose from 'a', 'b')",
        "fit.py: error: argument --lr: expected one argument",
        "fit.py: error: argument --a: not allowed with argument --b",
        "fit.py: error: ambiguous option: --mo could match --model, --mode",
        "accelerate <command> [<args>]: error: unrecognized arguments: --x",
        "accelerate launch: error: unrecognized arguments: --x",
    ],
)
def test_what_argparse_says(read, line):
    (fact,) = read(RefusedArguments, line + "\n")
    assert fact.type == "argparse.ArgumentError"
    assert line.endswith(fact.message)
    assert fact.frames == ()


@pytest.mark.parametrize(
    "line",
    [
        'fit.py:12: error: Name "x" is not defined',
        "gcc: error: unrecognized command-line option '-x'",
        "step 3: error: 0.25",
        "it said: unrecognized arguments",
    ],
)
def test_other_errors(read, line):
    assert read(RefusedArguments, line + "\n") == []
