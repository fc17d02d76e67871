"""The report for programs: one JSON object with stable keys (see ``docs/json.md``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unstall.model.facts import Place, Unreadable
from unstall.model.findings import (
    Change,
    Collective,
    Diagnosis,
    Evidence,
    Exonerated,
    Fix,
    Origin,
    ProcessGroup,
    Ranked,
)
from unstall.model.plan import Judgement, Port, Program, Value
from unstall.model.secrets import redacted
from unstall.model.text import Text
from unstall.reports import words
from unstall.reports.outline import headline

SCHEMA_VERSION = 1

_Object = dict[str, Any]

# C1 controls, DEL and what changes the direction or joins of text, as UTF-8. JSON may hold them
# raw; escaped they mean the same and a terminal that shows the output obeys none of them.
_UNSEEN = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf"
    rb"|\xd8\x9c|\xf3\xa0[\x80-\x87][\x80-\xbf]"
)


def to_json(diagnosis: Diagnosis, language: str = "en") -> bytes:
    r"""The diagnosis as JSON: UTF-8, indented, with a newline at the end.

    Strings are as in the input, but for undecodable bytes of names (``\\udcff``, spelled out) and
    values of secrets. Keys keep their names and meaning within one ``schema_version``.

    Args:
        diagnosis: what to write.
        language: of the sentences: ``en`` or ``zh``. Identifiers and keys do not change.
    """
    data = _Writer(language).diagnosis(diagnosis)
    encoded = msgspec.json.format(msgspec.json.encode(_encodable(data)), indent=2) + b"\n"
    return _UNSEEN.sub(_escaped, encoded)


def _escaped(match: re.Match[bytes]) -> bytes:
    return f"\\u{ord(match.group().decode('utf-8')):04x}".encode()


def _encodable(value: Any) -> Any:
    """The value without lone surrogates in its strings, which UTF-8 cannot hold."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value


