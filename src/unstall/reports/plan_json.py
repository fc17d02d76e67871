"""A launch plan as JSON: the same keys as in a diagnosis's JSON."""

from __future__ import annotations

import msgspec

from unstall.model.findings import Diagnosis
from unstall.model.plan import JUDGEMENTS, Plan
from unstall.reports.json import to_json

_KEYS = ("schema_version", "programs", "settings", "notes", "versions")


def plan_json(plan: Plan, language: str = "en") -> bytes:
    """One JSON object: ``programs``, ``settings``, ``notes``, ``versions`` and ``counts``.

    ``counts`` tells how many settings have each judgement (``conflict``, ``suspicious``,
    ``no effect``, ``ok``).
    """
    whole = msgspec.json.decode(to_json(Diagnosis(verdict="inconclusive", plan=plan), language))
    found = {key: whole[key] for key in _KEYS if key in whole}
    found["counts"] = {
        name: sum(j.judgement == name for j in plan.judgements) for name in JUDGEMENTS
    }
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
