"""SGLang's scheduler: load, watchdog, health checks.

Sources: SGLang 0.3 to 0.5: ``srt/managers/scheduler.py`` and its metrics mixin, ``srt/utils``,
``srt/entrypoints/{engine,http_server}.py``. Its lines begin ``[2026-03-04 11:32:40 DP0 TP1] ``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import EngineLoad, EngineNotice, Fact
from unstall.reading.line import Line
from unstall.reading.writers.lines import (
    Pattern,
    Sentences,
    Thinned,
    common,
    small_float,
    small_int,
)

_DP = re.compile(r"\bDP(\d{1,6})\b", re.ASCII)
_QUEUE = re.compile(r"#queue-req: (\d{1,9})", re.ASCII)
_RATE = re.compile(r"gen throughput \(token/s\): ([\d.]{1,16})", re.ASCII)


def _load(line: Line, found: re.Match[str]) -> Fact | None:
    text = line.text
    engine = _DP.search(text[: found.start()]) or _DP.search(line.speaker.name or "")
    queue, rate = _QUEUE.search(text), _RATE.search(text)
    return EngineLoad(
        **common(line),
        engine=int(engine[1]) if engine else None,
        running=int(found[1]),
        waiting=small_int(queue[1]) if queue else None,
        throughput=small_float(rate[1]) if rate else None,
    )


def _notice(kind: str, marks: str, regex: str) -> Pattern:
    def make(line: Line, found: re.Match[str]) -> Fact | None:
        return EngineNotice(**common(line), kind=kind, detail=found[0].strip()[:300])

    return Pattern(marks, re.compile(regex, re.ASCII), make)


class SchedulerLoads(Sentences):
    """``Decode batch`` and ``Prefill batch`` lines."""

    patterns = (
        Pattern(
            "#running-req: ",
            re.compile(r"(?:Decode|Prefill) batch.{0,300}?#running-req: (\d{1,9})", re.ASCII),
            _load,
        ),
    )

    def __init__(self) -> None:
        self._thin = Thinned()

    def feed(self, line: Line) -> Iterable[Fact]:
        """The line's statistics, unless there have been too many."""
        facts: list[Fact] = []
        for fact in super().feed(line):
            engine = fact.engine if isinstance(fact, EngineLoad) else None
            facts += self._thin.pass_on((line.speaker, engine), fact)
        return facts

    def finish(self) -> Iterable[Fact]:
        """Each scheduler's last statistics."""
        return self._thin.rest()


class SchedulerNotices(Sentences):
    """Watchdog, dead children, failed health checks."""

    patterns = (
        # the name in brackets tells it from NCCL's watchdog and from what people write
        _notice(
            "watchdog",
            "atchdog timeout (",
            r"\b\w{0,30} ?[Ww]atchdog timeout \((?:self\.)?watchdog_timeout=.{0,60}",
        ),
        # srt/disaggregation/{prefill,decode}.py: the request is given up, the server goes on
        _notice(
            "request-failed",
            "transfer failed for request",
            r"(?:Decode|Prefill) transfer failed for request.{0,200}",
        ),
        _notice(
            "engine-dead",
            "Scheduler hit an exception|sigquit|SIGQUIT|one child failed|child failed",
            r"Scheduler hit an exception|Received sigquit from a child|SIGQUIT received"
            r"|one child failed",
        ),
        _notice(
            "rpc-timeout",
            "Health check failed|Initialization failed. warmup",
            r"Health check failed.{0,120}|Initialization failed\. warmup error.{0,120}",
        ),
        _notice(
            "worker-died",
            "or DataParallelController|cheduler terminated|hild process",
            r"(?:Scheduler or DataParallelController|Scheduler|Child process) \S{0,40} ?"
            r"(?:terminated|died)(?: unexpectedly)? with (?:exit ?code )?-?\d{1,6}",
        ),
    )
