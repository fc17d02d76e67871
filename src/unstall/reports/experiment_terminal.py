"""A reproduction, for a terminal: what was run, what it showed, what it was diagnosed as."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from unstall.experiments.closing import Closing
from unstall.experiments.observed import Feature
from unstall.experiments.outcome import Run
from unstall.experiments.scenario import Scenario, Settings
from unstall.experiments.telling import outcome
from unstall.model.text import Text, say, verbatim
from unstall.reports.page import Page


def settings_text(settings: Settings) -> Text:
    """What a run was given."""
    sizes = ", ".join(f"{name} {value:g}" for name, value in settings.sizes.items())
    return say(
        "{ranks} ranks, seed {seed}, {steps} steps{sizes}",
        ranks=settings.ranks,
        seed=settings.seed,
        steps=settings.steps,
        sizes=f"; {sizes}" if sizes else "",
    )


def timeout_text(settings: Settings) -> Text:
    """By what means time-outs were shortened."""
    if settings.timeout >= 600:
        return say("time-outs of the process groups: as the software sets them, not shortened")
    return say(
        "time-outs of the process groups: {seconds} s instead of PyTorch's 10 or 30 minutes, given "
        "to these processes when they make their groups; nothing else is changed",
        seconds=f"{settings.timeout:g}",
    )


def reproduction(
    scenario: Scenario,
    run: Run,
    closing: Closing | None,
    console: Console,
    language: str,
    *,
    shared: Sequence[Feature] = (),
    stack: str | None = None,
) -> None:
    """One run, its fingerprint and the diagnosis of its own evidence."""
    page = Page(console, language)
    page.line(say("{name}: {title}", name=scenario.name, title=scenario.title), "bold")
    console.print()
    page.row(say("fault"), [page.words(scenario.about)])
    if run.settings is not None:
        page.row(say("run with"), [page.words(settings_text(run.settings))])
        page.row(say("time-outs"), [page.words(timeout_text(run.settings))])
    page.row(say("outcome"), [page.words(outcome(run))])
    if closing is not None:
        page.row(say("fingerprint"), [page.mark(one.found, one.text) for one in closing.marks])
        page.row(say("diagnosis"), _diagnosed(page, scenario, closing))
        page.row(say("report"), [page.mark(one.shared, one.text) for one in shared])
        console.print()
        if closing.closed and scenario.causes[0] == "unknown":
            page.line(
                say(
                    "The loop is closed: the evidence of this run, read as a user's would be, does "
                    "not tell the cause, and the diagnosis says so instead of guessing. That is "
                    "the right answer here."
                ),
                "green",
            )
        elif closing.closed:
            page.line(
                say(
                    "The loop is closed: the evidence of this run, read as a user's would be, "
                    "leads to the cause that was produced."
                ),
                "green",
            )
        else:
            page.line(
                say(
                    "The loop is not closed: verdict or fingerprint differ from what was produced."
                ),
                "red",
            )
    elif run.outcome not in ("finished", "slow"):
        console.print()
        page.line(say("Stopped by you before its evidence was diagnosed."), "yellow")
    elif run.settings is not None and run.settings.control and run.outcome == "finished":
        console.print()
        page.line(
            say("The control finished, as it should: it looks like the fault and does no harm."),
            "green",
        )
    else:
        console.print()
        page.line(
            say("It did not hang or fail this time; another --seed or more --steps may show it."),
            "yellow",
        )
    page.whole(say("evidence"), run.evidence)
    if closing is None and run.outcome in ("hung", "failed", "stopped"):
        page.whole(say("look at it"), f"unstall diagnose {shlex.quote(run.evidence)}")
    if scenario.changes:
        page.row(
            say("prove a fix"),
            [
                f"unstall confirm {scenario.name} --change {scenario.changes[0].name}"
                + (f" --stack {escape(stack)}" if stack else "")
            ],
        )


def _diagnosed(page: Page, scenario: Scenario, closing: Closing) -> list[str]:
    told = say(
        "{verdict} ({confidence} %), expected {expected}",
        verdict=_cause(closing.verdict),
        confidence=round(closing.confidence * 100),
        expected=_cause(scenario.causes[0]),
    )
    if closing.verdict == "unknown":  # how sure it is that nothing is sure says nothing to a reader
        told = say("undecided, expected {expected}", expected=_cause(scenario.causes[0]))
    lines = [page.mark(closing.named, told)]
    if closing.diagnosis is not None and closing.diagnosis.causes:
        lines.append(page.words(closing.diagnosis.causes[0].finding.summary))
    return lines


def _cause(name: str | None) -> Text:
    """A cause as a verdict."""
    return say("undecided") if name == "unknown" else verbatim(name or "-")
