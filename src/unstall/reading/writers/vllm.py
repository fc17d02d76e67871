"""vLLM's engine: load statistics, complaints about its own health, deaths of its processes.

Sources: vLLM 0.4 to 0.14: ``engine/metrics.py``, ``v1/metrics/loggers.py``, ``v1/engine``,
``distributed/device_communicators/shm_broadcast.py``, ``executor/multiproc_worker_utils.py``,
``v1/executor/multiproc_executor.py``, ``engine/multiprocessing``. ``Method execution failed`` is
said by ms-swift's rollout worker, which runs the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import EngineLoad, EngineNotice, Fact, ProcessEnd
from unstall.reading.line import Line
from unstall.reading.writers.lines import (
    Pattern,
    Sentences,
    Thinned,
    common,
    exit_code,
    signal_of,
    small_float,
    small_int,
)


def _load(line: Line, found: re.Match[str]) -> Fact | None:
    text = line.text
    running = re.search(r"Running: (\d{1,9}) req", text, re.ASCII)
    waiting = re.search(r"(?:Waiting|Pending): (\d{1,9}) req", text, re.ASCII)
    engine = re.search(r"Engine (\d{1,6})(?:-\d{1,6})?:", text, re.ASCII)
    return EngineLoad(
        **common(line),
        engine=small_int(engine[1]) if engine else None,
        running=small_int(running[1]) if running else None,
        waiting=small_int(waiting[1]) if waiting else None,
        throughput=small_float(found[1]),
    )


def _notice(kind: str, marks: str, regex: str) -> Pattern:
    def make(line: Line, found: re.Match[str]) -> Fact | None:
        detail = next((group for group in found.groups() if group), found[0])
        return EngineNotice(**common(line), kind=kind, detail=detail.strip()[:300])

    return Pattern(marks, re.compile(regex, re.ASCII), make)


def _died(line: Line, found: re.Match[str]) -> Fact | None:
    code = exit_code(int(found[3])) if found[3] else None
    rank = re.search(r"[-_](\d{1,6})$", found[1])
    return ProcessEnd(
        **common(line),
        reporter="vllm",
        exit_code=code,
        signal=signal_of(code),
        pid=small_int(found[2]),
        rank=small_int(rank[1]) if rank and not found[2] else None,
    )


class EngineNotices(Sentences):
    """What an engine says about its own health; a dead worker is an end of a process as well."""

    many = True
    patterns = (
        _notice(
            "broadcast-idle",
            "broadcast block found in|available block found in",
            r"No available (?:shared memory broadcast )?block found in ([\d.]{1,10}) ?second",
        ),
        _notice(
            "engine-dead",
            "EngineDeadError|fatal error|Engine core initialization failed|Background loop has"
            "|EngineCore failed|Engine loop|output_handler failed|AsyncEngineDeadError"
            "|engine core proc|is already dead",
            r"(EngineCore encountered (?:a fatal error|an issue)|EngineCore failed to start"
            r"|Engine core initialization failed|Background loop has errored already"
            r"|Engine loop (?:is not running|has died|is dead)|AsyncLLM output_handler failed"
            r"|EngineCore hit an exception|MQEngineDeadError|AsyncEngineDeadError|EngineDeadError"
            r"|MQLLMEngine is already dead)",
        ),
        _notice(
            "worker-died",
            " died",
            r"((?:Worker(?: proc)?|Engine core proc(?:ess)?|EngineCore|Engine process)\s?\S{0,80}"
            r"(?: pid \d{1,9})? died(?: unexpectedly)?)",
        ),
        Pattern(
            " died",
            re.compile(
                r"(?:Worker(?: proc)?|Engine core proc(?:ess)?) (\S{1,80}?)(?: pid (\d{1,9}))?"
                r" died(?: unexpectedly|, exit code: (-?\d{1,6}))",
                re.ASCII,
            ),
            _died,
        ),
        _notice(
            "request-failed",
            "Method execution failed|Request failed|Error in generating",
            r"(Method execution failed.{0,200}|Request \S{1,80} failed.{0,100})",
        ),
        _notice(
            "rpc-timeout",
            "RPC call to |timed out waiting|TimeoutError: RPC|didn't reply within"
            "|No heartbeat received|RayChannelTimeoutError: ",
            r"(RPC call to \w{1,60} timed out|didn't reply within \d{1,9} ?ms"
            r"|[Tt]imed out waiting for engine.{0,80}|No heartbeat received from MQLLMEngine"
            # vLLM's executor on Ray runs its steps as a compiled graph
            r"|(?<=ray\.exceptions\.)RayChannelTimeoutError)",
        ),
    )


class EngineLoads(Sentences):
    """Periodic statistics: requests running and waiting, generated tokens a second."""

    patterns = (
        Pattern(
            "generation throughput: ",
            re.compile(r"[Aa]vg generation throughput: ([\d.]{1,16}) tokens/s", re.ASCII),
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
        """Each engine's last statistics."""
        return self._thin.rest()
