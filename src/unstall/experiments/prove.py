"""Every scenario, many times: does its fault show, does each change cure it, is it diagnosed.

``python -m unstall.experiments.prove -n 10 [SCENARIO ...]`` prints a line for each fault, change
and control, and one JSON line each to ``--json FILE``. It takes hours for all scenarios with ten
runs each; the numbers in the documentation were made by it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from unstall.experiments.choose import settings_for
from unstall.experiments.closing import close
from unstall.experiments.library import all_scenarios, find
from unstall.experiments.nurse import LabError, Nurse
from unstall.experiments.runner import run_scenario
from unstall.experiments.scenario import Scenario

EXPECTED = {"hang": ("hung",), "failure": ("failed", "hung")}


def main() -> int:
    """Run the scenarios named, or all; 0 where everything was as declared."""
    parser = argparse.ArgumentParser(prog="unstall.experiments.prove")
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("-n", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("fault", "changes", "controls"))
    parser.add_argument("--change", action="append")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="keep the evidence of all runs there")
    arguments = parser.parse_args()
    names = arguments.scenarios or [one.name for one in all_scenarios()]
    good = True
    with Nurse() as nurse:
        for name in names:
            for scenario in find(name)[:1]:
                for variant, extra in _variants(scenario, arguments):
                    good = _row(scenario, variant, extra, arguments, nurse) and good
    return 0 if good else 1


def _variants(scenario: Scenario, arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    if arguments.only in (None, "fault") and not arguments.change:
        found.append(("fault", {}))
    if arguments.only in (None, "changes"):
        found += [
            (one.name, {"changes": (one.name,)})
            for one in scenario.changes
            if not arguments.change or one.name in arguments.change
        ]
    if arguments.only in (None, "controls") and not arguments.change:
        found += [(f"control {one.name}", {"control": one.name}) for one in scenario.controls]
    return found


def _row(
    scenario: Scenario, variant: str, extra: dict[str, Any], arguments: Any, nurse: Nurse
) -> bool:
    right = closed = named = 0
    steps: list[int] = []
    notes: list[str] = []
    for number in range(arguments.n):
        folder = Path(tempfile.mkdtemp(prefix="unstall-prove-"))
        if arguments.keep:
            folder = arguments.keep / scenario.name / f"{variant}-{number}"
            shutil.rmtree(folder, ignore_errors=True)
        try:
            settings = settings_for(
                scenario, seed=arguments.seed + number, steps=arguments.steps, **extra
            )
        except LabError as error:
            print(f"{scenario.name:22} {variant:24} {error}", flush=True)
            return True
        run = run_scenario(scenario, settings, folder, nurse, name=variant)
        steps.append(run.step)
        if variant == "fault":
            right += run.outcome in EXPECTED[scenario.expect]
            closing = close(scenario, run)
            named += closing.named
            closed += closing.closed
            if not closing.closed:
                missing = [mark.text.render() for mark in closing.marks if not mark.found]
                notes.append(f"{run.outcome} {closing.verdict} {missing}")
        else:
            right += run.outcome == "finished"
            if run.outcome != "finished":
                notes.append(f"{run.outcome} at {run.step}")
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    row: dict[str, Any] = {
        "scenario": scenario.name,
        "variant": variant,
        "runs": arguments.n,
        "as_declared": right,
        "steps": steps,
        "notes": notes[:3],
    }
    if variant == "fault":
        row |= {"diagnosed": named, "closed": closed}
    told = f"diagnosed {named}, closed {closed}" if variant == "fault" else ""
    print(
        f"{scenario.name:22} {variant:24} {right} of {arguments.n}  {told}  "
        f"steps {min(steps)}-{max(steps)}  {'; '.join(dict.fromkeys(notes))[:400]}",
        flush=True,
    )
    if arguments.json:
        with arguments.json.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return right == arguments.n and (variant != "fault" or named == arguments.n)


if __name__ == "__main__":
    sys.exit(main())
