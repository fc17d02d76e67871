"""Scenario and sizes from a diagnosis of a report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unstall.experiments.library import find
from unstall.experiments.nurse import LabError
from unstall.experiments.observed import settings_from
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


def choose(report: Sequence[str], name: str | None) -> Chosen:
    """Diagnose a report and pick the scenario of its first cause that has one.

    Raises:
        LabError: no cause of the report can be reproduced.
    """
    from unstall.diagnosis import diagnose

    diagnosis = diagnose(report)
    causes = [one.finding.cause for one in diagnosis.causes]
    for cause in [name] if name is not None else causes:
        for scenario in find(cause):
            known = settings_from(diagnosis)
            ranks = known.get("ranks")
            if ranks is not None and not scenario.least <= ranks <= scenario.most:
                ranks = None
            engines = known.get("engines")
            sizes: tuple[str, ...] = ()
            if engines is not None and "engines" in scenario.sizes:
                sizes = (f"engines={engines}",)
            return Chosen(
                diagnosis,
                scenario.name,
                ranks,
                sizes,
                say(
                    "the report's cause is {cause}: {scenario}{ranks}{sizes}",
                    cause=causes[0] if causes else "-",
                    scenario=scenario.name,
                    ranks=f" --ranks {ranks}" if ranks else "",
                    sizes="".join(f" --size {one}" for one in sizes),
                ),
            )
    raise LabError(
        say(
            "No cause found in the report has a scenario (found: {causes}). All: unstall reproduce",
            causes=", ".join(causes) or "-",
        )
    )
