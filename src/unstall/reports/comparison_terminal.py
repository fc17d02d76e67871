"""A against B, for a terminal: what happened, how sure it is, what follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from unstall.experiments.last_words import advice
from unstall.experiments.outcome import Run, Verdict
from unstall.experiments.statistics import runs_for, runs_to_clear
from unstall.experiments.stopping import measured
from unstall.experiments.trials import Comparison, Tally
from unstall.model.text import Text, say, verbatim
from unstall.reports.page import Page


def comparisons(
    results: Sequence[Comparison], folder: Path, console: Console, language: str
) -> Page:
    """One comparison after the other, and where the evidence is; the page, to go on with."""
    for number, one in enumerate(results):
        if number:
            console.print()
        comparison(one, console, language)
    page = Page(console, language)
    page.whole(say("evidence"), str(folder))
    return page


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
