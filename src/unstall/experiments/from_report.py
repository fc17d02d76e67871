"""Scenario and sizes from a diagnosis of a report."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from unstall.experiments.library import find
from unstall.experiments.not_here import WHY, not_here
from unstall.experiments.nurse import LabError
from unstall.experiments.observed import settings_from
from unstall.experiments.scenario import Scenario
from unstall.experiments.sizes import bounds, most_ranks
from unstall.model.facts import Unreadable
from unstall.model.findings import Diagnosis
from unstall.model.text import Text, say


class Chosen(msgspec.Struct, frozen=True):
    """What a report leads to.

    Attributes:
        diagnosis: of the report.
        scenario: its name.
        ranks: trainer ranks, where the report tells them and the scenario takes them.
        sizes: in the form of ``--size``.
        text: what was chosen and why.
    """

    diagnosis: Diagnosis
    scenario: str
    ranks: int | None
    sizes: tuple[str, ...]
    text: Text


def read(report: Sequence[str]) -> Diagnosis:
    """Diagnose a report; ``-`` is standard input.

    Raises:
        LabError: a file of it does not exist or cannot be read, or nothing of it could be.
    """
    from unstall.diagnosis import diagnose

    stdin = sys.stdin.buffer if "-" in report and sys.stdin is not None else None
    found = diagnose(report, stdin=stdin)
    refuse_unread(found, report)
    return found


def refuse_unread(found: Diagnosis, report: Sequence[str]) -> None:
    """Whether all that was named could be read.

    Parts of it, as one member of an archive, may be missing: the rest is diagnosed.

    Raises:
        LabError: a file or folder that was named could not.
    """
    bad = [
        one
        for one in found.unread
        if isinstance(one, Unreadable)
        and one.fatal
        and (one.place.source in report or not found.counts.get("sources"))
    ]
    if bad:
        raise LabError(
            say(
                "{source}: {reason}. --from takes what unstall diagnose takes: logs, launch "
                "scripts, stacks, Flight Recorder dumps, pasted reports, folders of them. All "
                "scenarios: unstall reproduce",
                source=bad[0].place.source,
                reason=bad[0].text or bad[0].reason,
            )
        )


def choose(report: Sequence[str], name: str | None) -> Chosen:
    """Diagnose a report and pick the scenario of its first cause that has one.

    Args:
        report: files and folders.
        name: a scenario or cause that the user named: then only its sizes are the report's.

    Raises:
        LabError: the report cannot be read, nothing follows from it, or no cause of it can be
            reproduced.
    """
    diagnosis = read(report)
    causes = [one.finding.cause for one in diagnosis.causes]
    if name is not None:
        from unstall.experiments.choose import scenario_named

        return _chosen(diagnosis, scenario_named(name), causes)
    if not causes or causes == ["unknown"]:
        raise LabError(
            say(
                "The report holds no diagnosis from which a scenario follows (found: {causes}): "
                "unstall diagnose {report} shows what was read of it. Give more of what there is, "
                "or name what to run: unstall reproduce NAME --from {report}",
                causes=", ".join(causes) or "-",
                report=" ".join(report),
            )
        )
    for cause in causes:
        # a scenario whose right answer is “undecided” says nothing of what a user's report hides
        if cause != "unknown" and (found := find(cause)):
            return _chosen(diagnosis, found[0], causes)
    first = next(cause for cause in causes if cause != "unknown")
    if first in WHY and (why := not_here(first)) is not None:
        raise LabError(say("The report's cause: {why}", why=why))
    raise LabError(
        say(
            "No cause found in the report has a scenario (found: {causes}). All: unstall reproduce",
            causes=", ".join(causes),
        )
    )


def _chosen(diagnosis: Diagnosis, scenario: Scenario, causes: list[str]) -> Chosen:
    known = settings_from(diagnosis)
    ranks, engines = known.get("ranks"), known.get("engines")
    left: list[str] = []
    most = min(scenario.most, most_ranks())
    if ranks is not None and not scenario.least <= ranks <= most:
        left.append(f"--ranks {ranks}")
        ranks = None
    sizes: tuple[str, ...] = ()
    if engines is not None and "engines" in scenario.sizes:
        if bounds("engines").least <= engines <= bounds("engines").most:
            sizes = (f"engines={engines}",)
        else:
            left.append(f"--size engines={engines}")
    places = {
        "scenario": scenario.name,
        "ranks": f" --ranks {ranks}" if ranks else "",
        "sizes": "".join(f" --size {one}" for one in sizes),
    }
    if causes and causes[0] in scenario.causes:
        text = say(
            "the report's cause is {cause}: {scenario}{ranks}{sizes}", cause=causes[0], **places
        )
    else:
        text = say(
            "the report's first cause is {first}; what is run is of {cause}: "
            "{scenario}{ranks}{sizes}",
            first=causes[0] if causes else "-",
            cause=scenario.causes[0],
            **places,
        )
    if left:
        text = say(
            "{chosen} (the report's own {left} would not run on this machine)",
            chosen=text,
            left=", ".join(left),
        )
    return Chosen(diagnosis, scenario.name, ranks, sizes, text)
