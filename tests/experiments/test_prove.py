"""The table of all scenarios: its order, its counting, and that it leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from unstall.experiments.library import find
from unstall.experiments.prove import Row, as_json, line, main, markdown
from unstall.experiments.prove_pool import Result, Task, next_task
from unstall.experiments.scenario import Settings

HANG = find("late-saving")[0]


def row(variant, *results):
    return Row(
        scenario=HANG,
        variant=variant,
        runs=len(results),
        results=dict(enumerate(results)),
    )


def fault(number, outcome="hung", step=3, **more):
    return Result(number=number, outcome=outcome, step=step, **more)


def test_a_fault_counts_outcome_verdict_and_fingerprint_apart():
    found = row(
        "fault",
        fault(0, named=True, closed=True, verdict="slow-checkpoint-or-eval"),
        fault(1, named=True, verdict="slow-checkpoint-or-eval", missing=("rank 1 is not in it",)),
        fault(2, step=4, verdict="unknown"),
        fault(3, "finished", 6),
    )
    assert (found.right, found.named, found.closed, found.good) == (3, 2, 1, False)
    assert "3 of 4  diagnosed 2, closed 1  steps 3-6" in line(found)
    assert as_json(found)["steps"] == [3, 3, 4, 6]
    assert found.notes == [
        "hung slow-checkpoint-or-eval rank 1 is not in it",
        "hung unknown",
        "finished no cause",
    ]


def test_a_change_is_right_where_every_run_finished():
    assert row("sharded-save", fault(0, "finished", 6), fault(1, "finished", 6)).good
    hung = row("sharded-save", fault(0, "finished", 6), fault(1, verdict="unknown"))
    assert not hung.good
    assert "hung at 3: unknown" in line(hung)


def test_results_stand_in_the_order_of_the_runs_however_they_came():
    found = row("fault")
    found.results[7] = fault(7, step=9)
    found.results[2] = fault(2, step=1)
    assert [one.number for one in found.ordered] == [2, 7]


def test_the_table_has_a_line_for_each_scenario():
    text = markdown(
        [
            row("fault", fault(0, named=True, closed=True)),
            row("sharded-save", fault(0, "finished", 6)),
        ]
    )
    last = text.splitlines()[-1]
    assert last.startswith("| `late-saving` | 1 of 1 | 1 of 1 | 1 of 1 | 3 |")
    assert "`sharded-save` 1 of 1" in last


def test_no_two_runs_of_one_that_wants_to_be_alone():
    tasks = [Task(n, name, "fault", Settings()) for n, name in enumerate(("a", "a", "b"))]
    assert next_task(tasks, {"a"}, ["a"]).scenario == "b"
    assert next_task(tasks, {"a"}, []).number == 0
    assert next_task(tasks[:2], {"a"}, ["a"]) is None


def test_an_unknown_scenario_is_told(capsys):
    assert main(["late-savin"]) == 2
    assert "late-saving" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="process trees are followed on Linux")
def test_two_at_a_time_and_an_interruption_leaves_nothing(tmp_path):
    """Rows are printed in their order; Ctrl-C stops the workers and all that they started."""
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("torch")
    table, rows = tmp_path / "table.md", tmp_path / "rows.jsonl"
    words = ["-n", "1", "--jobs", "2", "--only", "fault", "--markdown", str(table)]
    command = [sys.executable, "-m", "unstall.experiments.prove", *words, "--json", str(rows)]
    done = subprocess.run(
        [*command, "wrong-interface", "size-mismatch"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    names = [text.split()[0] for text in done.stdout.splitlines()]
    assert names == ["wrong-interface", "size-mismatch"]
    assert [json.loads(text)["runs"] for text in rows.read_text().splitlines()] == [1, 1]
    assert table.read_text().count("1 of 1") >= 2

    process = subprocess.Popen(
        [*command, "-n", "3", "wrong-interface", "size-mismatch"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert re.match(r"1/6 ", process.stderr.readline())
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 4, "two workers with a nursery each"
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    process.stderr.close()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "0"],
        ["-n", "-3"],
        ["--jobs", "0"],
        ["--steps", "-5"],
        ["--change", "no-such-change"],
        ["--json", "{folder}/missing/rows.jsonl"],
        ["--markdown", "{folder}"],
    ],
)
def test_what_cannot_be_run_or_written_is_no_success(tmp_path, words):
    words = [word.format(folder=tmp_path) for word in words]
    try:
        code = main([*words, "port-taken"])
    except SystemExit as error:
        code = error.code
    assert code == 2
