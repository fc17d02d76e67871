"""A launch plan's judgements as SARIF 2.1.0, which code hosts show beside the lines.

Source: OASIS "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", sections 3.14
(run), 3.27 (result), 3.28 (location). ``level`` is error for a conflict, warning for something
suspicious, note for a setting without effect; settings in order are not results.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unstall import __version__
from unstall.model.facts import Place
from unstall.model.plan import Judgement, Plan
from unstall.reports.words import clean, shown_value, speak

_LEVELS = {"conflict": "error", "suspicious": "warning", "no effect": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def plan_sarif(plan: Plan, language: str = "en") -> bytes:
    """One SARIF log with one run."""
    results = [j for j in plan.judgements if j.judgement in _LEVELS]
    rules: dict[str, dict[str, Any]] = {}
    for judgement in results:
        identifier = _rule(judgement)
        rules.setdefault(
            identifier,
            {
                "id": identifier,
                "shortDescription": {"text": clean(judgement.name)},
                "properties": {"causes": list(judgement.concerns)},
            },
        )
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "unstall",
                        "version": __version__,
                        "rules": list(rules.values()),
                    }
                },
                "results": [_result(j, language) for j in results],
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n"


def _rule(judgement: Judgement) -> str:
    name = "".join(c.lower() if c.isalnum() and c.isascii() else "-" for c in judgement.name)
    return "launch/" + "-".join(part for part in name.split("-") if part)


def _result(judgement: Judgement, language: str) -> dict[str, Any]:
    shown = {k: shown_value(judgement.name, value) for k, value in judgement.values.items()}
    values = "; ".join(f"{label}: {value}" for label, value in shown.items())
    text = f"{judgement.name} ({values}): {speak(judgement.why, language)}"
    found: dict[str, Any] = {
        "ruleId": _rule(judgement),
        "level": _LEVELS[judgement.judgement],
        "message": {"text": clean(text)},
        "locations": [_location(p) for p in judgement.places[:1]],
    }
    if len(judgement.places) > 1:
        found["relatedLocations"] = [_location(p) for p in judgement.places[1:20]]
    if judgement.correction:
        found["properties"] = {"correction": clean(judgement.correction)}
    return found


def _location(place: Place) -> dict[str, Any]:
    from urllib.parse import quote

    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(place.source, safe="/:!@+,=~")},
            "region": {"startLine": max(place.line, 1)},
        }
    }