class _Writer:
    """Turns a diagnosis into what JSON can hold, its sentences in one language."""

    def __init__(self, language: str) -> None:
        self.language = language

    def diagnosis(self, diagnosis: Diagnosis) -> _Object:
        finding = diagnosis.causes[0].finding if diagnosis.causes else None
        origin = self.origin(finding.origin) if finding and finding.origin else None
        plan = diagnosis.plan
        collective = finding.collective if finding else None
        return {
            "schema_version": SCHEMA_VERSION,
            "verdict": diagnosis.verdict,
            "summary": self.text(headline(diagnosis)),
            "causes": [self.cause(ranked) for ranked in diagnosis.causes],
            "origin": origin,
            "process_group": origin["process_group"] if origin else None,
            "collective": self.collective(collective) if collective else None,
            "waiting_ranks": list(finding.waiting_ranks) if finding else [],
            "started_at": finding.started_at.iso() if finding and finding.started_at else None,
            "programs": [self.program(p) for p in diagnosis.programs or plan.programs],
            "settings": [self.setting(s) for s in diagnosis.settings or plan.judgements],
            "exonerated": [self.exonerated(item) for item in diagnosis.exonerated],
            "excerpts": [
                {**self.place(item.place), "text": item.text, "role": item.role}
                for item in diagnosis.excerpts
            ],
            "benign": [self.exonerated(item) for item in diagnosis.benign],
            "notes": [
                {"text": self.text(note.text), "places": self.places(note.places)}
                for note in plan.notes
            ],
            "versions": plan.versions,
            "unread": [
                {
                    "source": fact.place.source,
                    "reason": fact.reason if isinstance(fact, Unreadable) else fact.quote,
                }
                for fact in diagnosis.unread
            ],
            "counts": diagnosis.counts,
            "attempts": diagnosis.attempts,
            "language": self.language,
        }

    def cause(self, ranked: Ranked) -> _Object:
        finding = ranked.finding
        share = ranked.confidence
        return {
            "id": finding.cause,
            "confidence": round(min(max(share, 0.0), 1.0), 4) if share == share else 0.0,
            "summary": self.text(finding.summary),
            "evidence": [self.evidence(item) for item in finding.support],
            "against": [self.evidence(item) for item in finding.against],
            "fixes": [self.fix(fix) for fix in finding.fixes],
            "next_step": self.text(finding.next_step) if finding.next_step else "",
            "timeline": [self.evidence(item) for item in finding.timeline],
        }

    def evidence(self, item: Evidence) -> _Object:
        """A line where there is one; else the source of the knowledge, without a line."""
        knowledge = item.source or None
        where = self.place(item.place) if item.place else {"source": knowledge or "", "line": None}
        return {
            "text": self.text(item.text),
            **where,
            "weight": round(item.weight, 3) if abs(item.weight) < 1e6 else None,
            "knowledge": knowledge,
        }

    def fix(self, fix: Fix) -> _Object:
        return {"text": self.text(fix.text), "change": self.change(fix.change)}

    def change(self, change: Change | None) -> _Object | None:
        if change is None:
            return None
        return {
            "program": change.program,
            "set": {name: words.shown_value(name, value) for name, value in change.set.items()},
            "unset": list(change.unset),
        }

    def origin(self, origin: Origin) -> _Object:
        group = origin.process_group
        return {
            "program": origin.program,
            "role": origin.role,
            "software": origin.software,
            "ranks": list(origin.ranks),
            "process_group": self.group(group) if group else None,
        }

    def group(self, group: ProcessGroup) -> _Object:
        return {
            "id": group.id,
            "guid": group.guid,
            "name": group.name,
            "meaning": self.text(group.meaning) if group.meaning else None,
            "ranks": list(group.ranks) if group.ranks is not None else None,
        }

    def collective(self, collective: Collective) -> _Object:
        return {
            "op": collective.op,
            "seq": collective.seq,
            "numel_in": collective.numel_in,
            "numel_out": collective.numel_out,
            "timeout_ms": collective.timeout_ms,
        }

    def program(self, program: Program) -> _Object:
        parallel = msgspec.structs.asdict(program.parallel)
        return {
            "label": program.label,
            "role": program.role,
            "software": program.software,
            "command": list(words.shown_command(program.command)),
            "environment": _settings(program.environment),
            "devices": list(program.devices) if program.devices is not None else None,
            "processes": program.processes,
            "ports": [_port(port) for port in program.ports],
            "flags": _settings(program.flags),
            "not_exported": _settings(program.not_exported),
            "nodes": program.nodes,
            "parallel": {**parallel, "extra": program.parallel.extra},
            "timeouts": [
                {
                    "name": timeout.name,
                    "milliseconds": timeout.milliseconds,
                    "reaches": timeout.reaches,
                    "value": timeout.value.text,
                }
                for timeout in program.timeouts
            ],
            "engine": program.engine or None,
            "versions": program.versions,
            "place": self.place(program.place) if program.place else None,
            "condition": redacted(program.condition or "") or None,
            "background": program.background,
        }

    def setting(self, setting: Judgement) -> _Object:
        values = {
            label: words.shown_value(setting.name, value) for label, value in setting.values.items()
        }
        return {
            "name": setting.name,
            "values": values,
            "judgement": setting.judgement,
            "why": self.text(setting.why),
            "places": self.places(setting.places),
            "correction": redacted(setting.correction or "") or None,
            "concerns": list(setting.concerns),
        }

    def exonerated(self, item: Exonerated) -> _Object:
        return {
            "id": item.id,
            "why": self.text(item.why),
            "places": self.places(item.places),
        }

    def text(self, text: Text) -> str:
        return redacted(text.render(self.language))

    def places(self, places: Iterable[Place]) -> list[_Object]:
        return [self.place(place) for place in places]

    def place(self, place: Place) -> _Object:
        return {"source": place.source, "line": place.line}


def _settings(values: dict[str, Value]) -> _Object:
    return {name: words.shown_value(name, v.text) for name, v in values.items()}


def _port(port: Port) -> _Object:
    text = port.value.text
    number = int(text) if port.value.known and text.isdecimal() and len(text) <= 5 else None
    return {
        "purpose": port.purpose,
        "port": number,
        "value": text,
        "listens": port.listens,
        "host": port.host.text if port.host else None,
        "picked": port.picked,
    }
