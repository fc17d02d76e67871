"""Reads the cases and holds a diagnosis against what each expects."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unstall
from unstall.reports.json import to_json

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """One folder of :data:`CASES`."""

    name: str
    folder: Path
    expected: dict[str, Any]

    @property
    def inputs(self) -> list[Path]:
        return sorted(p for p in self.folder.iterdir() if p.name != "expected.json")


def cases() -> list[Case]:
    """All cases, by name."""
    return [
        Case(file.parent.name, file.parent, json.loads(file.read_text(encoding="utf-8")))
        for file in sorted(CASES.glob("*/expected.json"))
    ]


def diagnosed(case: Case) -> dict[str, Any]:
    """What ``unstall diagnose --json`` says of a case."""
    found: dict[str, Any] = json.loads(to_json(unstall.diagnose(case.inputs), "en"))
    return found


def claims(found: dict[str, Any]) -> str:
    """All that a report claims: summaries, evidence for, fixes, next steps; not quotations."""
    parts: list[str] = []
    for cause in found["causes"]:
        if cause["confidence"] < 0.2 and cause is not found["causes"][0]:
            continue
        parts.append(cause["summary"])
        parts.extend(item["text"] for item in cause["evidence"])
        parts.extend(item["text"] for item in cause["fixes"])
        parts.append(cause.get("next_step") or "")
    return "\n".join(parts)


def misses(case: Case, found: dict[str, Any]) -> list[str]:
    """Every way in which a diagnosis falls short of what the case expects; empty when right."""
    wanted, wrong = case.expected, []
    verdict = wanted.get("verdict", "failure")
    if found["verdict"] != verdict:
        wrong.append(f"verdict: {verdict!r} expected, {found['verdict']!r} found")
    ids = [cause["id"] for cause in found["causes"]]
    causes = wanted.get("causes", [])
    if causes and (not ids or ids[0] != causes[0]):
        shown = [(c["id"], c["confidence"]) for c in found["causes"]]
        wrong.append(f"first cause: {causes[0]!r} expected, {shown} found")
    if not causes and ids:
        wrong.append(f"no cause expected, {ids} found")
    if causes and ids:
        low, high = wanted.get("confidence", [0.5, 1])
        sure = found["causes"][0]["confidence"]
        if not low <= sure <= high:
            wrong.append(f"confidence: {low} to {high} expected, {sure} found")
    origin = found.get("origin") or {}
    if "role" in wanted:
        roles = wanted["role"] if isinstance(wanted["role"], list) else [wanted["role"]]
        if origin.get("role") not in roles:
            wrong.append(f"role: one of {roles} expected, {origin.get('role')!r} found")
    if "ranks" in wanted and sorted(origin.get("ranks") or []) != sorted(wanted["ranks"]):
        wrong.append(f"ranks: {wanted['ranks']} expected, {origin.get('ranks')} found")
    if "waiting" in wanted and sorted(found["waiting_ranks"]) != sorted(wanted["waiting"]):
        wrong.append(f"waiting: {wanted['waiting']} expected, {found['waiting_ranks']} found")
    wrong.extend(one["reason"] for one in found["unread"] if "a part of the diag" in one["reason"])
    whole = json.dumps(found, ensure_ascii=False)
    wrong.extend(
        f"not mentioned: {pattern}"
        for pattern in wanted.get("mention", [])
        if not re.search(pattern, whole)
    )
    said = claims(found)
    wrong.extend(
        f"claimed: {match.group(0)!r} ({pattern})"
        for pattern in wanted.get("never", [])
        if (match := re.search(pattern, said))
    )
    wrong.extend(
        f"claimed cause: {cause['id']} at {cause['confidence']}"
        for cause in found["causes"]
        if cause["id"] in wanted.get("not_causes", []) and cause["confidence"] >= 0.2
    )
    if found["causes"]:
        fixes = "\n".join(
            f"{fix['text']} {json.dumps(fix['change'])}" for fix in found["causes"][0]["fixes"]
        )
        wrong.extend(
            f"no such fix: {pattern}"
            for pattern in wanted.get("fixes", [])
            if not re.search(pattern, fixes)
        )
    return wrong
