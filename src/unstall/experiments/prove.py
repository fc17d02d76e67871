"""Every scenario, many times: does its fault show, does each change cure it, is it diagnosed.

``python -m unstall.experiments.prove -n 10 --jobs 4 [SCENARIO ...]`` prints a line for each fault,
change and control, in their order; ``--json FILE`` gets one JSON line each and ``--markdown FILE``
a table. Progress goes to standard error. The numbers in the documentation were made by it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from unstall.experiments.choose import scenario_named, settings_for
from unstall.experiments.interrupts import stop_once
from unstall.experiments.library import all_scenarios
from unstall.experiments.nurse import LabError, require_lab
from unstall.experiments.prove_pool import Result, Task, run_all
from unstall.experiments.scenario import Scenario, Settings

EXPECTED = {"hang": ("hung",), "failure": ("failed", "hung")}


class Row(msgspec.Struct, kw_only=True):
    """All runs of one fault, change or control.

    Attributes:
        variant: ``fault``, a change's name or ``control NAME``.
        runs: how many there are to be.
        skipped: why this machine cannot run it.
        results: by number of the run; filled as they come.
    """

    scenario: Scenario
    variant: str
    runs: int
    skipped: str = ""
    results: dict[int, Result] = {}

    @property
    def is_fault(self) -> bool:
        """Whether the fault is on, without a change."""
        return self.variant == "fault"

    @property
    def ordered(self) -> list[Result]:
        """The results in the order of the runs."""
        return [self.results[number] for number in sorted(self.results)]

    @property
    def right(self) -> int:
        """Runs that ended as declared."""
        wanted = EXPECTED[self.scenario.expect] if self.is_fault else ("finished",)
        return sum(one.outcome in wanted for one in self.ordered)

    @property
    def named(self) -> int:
        """Runs whose evidence was diagnosed as the scenario's cause."""
        return sum(one.named for one in self.ordered)

    @property
    def closed(self) -> int:
        """Runs whose fingerprint matched as well."""
        return sum(one.closed for one in self.ordered)

    @property
    def good(self) -> bool:
        """Whether all was as declared."""
        if self.skipped:
            return True
        return self.right == self.runs and (not self.is_fault or self.named == self.runs)

    @property
    def notes(self) -> list[str]:
        """What was not as declared, each once."""
        found = []
        for one in self.ordered:
            if one.error:
                found.append(one.error)
            elif self.is_fault and not one.closed:
                found.append(" ".join([one.outcome, one.verdict or "no cause", *one.missing]))
            elif not self.is_fault and one.outcome != "finished":
                found.append(f"{one.outcome} at {one.step}: {one.verdict or 'no cause'}")
        return list(dict.fromkeys(found))

    @property
    def steps(self) -> str:
        """First to last step that the runs came to."""
        steps = [one.step for one in self.ordered]
        if not steps:
            return "-"
        return f"{min(steps)}-{max(steps)}" if min(steps) < max(steps) else str(steps[0])


