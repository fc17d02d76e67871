"""Several runs in one log: a restart by the launcher begins another attempt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from unstall.model.facts import Fact, WorkerGroupRestart

MAX_ATTEMPTS = 200


def attempts(facts: Sequence[Fact]) -> list[list[Fact]]:
    """The facts of each attempt, in order; one list where nothing was restarted.

    A restart line divides its own source. Sources without restart lines (package lists, launch
    scripts, stacks taken once) belong to every attempt: they describe the job, not one run of it,
    unless their times fall before a restart in another source.
    """
    restarts: dict[str, list[int]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, WorkerGroupRestart):
            lines = restarts[fact.place.source]
            if len(lines) < MAX_ATTEMPTS and (not lines or fact.place.line - lines[-1] > 1):
                lines.append(fact.place.line)
    if not restarts:
        return [list(facts)]
    count = max(len(lines) for lines in restarts.values()) + 1
    divided: list[list[Fact]] = [[] for _ in range(count)]
    for fact in facts:
        lines = restarts.get(fact.place.source, [])
        if not lines:
            for attempt in divided:
                attempt.append(fact)
            continue
        index = sum(1 for line in lines if line <= fact.place.line)
        # sources that restarted less often than others: align their last runs
        divided[index + count - 1 - len(lines)].append(fact)
    return [attempt for attempt in divided if attempt]
