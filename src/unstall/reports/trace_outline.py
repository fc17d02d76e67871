"""A recorder verdict as titled blocks of sentences and tables, for every kind of report."""

from __future__ import annotations

from typing import NamedTuple

from unstall.model.text import Text, say, verbatim
from unstall.recorder.claims import started
from unstall.recorder.records import Entry
from unstall.recorder.result import RecorderVerdict, Sighting, Suspect, reason
from unstall.reports import words

_MOST_SUSPECTS = 12
_MOST_WAITS = 8
_MOST_FRAMES = 4


class Table(NamedTuple):
    """Rows below column titles."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Block(NamedTuple):
    """A titled part of the report: sentences (with their places) and at most one table."""

    key: str
    title: str
    lines: tuple[tuple[str, str], ...] = ()
    table: Table | None = None


def headline(verdict: RecorderVerdict, language: str) -> str:
    """The verdict in one sentence."""
    return words.speak(verdict.summary, language)


def blocks(verdict: RecorderVerdict, language: str) -> list[Block]:
    """The report's parts in order, without empty ones."""
    return [block for block in _Outline(language).all(verdict) if block.lines or block.table]


class _Outline:
    def __init__(self, language: str) -> None:
        self.language = language

    def _say(self, text: Text) -> str:
        return words.speak(text, self.language)

    def all(self, verdict: RecorderVerdict) -> list[Block]:
        return [
            self._suspects(verdict),
            self._evidence(verdict),
            self._front(verdict),
            self._cycles(verdict),
            self._code(verdict),
            *self._tails(verdict),
            self._sentences("undecided", say("Not decided"), verdict.undecided),
            self._sentences("healthy", say("Healthy"), verdict.healthy),
            self._sentences("next", say("Next"), (verdict.next_step,) if verdict.next_step else ()),
            self._sentences("notes", say("Notes"), verdict.notes[:12]),
            self._others(verdict),
        ]

    def _sentences(self, key: str, title: Text, texts: tuple[Text, ...]) -> Block:
        return Block(key, self._say(title), tuple((self._say(text), "") for text in texts))

    def _suspects(self, verdict: RecorderVerdict) -> Block:
        rows = []
        for at, suspect in enumerate(verdict.suspects[:_MOST_SUSPECTS], 1):
            host = f" ({suspect.host})" if suspect.host else ""
            why = self._say(reason(suspect.kind))
            if suspect.tie:
                why = self._say(say("{why} (a tie)", why=why))
            rows.append(
                (str(at), f"{suspect.rank}{words.clean(host)}", why,
                 self._operation(suspect.operation or suspect.own), str(len(suspect.waiting)))
            )  # fmt: skip
        more = len(verdict.suspects) - _MOST_SUSPECTS
        lines = ((self._say(say("and {count} more", count=more)), ""),) if more > 0 else ()
        titles = (say("rank"), say("why"), say("operation"), say("waiting"))
        columns = ("#", *(self._say(title) for title in titles))
        table = Table(columns, tuple(rows)) if rows else None
        return Block("suspects", self._say(say("Suspects")), lines, table)

    def _operation(self, sight: Sighting | None) -> str:
        if sight is None:
            return "-"
        return words.clean(f"{sight.op} #{sight.seq}, {sight.label}")

    def _evidence(self, verdict: RecorderVerdict) -> Block:
        lines: list[tuple[str, str]] = []
        for suspect in verdict.suspects[:_MOST_SUSPECTS]:
            for evidence in suspect.evidence:
                place = words.clean(str(evidence.place)) if evidence.place else ""
                line = (self._say(evidence.text), place)
                if line[0] not in [known for known, _ in lines]:
                    lines.append(line)
        return Block("evidence", self._say(say("Evidence")), tuple(lines[:16]))

    def _front(self, verdict: RecorderVerdict) -> Block:
        rows = []
        for wait in verdict.front[:_MOST_WAITS]:
            sight = wait.operation
            label = sight.label
            if wait.groups > 1:
                label = self._say(
                    say("{name}, {count} groups", name=sight.group.name or label, count=wait.groups)
                )
            since = started(sight)
            rows.append(
                (words.clean(f"{sight.op} #{sight.seq}"), words.clean(label),
                 words.clean(sight.shape, 40),
                 words.runs(wait.ranks), words.runs(wait.awaited) or "-",
                 f"{since.stamp:%H:%M:%S}" if since else "-")
            )  # fmt: skip
        titles = (
            say("operation"), say("group"), say("sizes"), say("ranks"), say("wait for"),
            say("since (UTC)"),
        )  # fmt: skip
        table = Table(tuple(self._say(t) for t in titles), tuple(rows)) if rows else None
        return Block("front", self._say(say("Where everyone waits")), (), table)

    def _cycles(self, verdict: RecorderVerdict) -> Block:
        lines = []
        for cycle in verdict.cycles:
            for step in cycle.steps:
                text = say(
                    "Rank {rank} waits in {op} #{seq} of {group} for rank {next}",
                    rank=step.ranks[0], op=step.operation.op, seq=step.operation.seq,
                    group=step.operation.label, next=step.awaited[0],
                )  # fmt: skip
                lines.append((self._say(text), words.clean(str(step.operation.place))))
        return Block("cycle", self._say(say("Ring of waiting")), tuple(lines))

    def _code(self, verdict: RecorderVerdict) -> Block:
        lines: list[tuple[str, str]] = []
        seen: set[tuple[object, ...]] = set()
        for suspect in verdict.suspects[:4]:
            for sight, role in self._sides(suspect):
                key = (sight.frames[:_MOST_FRAMES], sight.op, role.template)
                if not sight.frames or key in seen:
                    continue
                seen.add(key)
                place = words.clean(str(sight.place))
                text = say("{who}, in {op} #{seq}:", who=role, op=sight.op, seq=sight.seq)
                lines.append((self._say(text), place))
                for function, file, line in sight.frames[:_MOST_FRAMES]:
                    lines.append((words.clean(f"    {file}:{line}  {function}"), ""))
        return Block("code", self._say(say("The code on both sides")), tuple(lines[:32]))

    def _sides(self, suspect: Suspect) -> list[tuple[Sighting, Text]]:
        sides = []
        if suspect.own is not None:
            if suspect.kind in ("absent", "stopped-earlier"):
                role = say("Rank {rank}, last seen", rank=suspect.rank)
            else:
                role = say("Rank {rank}", rank=suspect.rank)
            sides.append((suspect.own, role))
        if suspect.operation is not None and suspect.operation.rank != suspect.rank:
            sides.append((suspect.operation, say("Rank {rank}", rank=suspect.operation.rank)))
        return sides

    def _tails(self, verdict: RecorderVerdict) -> list[Block]:
        found = []
        for tail in verdict.tails:
            rows = tuple(
                (str(e.number), words.clean(label), str(e.seq), words.clean(e.op), _sizes(e),
                 self._state(e))
                for e, label in zip(tail.entries, tail.labels)  # noqa: B905 - made together
            )  # fmt: skip
            titles = (
                say("entry"), say("group"), say("number"), say("operation"), say("sizes"),
                say("state"),
            )  # fmt: skip
            title = say("Last operations of rank {rank} ({name})", rank=tail.rank, name=tail.source)
            if tail.role == "waiting":
                title = say(
                    "For comparison: rank {rank}, which waits ({name})",
                    rank=tail.rank, name=tail.source,
                )  # fmt: skip
            table = Table(tuple(self._say(t) for t in titles), rows) if rows else None
            found.append(Block("tail", self._say(title), (), table))
        return found

    def _state(self, entry: Entry) -> str:
        if entry.done:
            return self._say(say("ended"))
        return self._say(say("running")) if entry.state == "started" else self._say(say("waiting"))

    def _others(self, verdict: RecorderVerdict) -> Block:
        lines = [
            (f"{words.clean(other.label)}: {self._say(other.summary)}", "")
            for other in verdict.others[:12]
        ]
        return Block("others", self._say(say("Other runs among the dumps")), tuple(lines))


def _sizes(entry: Entry) -> str:
    sides = [
        " ".join(str(list(size)) for size in side[:2]) for side in (entry.inputs, entry.outputs)
    ]
    return sides[0] if sides[0] == sides[1] else f"{sides[0]} -> {sides[1]}"


def read_line(verdict: RecorderVerdict, language: str) -> str:
    """What was read, in one line."""
    text = say(
        "{count} operations of {ranks} ranks, {backends}, schema {versions}",
        count=verdict.entries,
        ranks=len(verdict.ranks),
        backends=verbatim(", ".join(verdict.backends) or "-"),
        versions=verbatim(", ".join(verdict.versions) or "-"),
    )
    return words.speak(text, language)
