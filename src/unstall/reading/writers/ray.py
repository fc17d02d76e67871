"""Ray: dead workers and actors, lost nodes, kills of its memory monitor.

Sources: Ray 2.2 to 2.52: ``src/ray/raylet/{node_manager,worker_killing_policy}.cc``,
``src/ray/core_worker``, ``python/ray/exceptions.py``, ``python/ray/train``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from unstall.model.facts import (
    Fact,
    HostMemory,
    MemoryKill,
    ProcessEnd,
    SchedulerEvent,
    Speaker,
    WorkerGroupRestart,
)
from unstall.reading.line import Line
from unstall.reading.writers.lines import (
    Common,
    Pattern,
    Sentences,
    common,
    exit_code,
    signal_of,
    small_float,
    small_int,
)

_DIED = re.compile(
    r"The actor died unexpectedly|A worker died or was killed|The actor is dead because its worker"
    r"|worker died unexpectedly|The worker died unexpectedly"
)
_FIELD = re.compile(r"^\s{0,40}(class_name|actor_id|pid|name|namespace|ip): (.{0,300})$")
_TYPE = re.compile(r"[Ww]orker exit type: (\w{1,40})")
_PID = re.compile(r"Worker PID: (\d{1,9})", re.ASCII)
_ADDRESS = re.compile(r"Worker IP address: ([\w.:]{1,64})", re.ASCII)
_CODE = re.compile(r"exit code:? (-?\d{1,6})", re.ASCII)
_INTENDED = {"INTENDED_SYSTEM_EXIT", "INTENDED_USER_EXIT"}


class _Actor(msgspec.Struct):
    """A dead worker that is being described."""

    first: Common
    pid: int | None = None
    host: str | None = None
    name: str | None = None
    lines: int = 0


class DeadWorkers:
    """Ends of workers and actors, each told once, with what the lines behind tell of them."""

    marks: tuple[str, ...] = (
        "The actor died unexpectedly",
        "A worker died or was killed",
        "The actor is dead because",
        "worker died unexpectedly",
    )

    def __init__(self) -> None:
        self._open: dict[Speaker, _Actor] = {}
        self._told: dict[tuple[int | None, str | None], int] = {}

    @property
    def wants_more(self) -> bool:
        """Whether a dead actor's description is being read."""
        return bool(self._open)

    def feed(self, line: Line) -> Iterable[Fact]:
        """Ends that this line completes."""
        text = line.text[:8192]
        who = line.speaker
        facts: list[Fact] = []
        one = self._open.get(who)
        if _DIED.search(text) is not None:
            if one is None:
                if len(self._open) >= 256:
                    facts += self._close(next(iter(self._open)), None)
                one = self._open[who] = _Actor(first=common(line))
            if (found := _PID.search(text)) is not None:
                one.pid = int(found[1])
            if (found := _ADDRESS.search(text)) is not None:
                one.host = found[1]
        if one is None:
            return facts
        one.lines += 1
        if (field := _FIELD.match(text)) is not None:
            value = field[2].strip()
            if field[1] == "pid":
                one.pid = small_int(value)
            elif field[1] == "ip":
                one.host = value.strip("[]").partition("]")[0][:64]
            elif field[1] in ("name", "class_name"):
                one.name = value.rpartition(".")[2] or one.name
        if _TYPE.search(text) is not None or one.lines > 14:
            return facts + self._close(who, text)
        return facts

    def finish(self) -> Iterable[Fact]:
        """Ends whose description the source's end cut."""
        return [fact for who in list(self._open) for fact in self._close(who, None)]

    def _close(self, who: Speaker, text: str | None) -> list[Fact]:
        one = self._open.pop(who)
        kind = _TYPE.search(text or "")
        if kind is not None and kind[1] in _INTENDED:
            return []
        if kind is not None and "OUT_OF_MEMORY" in kind[1]:
            return [MemoryKill(**one.first, by="ray", pid=one.pid, process=one.name)]
        key = (one.pid, one.host)
        if one.pid is not None and key in self._told:
            return []
        if len(self._told) < 4096:
            self._told[key] = 1
        found = _CODE.search(text or "")
        code = exit_code(int(found[1])) if found else None
        return [
            ProcessEnd(
                **one.first,
                reporter="ray",
                exit_code=code,
                signal=signal_of(code),
                pid=one.pid,
                host=one.host,
            )
        ]


def _killed(line: Line, found: re.Match[str]) -> Fact | None:
    if found[1] is not None and int(found[1]) == 0:
        return None
    return MemoryKill(**common(line), by="ray")


def _memory(line: Line, found: re.Match[str]) -> Fact | None:
    used, share = small_float(found[1]), small_float(found[2])
    percent = share * 100 if share is not None and share <= 1 else None
    return HostMemory(**common(line), percent=percent, used_gb=used)


def _node(line: Line, found: re.Match[str]) -> Fact | None:
    return SchedulerEvent(
        **common(line), kind="node-failure", scheduler="ray", node=found[1] or None
    )


def _restart(line: Line, _: re.Match[str]) -> Fact | None:
    return WorkerGroupRestart(**common(line))


class RayEvents(Sentences):
    """Kills of the memory monitor, lost nodes, restarts."""

    many = True
    patterns = (
        Pattern(
            "killed due to memory pressure|running low on memory|killing latest task",
            re.compile(
                r"(?:(\d{1,9}) Workers \(tasks / actors\) killed due to memory pressure"
                r"|killed due to the node running low on memory|killing latest task"
                r"|Ray killed this worker)",
                re.ASCII,
            ),
            _killed,
        ),
        Pattern(
            "Memory on the node|Used memory (|used memory (",
            re.compile(
                r"(?:was|[Uu]sed memory \() ?([\d.]{1,12}) ?GB\)? / (?:total capacity \()?"
                r"[\d.]{1,12} ?GB\)? \(([\d.]{1,12})\)",
                re.ASCII,
            ),
            _memory,
        ),
        Pattern(
            "has been marked dead|its node has died|NodeDiedError",
            re.compile(
                r"node with node id: \S{1,80} and address: (\S{1,64}) .{0,200}has been marked dead"
                r"|actor is dead because its node has died|NodeDiedError"
            ),
            _node,
        ),
        Pattern(
            "estarting",
            re.compile(
                r"Restarting (?:the )?(?:training )?(?:worker group|workers)\b"
                r"|Attempting to restart (?:the )?(?:training|actor)"
            ),
            _restart,
        ),
    )
