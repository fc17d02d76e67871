"""Reports of experiments for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from unstall.experiments.closing import Closing
from unstall.experiments.observed import Feature
from unstall.experiments.outcome import Run
from unstall.experiments.scenario import Scenario
from unstall.experiments.sizes import bounds
from unstall.experiments.trials import Comparison, Tally

SCHEMA_VERSION = 1


def scenarios_json(scenarios: Sequence[Scenario], language: str) -> str:
    """All scenarios."""
    return _text(
        {
            "schema_version": SCHEMA_VERSION,
            "scenarios": [
                {
                    "name": one.name,
                    "causes": list(one.causes),
                    "title": one.title.render(language),
                    "about": one.about.render(language),
                    "changes": [
                        {"name": c.name, "text": c.text.render(language)} for c in one.changes
                    ],
                    "controls": [
                        {"name": c.name, "text": c.text.render(language)} for c in one.controls
                    ],
                    "expect": one.expect,
                    "ranks": one.ranks,
                    "least_ranks": one.least,
                    "most_ranks": one.most,
                    "steps": one.steps,
                    "timeout": one.timeout,
                    "needs": list(one.needs),
                    "sizes": one.sizes,
                    "size_bounds": {
                        name: {
                            **msgspec.to_builtins(bounds(name)),
                            "text": one.size_texts[name].render(language),
                        }
                        for name in one.sizes
                    },
                }
                for one in scenarios
            ],
        }
    )


def reproduction_json(
    scenario: Scenario,
    run: Run,
    closing: Closing | None,
    language: str,
    shared: Sequence[Feature] = (),
    **more: Any,
) -> str:
    """A reproduction: its outcome, fingerprint, verdict, and whether the loop is closed."""
    return _text(
        {
            "schema_version": SCHEMA_VERSION,
            "scenario": scenario.name,
            "expected_cause": scenario.causes[0],
            "closed": closing is not None and closing.closed,
            "verdict": closing.verdict if closing is not None else None,
            "confidence": closing.confidence if closing is not None else None,
            "fingerprint": [
                {"found": one.found, "text": one.text.render(language)}
                for one in (closing.marks if closing is not None else ())
            ],
            "report": [{"shared": one.shared, "text": one.text.render(language)} for one in shared],
            "run": run_dict(run, language),
            **more,
        }
    )


def comparison_json(found: Comparison, name: str, language: str, **more: Any) -> str:
    """A comparison: all runs, probabilities, bound and answer."""
    return _text(
        {
            "schema_version": SCHEMA_VERSION,
            "name": name,
            "answer": found.answer,
            "p": found.p,
            "p_by_steps": found.p_steps,
            "alpha": found.alpha,
            "upper_bound": found.bound,
            "shared": found.shared,
            "a": _side(found.a, language),
            "b": _side(found.b, language),
            **more,
        }
    )


def run_dict(run: Run, language: str) -> dict[str, Any]:
    """One run; ``verdict`` is what its evidence was diagnosed as, where it hung or failed."""
    verdict = run.verdict
    return {
        "name": run.name,
        "outcome": run.outcome,
        "step": run.step,
        "seconds": run.seconds,
        "evidence": run.evidence,
        "verdict": {
            "cause": verdict.cause,
            "confidence": verdict.confidence,
            "summary": verdict.summary.render(language),
            "operation": verdict.operation,
            "why": [text.render(language) for text in verdict.why],
        }
        if verdict is not None
        else None,
        "ends": [{"program": e.program, "rank": e.rank, "code": e.code} for e in run.ends],
        "started": run.started,
        "last": list(run.last),
        "settings": msgspec.to_builtins(run.settings),
    }


def _side(tally: Tally, language: str) -> dict[str, Any]:
    return {
        "label": tally.label.render(language),
        "hung": sum(run.outcome == "hung" for run in tally.runs),
        "failed": sum(run.outcome == "failed" for run in tally.runs),
        "finished": len(tally.finished),
        "steps": tally.steps,
        "runs": [run_dict(run, language) for run in tally.runs],
    }


def _text(content: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"
