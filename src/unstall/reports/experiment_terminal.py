"""Reports of experiments for a terminal: a reproduction, a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text as Styled

from unstall.experiments.closing import Closing, Seen
from unstall.experiments.last_words import advice
from unstall.experiments.observed import Feature
from unstall.experiments.outcome import Run, Verdict
from unstall.experiments.scenario import Scenario, Settings
from unstall.experiments.statistics import runs_for, runs_to_clear
from unstall.experiments.stopping import measured
from unstall.experiments.telling import outcome
from unstall.experiments.trials import Comparison, Tally
from unstall.model.text import Text, say, verbatim


class Page:
    """Rows of a label and its text, in one language."""

    def __init__(self, console: Console, language: str) -> None:
        self.console = console
        self.language = language

    def words(self, text: Text) -> str:
        """A sentence, safe for a terminal."""
        from unstall.reports.words import clean

        return escape(clean(text.render(self.language)))

    def line(self, text: Text, style: str = "") -> None:
        """A line over the whole width."""
        words = self.words(text)
        self.console.print(f"[{style}]{words}[/]" if style else words)

    def row(self, label: Text, texts: Sequence[str]) -> None:
        """A label with lines beside it."""
        if not texts:
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=13, style="bold")
        grid.add_column(overflow="fold")  # what is cut cannot be copied
        for number, text in enumerate(texts):
            grid.add_row(self.words(label) if number == 0 else "", text)
        self.console.print(grid)

    def whole(self, label: Text, text: str) -> None:
        """A label and a path or a command, however long: one that is broken cannot be copied."""
        beside = Styled.from_markup(self.words(label), style="bold")
        beside.pad_right(max(15 - beside.cell_len, 0))
        self.console.print(beside + Styled(text), soft_wrap=True)

    def mark(self, good: bool, text: Text) -> str:
        """A text with a sign of whether it holds."""
        sign = "[green]✓[/]" if good else "[red]✗[/]"
        return f"{sign} {self.words(text)}"


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


def comparison(found: Comparison, console: Console, language: str) -> None:
    """A against B: what happened, how sure it is, what follows."""
    page = Page(console, language)
    page.row(verbatim("A"), _side(page, found.a))
    page.row(verbatim("B"), _side(page, found.b))
    console.print()
    if found.answer != "stopped":  # a number of runs that nobody chose proves nothing
        page.row(say("how sure"), [page.words(text) for text in _sure(found)])
    mind = []
    if found.a.bad and found.a.finished:
        mind.append(
            say(
                "{count} of {runs} runs without the change finished too: a single run that "
                "finishes proves nothing",
                count=len(found.a.finished),
                runs=found.a.counted,
            )
        )
    if other := _otherwise(found):
        mind.append(
            say("B hung or failed for another reason than A: {causes}", causes=", ".join(other))
        )
    mind += [
        say(
            "{side} never made a first step, {count} times: nothing came for the time that "
            "--start-up allows. If it only starts slowly, allow more; a start-up that waits for "
            "ever is a hang as well",
            side=side,
            count=len(never),
        )
        for side, tally in (("A", found.a), ("B", found.b))
        if (never := [run for run in tally.bad if run.outcome == "hung" and run.started is False])
    ]
    if found.shared:
        mind.append(
            say(
                "{count} of A's runs had been made for the changes tried before: B's runs came "
                "later than they",
                count=found.shared,
            )
        )
    short = [run for run in found.b.runs if run.outcome == "short"]
    if short:
        mind.append(
            say(
                "{count} of B's runs ended with exit code 0 at step {steps}, before any step at "
                "which A hung: they are not counted. --until says when a run has finished",
                count=len(short),
                steps=", ".join(str(run.step) for run in short),
            )
        )
    elif found.own_end and found.b.finished and not max(run.step for run in found.b.finished):
        mind.append(
            say(
                "no step was seen in B's log: it ended with exit code 0, whether it did its work "
                "is not known. --until says when a run has finished"
            )
        )
    page.row(say("mind"), [page.words(text) for text in mind])
    page.row(say("look at"), [page.words(text) for text in _advice(found)])
    if found.answer != "stopped" or mind:
        console.print()
    text, style = answer(found)
    page.line(text, style)
    if (more := not_shown(found)) is not None:
        page.line(more)


def _sure(found: Comparison) -> list[Text]:
    """How likely chance is, and what so few runs of B leave open."""
    sure = [
        say(
            "Fisher's exact test: p = {p}, allowed {alpha}",
            p=_small(found.p),
            alpha=f"{found.alpha:g}",
        )
    ]
    if found.p_steps is not None and found.a.bad:
        sure.append(
            say(
                "counted by steps ({a} of A, {b} of B): p = {p}",
                a=found.a.steps,
                b=found.b.steps,
                p=_small(found.p_steps),
            )
        )
    if found.b.counted:
        sure.append(
            say(
                "B hung in {bad} of {runs} runs: by these alone its hang rate may still be up to "
                "{bound} % a run (95 % upper bound)",
                bad=len(found.b.bad),
                runs=found.b.counted,
                bound=f"{found.bound * 100:.0f}",
            )
        )
    return sure


def _side(page: Page, tally: Tally) -> list[str]:
    lines = [page.words(tally.label)]
    failed = next((run for run in tally.bad if run.outcome == "failed" or _waits(run)), None)
    if tally.bad:
        where = ", ".join(str(run.step) for run in tally.bad)
        lines.append(
            page.words(
                say(
                    "hung or failed {count} of {runs}, at step {steps}",
                    count=len(tally.bad),
                    runs=tally.counted,
                    steps=where,
                )
            )
        )
        lines += _verdicts(page, tally)
    if failed is not None and failed.last:
        lines.append(page.words(say("the end of the log of {run}:", run=failed.name)))
        lines += [f"  {page.words(verbatim(line))}" for line in failed.last]
    if tally.finished:
        steps = {run.step for run in tally.finished}
        told = say("finished {count} of {runs}", count=len(tally.finished), runs=tally.counted)
        if len(steps) == 1 and 0 not in steps:
            told = say(
                "finished {count} of {runs}, {steps} steps each",
                count=len(tally.finished),
                runs=tally.counted,
                steps=steps.pop(),
            )
        lines.append(page.words(told))
    stopped = [run for run in tally.runs if run.outcome == "stopped"]
    if stopped:
        lines.append(page.words(say("stopped by you at step {step}", step=stopped[-1].step)))
    rest = len(tally.runs) - tally.counted - len(stopped)
    if rest:
        lines.append(page.words(say("{count} without a clear outcome", count=rest)))
    return lines


def _verdicts(page: Page, tally: Tally) -> list[str]:
    """What the runs that hung or failed were diagnosed as: a cause, how often, why."""
    found: dict[str, list[Verdict]] = {}
    for run in tally.bad:
        if run.verdict is not None:
            found.setdefault(run.verdict.cause, []).append(run.verdict)
    lines = []
    for cause, verdicts in sorted(found.items(), key=lambda one: -len(one[1])):
        first = verdicts[0]
        lines.append(
            page.words(
                say(
                    "diagnosed as {cause} in {count} of {runs}: {summary}",
                    cause=cause,
                    count=len(verdicts),
                    runs=len(tally.bad),
                    summary=first.summary,
                )
            )
        )
        operations = list(dict.fromkeys(one.operation for one in verdicts if one.operation))
        if operations:
            lines.append(page.words(say("in {operations}", operations=", ".join(operations))))
        lines += [f"- {page.words(text)}" for text in first.why]
    return lines


def _waits(run: Run) -> bool:
    """Whether a run hung in its start-up: the end of its log may tell for what it waits."""
    return run.outcome == "hung" and run.started is False


def _advice(found: Comparison) -> list[Text]:
    """What to look at where nothing ran, or B never does."""
    for run in reversed(found.b.runs):
        failed = run.outcome == "failed" or (_waits(run) and run.errors)
        if failed and run.started is False and run.last:
            code = run.ends[0].code if run.ends else 0
            return [advice(code, run.last, str(Path.cwd()))]
    return []


def _otherwise(found: Comparison) -> tuple[str, ...]:
    """Causes of B's hangs where none of them is one of A's."""
    of_a, of_b = (
        {run.verdict.cause for run in side.bad if run.verdict is not None}
        for side in (found.a, found.b)
    )
    return () if of_a & of_b else tuple(sorted(of_b))


#: Hang rates worth reaching, the first that is not reached yet.
_RATES = (0.1, 0.05, 0.01)


def not_shown(found: Comparison) -> Text | None:
    """What a confirmed answer leaves open, and how many runs would narrow it."""
    rate = next((one for one in _RATES if found.bound > one), None)
    if found.answer != "confirmed" or rate is None:
        return None
    return say(
        "Not shown: that B never hangs. {runs} runs of B without a hang (-n {runs}) would bring "
        "that bound down to {rate} %.",
        runs=runs_for(rate),
        rate=f"{rate * 100:.0f}",
    )


def answer(found: Comparison) -> tuple[Text, str]:
    """What follows, and a colour for it."""
    if found.answer == "confirmed":
        if all(run.outcome == "failed" for run in found.a.bad):
            return (
                say(
                    "Confirmed: the change makes the difference. A failed and B did not, and that "
                    "is hardly chance."
                ),
                "green",
            )
        return (
            say(
                "Confirmed: the change makes the difference. A hung and B did not, and that is "
                "hardly chance."
            ),
            "green",
        )
    if found.answer == "stopped":
        return measured(found), "yellow"
    if found.answer == "not-run":
        if found.same_failure:
            return (
                say(
                    "The same failure with and without the change: the program did not run, it "
                    "failed before its first step."
                ),
                "red",
            )
        return (
            say(
                "The program did not run: it failed before its first step, with the change and "
                "without it, and not with the same error."
            ),
            "red",
        )
    if found.answer == "refuted" and found.same_failure:
        return say("Refuted: the same failure with the change as well."), "red"
    if found.answer == "refuted" and {run.outcome for run in found.b.bad} == {"failed"}:
        return say("Refuted: with the change it fails."), "red"
    if found.answer == "refuted":
        return say("Refuted: it hangs with the change as well."), "red"
    if found.answer == "not-reproduced":
        return (
            say(
                "Nothing is proved: it did not hang without the change either. Make it hang first: "
                "more steps, another seed, a heavier load."
            ),
            "yellow",
        )
    if found.b.bad and found.elsewhere:
        return (
            say(
                "Nothing is shown about the hang: with the change it fails for another reason, "
                "before it could hang or instead."
            ),
            "yellow",
        )
    if found.b.bad and found.p <= found.alpha:
        return say("Not cured: with the change it hangs more rarely, but it still does."), "yellow"
    runs = runs_to_clear(
        len(found.a.bad), found.a.counted, len(found.b.bad), found.b.counted, found.alpha
    )
    if runs is None:
        return say("Not clear yet: more runs are needed (-n)."), "yellow"
    return (
        say(
            "Not clear yet: more runs are needed. If they went on as they did, {runs} of each "
            "would do (-n {runs}).",
            runs=runs,
        ),
        "yellow",
    )


def _small(p: float) -> str:
    return f"{p:.2g}"


__all__ = ["Seen", "answer", "comparison", "reproduction"]