def main(words: Sequence[str] | None = None) -> int:
    """Run the scenarios named, or all; 0 where everything was as declared."""
    arguments = _arguments(words)
    stop_once()
    try:
        require_lab()
        rows = list(_rows(arguments))
        _writable(arguments)
    except (LabError, OSError) as error:
        print(f"prove: {error}", file=sys.stderr)
        return 2
    if not rows:
        print("prove: nothing of that name is to be run", file=sys.stderr)
        return 2
    tasks = list(_tasks(rows, arguments))
    try:
        _run(rows, tasks, arguments)
    except LabError as error:
        print(f"prove: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("prove: stopped", file=sys.stderr)
        return 130
    if arguments.markdown:
        arguments.markdown.write_text(markdown(rows), encoding="utf-8")
    return 0 if all(row.good for row in rows) else 1


def _writable(arguments: argparse.Namespace) -> None:
    """Whether what is to be written can be, before hours of runs rather than after them.

    Raises:
        OSError: it cannot.
    """
    for path in (arguments.json, arguments.markdown):
        if path is not None:
            with path.open("a", encoding="utf-8"):
                pass


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="unstall.experiments.prove")
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("-n", type=_count, default=10, help="runs of each")
    parser.add_argument("--jobs", type=_count, default=1, help="runs at one time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("fault", "changes", "controls"))
    parser.add_argument("--change", action="append")
    parser.add_argument("--steps", type=_count)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("--keep", type=Path, help="keep the evidence of all runs there")
    return parser.parse_args(words)


# --- what is to be run -------------------------------------------------------------------------


def _rows(arguments: Any) -> Iterator[Row]:
    names = arguments.scenarios or [one.name for one in all_scenarios()]
    for name in names:
        scenario = scenario_named(name)
        for variant in _variants(scenario, arguments):
            yield Row(scenario=scenario, variant=variant, runs=arguments.n)


def _variants(scenario: Scenario, arguments: Any) -> list[str]:
    found: list[str] = []
    if arguments.only in (None, "fault") and not arguments.change:
        found.append("fault")
    if arguments.only in (None, "changes"):
        found += [
            one.name
            for one in scenario.changes
            if not arguments.change or one.name in arguments.change
        ]
    if arguments.only in (None, "controls") and not arguments.change:
        found += [f"control {one.name}" for one in scenario.controls]
    return found


def _tasks(rows: Sequence[Row], arguments: Any) -> Iterator[Task]:
    number = 0
    for row in rows:
        for run in range(arguments.n):
            try:
                settings = _settings(row, arguments.seed + run, arguments.steps)
            except LabError as error:
                row.skipped = str(error)
                break
            keep = None
            if arguments.keep:
                folder = arguments.keep / row.scenario.name / f"{row.variant}-{run}"
                keep = str(folder.resolve())
            yield Task(number, row.scenario.name, row.variant, settings, keep)
            number += 1


def _settings(row: Row, seed: int, steps: int | None) -> Settings:
    control = row.variant.removeprefix("control ") if row.variant.startswith("control ") else None
    changed = not row.is_fault and control is None
    return settings_for(
        row.scenario,
        seed=seed,
        steps=steps,
        changes=(row.variant,) if changed else (),
        control=control,
    )


def _alone(rows: Sequence[Row]) -> list[str]:
    """Scenarios of which one run would disturb another of the same."""
    limited = hasattr(os, "geteuid") and os.geteuid() != 0
    return sorted(
        {
            row.scenario.name
            for row in rows
            # both read the kernel's log; without root, both count one user's processes
            if "memory-cgroup" in row.scenario.needs
            or (limited and "process-limit" in row.scenario.causes)
            # its engines and trainer compute all the time: a second one only slows the first
            or row.scenario.name == "grpo-rollout-server"
        }
    )


# --- running -----------------------------------------------------------------------------------


def _run(rows: Sequence[Row], tasks: Sequence[Task], arguments: Any) -> None:
    place = {(row.scenario.name, row.variant): row for row in rows}
    waiting = list(rows)
    done = 0

    def hear(task: Task, result: Result) -> None:
        nonlocal done
        done += 1
        place[task.scenario, task.variant].results[task.number] = result
        what = result.error or f"{result.outcome} at step {result.step}"
        print(
            f"{done}/{len(tasks)} {task.scenario} {task.variant}: {what} ({result.seconds:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
        show()

    def show() -> None:
        while waiting and (waiting[0].skipped or len(waiting[0].results) == waiting[0].runs):
            row = waiting.pop(0)
            print(line(row), flush=True)
            if arguments.json:
                with arguments.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(as_json(row)) + "\n")

    show()
    if tasks:
        run_all(tasks, arguments.jobs, hear, alone=_alone(rows))


# --- telling -----------------------------------------------------------------------------------


def line(row: Row) -> str:
    """One row as text."""
    head = f"{row.scenario.name:22} {row.variant:24}"
    if row.skipped:
        return f"{head} {row.skipped}"
    told = f"diagnosed {row.named}, closed {row.closed}" if row.is_fault else ""
    notes = "; ".join(row.notes)[:400]
    return f"{head} {row.right} of {row.runs}  {told}  steps {row.steps}  {notes}".rstrip()


def as_json(row: Row) -> dict[str, Any]:
    """One row for programs."""
    found: dict[str, Any] = {
        "scenario": row.scenario.name,
        "variant": row.variant,
        "runs": 0 if row.skipped else row.runs,
        "as_declared": row.right,
        "steps": [one.step for one in row.ordered],
        "seconds": [one.seconds for one in row.ordered],
        "notes": [row.skipped] if row.skipped else row.notes[:5],
    }
    if row.is_fault:
        found |= {"diagnosed": row.named, "closed": row.closed}
    return found


def markdown(rows: Sequence[Row]) -> str:
    """All rows as a table, one line a scenario."""
    lines = [
        "| scenario | fault shows | diagnosed as its cause | fingerprint matches | at step "
        "| finishes with the change |",
        "|---|---|---|---|---|---|",
    ]
    for scenario in dict.fromkeys(row.scenario.name for row in rows):
        own = [row for row in rows if row.scenario.name == scenario]
        fault = next((row for row in own if row.is_fault), None)
        others = [row for row in own if not row.is_fault]
        cells = ["", "", "", ""]
        if fault is not None and fault.skipped:
            cells[0] = fault.skipped
        elif fault is not None:
            runs = fault.runs
            counts = (fault.right, fault.named, fault.closed)
            cells = [*(f"{count} of {runs}" for count in counts), fault.steps]
        cured = "<br>".join(
            f"`{row.variant}` {row.skipped or f'{row.right} of {row.runs}'}" for row in others
        )
        lines.append("| " + " | ".join([f"`{scenario}`", *cells, cured]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
