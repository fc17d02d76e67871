"""A recorder verdict as JSON: the keys of ``diagnose --json`` and, below ``trace``, its own."""

from __future__ import annotations

from typing import Any

import msgspec

from unstall.model.findings import Diagnosis
from unstall.model.text import Text
from unstall.recorder.loading import Dumps
from unstall.recorder.result import RecorderVerdict, Sighting, Suspect, Wait
from unstall.reports.json import to_json as diagnosis_json
from unstall.reports.words import clean


def to_json(verdict: RecorderVerdict, dumps: Dumps, language: str = "en") -> bytes:
    """One JSON object, UTF-8, with a newline at its end."""
    from unstall import recorder
    from unstall.diagnosis import rank

    counts = {
        "sources": len(dumps.dumps),
        "entries": verdict.entries,
        "bytes": sum(dump.size for dump in dumps.dumps),
    }
    diagnosis = Diagnosis(
        verdict=verdict.verdict,
        causes=tuple(rank(recorder.findings(verdict))),
        unread=tuple(dumps.unread),
        counts=counts,
    )
    data: dict[str, Any] = msgspec.json.decode(diagnosis_json(diagnosis, language))
    writer = _Writer(language)
    data["summary"] = writer.text(verdict.summary)
    data["trace"] = writer.verdict(verdict)
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


class _Writer:
    def __init__(self, language: str) -> None:
        self.language = language

    def text(self, text: Text) -> str:
        return clean(text.render(self.language))

    def verdict(self, verdict: RecorderVerdict) -> dict[str, Any]:
        return {
            "label": clean(verdict.label),
            "verdict": verdict.verdict,
            "summary": self.text(verdict.summary),
            "ranks": list(verdict.ranks),
            "missing_ranks": list(verdict.missing),
            "suspects": [self.suspect(suspect) for suspect in verdict.suspects],
            "front": [self.wait(wait) for wait in verdict.front],
            "cycles": [[self.wait(step) for step in cycle.steps] for cycle in verdict.cycles],
            "healthy": [self.text(text) for text in verdict.healthy],
            "undecided": [self.text(text) for text in verdict.undecided],
            "next_step": self.text(verdict.next_step) if verdict.next_step else "",
            "notes": [self.text(text) for text in verdict.notes],
            "others": [self.verdict(other) for other in verdict.others],
        }

    def suspect(self, suspect: Suspect) -> dict[str, Any]:
        return {
            "rank": suspect.rank,
            "host": suspect.host,
            "kind": suspect.kind,
            "score": suspect.score,
            "tie": suspect.tie,
            "evidence": [
                {
                    "text": self.text(item.text),
                    "source": clean(item.place.source) if item.place else "",
                    "line": item.place.line if item.place else None,
                }
                for item in suspect.evidence
            ],
            "operation": self.sighting(suspect.operation),
            "own": self.sighting(suspect.own),
            "waiting_ranks": list(suspect.waiting),
        }

    def wait(self, wait: Wait) -> dict[str, Any]:
        return {
            "operation": self.sighting(wait.operation),
            "ranks": list(wait.ranks),
            "wait_for": list(wait.awaited),
            "groups": wait.groups,
        }

    def sighting(self, sight: Sighting | None) -> dict[str, Any] | None:
        if sight is None:
            return None
        group = sight.group
        return {
            "rank": sight.rank,
            "op": clean(sight.op),
            "seq": sight.seq,
            "group": {
                "id": group.id,
                "guid": clean(group.guid or ""),
                "name": clean(group.name or ""),
                "ranks": list(group.ranks) if group.ranks is not None else None,
            },
            "sizes": clean(sight.shape),
            "types": clean(sight.types),
            "source": clean(sight.place.source),
            "line": sight.place.line,
            "frames": [
                {"function": clean(f), "file": clean(p), "line": n} for f, p, n in sight.frames
            ],
        }
