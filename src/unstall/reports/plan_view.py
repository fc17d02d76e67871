"""A launch plan as every report shows it."""

from __future__ import annotations

from dataclasses import dataclass

from unstall.model.findings import Diagnosis
from unstall.model.plan import Plan
from unstall.model.text import Text, say
from unstall.reports.outline import Outline, outline
from unstall.reports.words import speak

ORDER = ("conflict", "suspicious", "no effect", "ok")


@dataclass(frozen=True)
class PlanView:
    """The outline's parts that a plan fills, and its first line."""

    outline: Outline
    headline: str
    counts: dict[str, int]
    titles: dict[str, str]
    names: dict[str, int]

    def brief(self, cite: str) -> str:
        """A line's place without its folder, where only one source has that name."""
        source, _, line = cite.rpartition(":")
        name = source.rpartition("/")[2]
        return f"{name}:{line}" if name and self.names.get(name, 0) < 2 else cite


def plan_view(plan: Plan, language: str) -> PlanView:
    """A plan in a language; settings worst first."""
    counts = {name: sum(j.judgement == name for j in plan.judgements) for name in ORDER}
    titles = {
        "why": say("Why"),
        "change": say("change"),
        "notes": say("Noticed while reading"),
        "programs": say("Programs"),
    }
    return PlanView(
        outline(Diagnosis(verdict="inconclusive", plan=plan), language),
        speak(_headline(plan, counts), language),
        counts,
        {key: speak(text, language) for key, text in titles.items()},
        _names(plan),
    )


def _names(plan: Plan) -> dict[str, int]:
    """How many sources have each file name."""
    sources = {p.source for j in plan.judgements for p in j.places}
    sources |= {p.source for note in plan.notes for p in note.places}
    sources |= {program.place.source for program in plan.programs if program.place}
    found: dict[str, int] = {}
    for source in sources:
        name = source.rpartition("/")[2]
        found[name] = found.get(name, 0) + 1
    return found


def _headline(plan: Plan, counts: dict[str, int]) -> Text:
    count = len(plan.programs)
    if not count and not plan.judgements:
        return say("No program of a known kind is started here.")
    programs = say("1 program") if count == 1 else say("{n} programs", n=count)
    if not count:
        programs = say("this machine")
    wrong = counts["conflict"]
    if not wrong and not counts["suspicious"]:
        return say("{programs}: nothing conflicts.", programs=programs)
    conflicts = (
        say("no conflict")
        if not wrong
        else say("1 conflict")
        if wrong == 1
        else say("{n} conflicts", n=wrong)
    )
    return say(
        "{programs}: {conflicts}, {suspicious} suspicious, {idle} without effect, {ok} in order.",
        programs=programs,
        conflicts=conflicts,
        suspicious=counts["suspicious"],
        idle=counts["no effect"],
        ok=counts["ok"],
    )
