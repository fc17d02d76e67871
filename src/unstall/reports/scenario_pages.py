"""The list of scenarios, a line or two each, and all that is declared of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unstall.causes import cause as cause_named
from unstall.experiments.not_here import WHY
from unstall.experiments.scenario import Scenario
from unstall.experiments.sizes import bounds, plain
from unstall.model.text import Text, say, verbatim
from unstall.reports.explain import FAMILIES
from unstall.reports.page import Page


def _family(scenario: Scenario) -> str:
    """The family of its first cause that is one."""
    known = [cause_named(one) for one in scenario.causes if one != "unknown"]
    return next((one.family for one in known if one is not None), "none")


def listing(scenarios: Sequence[Scenario], console: Console, language: str) -> None:
    """All scenarios by the family of their cause, and how to see more."""
    page = Page(console, language)
    widest = max((len(one.name) for one in scenarios), default=0)
    ordered = sorted(scenarios, key=lambda one: (_family(one) == "none", _family(one), one.name))
    for family, members in groupby(ordered, _family):
        page.line(FAMILIES[family], "bold")
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=widest + 2, no_wrap=True)
        grid.add_column(overflow="fold")
        for one in members:
            grid.add_row(f"  {escape(one.name)}", page.words(one.title))
        console.print(grid)
    console.print()
    for text, command in (
        (say("its causes, changes, controls, sizes"), "unstall reproduce NAME --about"),
        (say("run it and diagnose its evidence"), "unstall reproduce NAME"),
        (say("prove its fix: A as it is, B changed"), "unstall confirm NAME"),
    ):
        page.line(say("{command}  {text}", command=f"{command:<32}", text=text))
    page.line(
        say(
            "NAME may also be a cause: unstall reproduce engine-desync. Nothing can be reproduced "
            "here of {causes}: unstall explain CAUSE.",
            causes=", ".join(sorted(WHY)),
        )
    )


def about(
    scenario: Scenario, console: Console, language: str, *, stacks: Sequence[str], asked: str = ""
) -> None:
    """All that is declared of a scenario.

    Args:
        scenario: it.
        console: where to.
        language: of the page.
        stacks: real software that it can be run with, as ``--stack`` wants it.
        asked: the stack of which this is the declaration; empty where it is the replica.
    """
    page = Page(console, language)
    page.line(say("{name}: {title}", name=scenario.name, title=scenario.title), "bold")
    console.print()
    page.row(say("fault"), [page.words(scenario.about)])
    page.row(say("causes"), [page.words(_causes(scenario))])
    page.row(say("shows as"), [page.words(_shows(scenario))])
    page.row(
        say("changes"),
        [_named(page, one.name, one.text) for one in scenario.changes],
    )
    page.row(
        say("controls"),
        [_named(page, one.name, one.text) for one in scenario.controls],
    )
    page.row(verbatim("--size"), [_named(page, *one) for one in _sizes(scenario)])
    page.row(say("other"), [page.words(text) for text in _other(scenario)])
    page.row(say("stacks"), [f"--stack {escape(one)}" for one in stacks])
    more = f" --stack {escape(asked)}" if asked else ""
    console.print()
    page.row(
        say("run it"), [f"unstall reproduce {scenario.name}{more}", *_variants(scenario, more)]
    )
    page.row(
        say("prove a fix"),
        [f"unstall confirm {scenario.name} --change {one.name}{more}" for one in scenario.changes],
    )


def _named(page: Page, name: str, text: Text) -> str:
    return f"[bold]{escape(name)}[/]: {page.words(text)}"


def _causes(scenario: Scenario) -> Text:
    if scenario.causes[0] != "unknown":
        return verbatim(", ".join(scenario.causes))
    others = ", ".join(scenario.causes[1:])
    if not others:
        return say("the right verdict is “undecided”")
    return say("the right verdict is “undecided”; a candidate: {causes}", causes=others)


def _shows(scenario: Scenario) -> Text:
    if scenario.expect == "hang":
        return say("a hang within {steps} steps", steps=scenario.by)
    if scenario.by:
        return say("a failure within {steps} steps", steps=scenario.by)
    return say("a failure before the first step")


def _sizes(scenario: Scenario) -> list[tuple[str, Text]]:
    found = []
    for name, value in scenario.sizes.items():
        limits = bounds(name)
        places: dict[str, Text | str] = {
            "text": scenario.size_texts[name],
            "least": plain(limits.least),
            "most": plain(limits.most),
        }
        text = (
            say("{text} (whole, {least} to {most})", **places)
            if limits.whole
            else say("{text} ({least} to {most})", **places)
        )
        found.append((f"{name}={plain(value)}", text))
    return found


def _other(scenario: Scenario) -> list[Text]:
    found = [
        say(
            "--ranks {ranks} ({least} to {most})",
            ranks=scenario.ranks,
            least=scenario.least,
            most=scenario.most,
        ),
        say(
            "--steps {steps} of a run that is to finish; {long} with confirm --long",
            steps=scenario.steps,
            long=scenario.long_steps,
        ),
        say("--timeout {seconds} s of the process groups", seconds=plain(scenario.timeout)),
    ]
    if scenario.cuda != "no":
        found.append(say("--backend nccl where there is a GPU for each rank"))
    if "root" in scenario.needs:
        found.append(say("needs root: it limits what the system gives to its processes"))
    if "memory-cgroup" in scenario.needs:
        found.append(say("needs a memory cgroup that it may write to"))
    return found


def _variants(scenario: Scenario, more: str) -> list[str]:
    """One call with a size, one with a control, to be copied."""
    found = []
    if scenario.sizes:
        name, value = next(iter(scenario.sizes.items()))
        larger = min(value + 1 if bounds(name).whole else value * 1.5, bounds(name).most)
        found.append(f"unstall reproduce {scenario.name} --size {name}={plain(larger)}{more}")
    if scenario.controls:
        control = scenario.controls[0].name
        found.append(f"unstall reproduce {scenario.name} --control {control}{more}")
    return found
