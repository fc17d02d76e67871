"""Ends of processes as launchers, parents and shells tell them (torchrun's are in ``elastic``).

Sources: ``deepspeed/launcher/launch.py`` (0.8 to 0.17), ``accelerate/commands/launch.py``,
``torch/multiprocessing/spawn.py``, ``lightning/fabric/strategies/launchers/subprocess_script.py``,
``composer/cli/launcher.py`` (MosaicML, 0.7 to 0.32),
``sglang/srt/entrypoints/engine.py`` (0.4, 0.5), bash's job notices,
``multiprocessing/resource_tracker.py`` of Python 3.8 to 3.14.
"""

from __future__ import annotations

import re

from unstall.model.facts import Fact, ProcessEnd, ResourceLeak, SignalSent
from unstall.model.facts.processes import RAN_A_TOOL
from unstall.reading.line import Line
from unstall.reading.writers.lines import (
    NUMBERS,
    WORDS,
    Pattern,
    Sentences,
    common,
    exit_code,
    signal_of,
    small_int,
)


def end(line: Line, reporter: str, code: int | None, **who: int | str | None) -> ProcessEnd:
    """A process's end by exit code."""
    pid, rank, local = who.get("pid"), who.get("rank"), who.get("local_rank")
    host = who.get("host")
    return ProcessEnd(
        **common(line),
        reporter=reporter,
        exit_code=code,
        signal=signal_of(code),
        pid=pid if isinstance(pid, int) else None,
        rank=rank if isinstance(rank, int) else None,
        local_rank=local if isinstance(local, int) else None,
        host=host if isinstance(host, str) else None,
    )


def end_by_signal(line: Line, reporter: str, signal: str, **who: int | str | None) -> ProcessEnd:
    """A process's end by the name of a signal."""
    return end(line, reporter, -NUMBERS[signal] if signal in NUMBERS else None, **who)


_LOCAL = re.compile(r"--local[_-]rank=(\d{1,6})", re.ASCII)
_DIED = re.compile(r"died with <Signals\.(SIG[A-Z0-9]{2,9})")


def _deepspeed(line: Line, found: re.Match[str]) -> Fact | None:
    local = _LOCAL.search(line.text[: found.start()])
    return end(
        line,
        "deepspeed",
        exit_code(int(found[1])),
        local_rank=int(local[1]) if local else None,
    )


def _deepspeed_child(line: Line, found: re.Match[str]) -> Fact | None:
    if int(found[2]) == 0:
        return None
    return end(line, "deepspeed", exit_code(int(found[2])), pid=int(found[1]))


def _called(line: Line, found: re.Match[str]) -> Fact | None:
    words = line.text[found.start() : found.end()]
    if RAN_A_TOOL.search(words) is not None:
        return None
    # torch.distributed.launch (up to 1.8) and DeepSpeed tell their processes a local rank
    local = _LOCAL.search(words)
    reporter, rank = ("torchrun", int(local[1])) if local else ("accelerate", None)
    if found[1] is not None:
        return end(line, reporter, exit_code(int(found[1])), local_rank=rank)
    died = _DIED.search(words)
    return end_by_signal(line, reporter, died[1], local_rank=rank) if died else None


def _spawn_code(line: Line, found: re.Match[str]) -> Fact | None:
    return end(line, "spawn", exit_code(int(found[2])), local_rank=int(found[1]))


def _spawn_signal(line: Line, found: re.Match[str]) -> Fact | None:
    return end_by_signal(line, "spawn", found[2], local_rank=int(found[1]))


def _spawn_error(line: Line, found: re.Match[str]) -> Fact | None:
    return end(line, "spawn", 1, local_rank=int(found[1]))


def _lightning(line: Line, found: re.Match[str]) -> Fact | None:
    return end(line, "lightning", exit_code(int(found[2])), pid=int(found[1]))


def _composer(line: Line, found: re.Match[str]) -> Fact | None:
    return end(line, "composer", exit_code(int(found[2])), rank=int(found[1]))


def _scheduler(line: Line, found: re.Match[str]) -> Fact | None:
    code = exit_code(int(found[2]))
    return end(line, "sglang", code, rank=small_int(found[1])) if code else None


def _mpi_abort(line: Line, found: re.Match[str]) -> Fact | None:
    code = small_int(found[2])  # told on the next line as a rule; nobody aborts with 0
    return end(line, "mpi", code or 1, rank=small_int(found[1]))


def _shell(line: Line, found: re.Match[str]) -> Fact | None:
    return end_by_signal(line, "shell", WORDS[found[2]], pid=small_int(found[1]))


def _tracker(line: Line, found: re.Match[str]) -> Fact | None:
    what = "shared_memory" if found[2].startswith("shared") else found[2]
    return ResourceLeak(**common(line), what=what, count=int(found[1]))


def _tracker_zh(line: Line, found: re.Match[str]) -> Fact | None:
    what = "semaphore" if found[2] == "信号量" else "shared_memory"
    return ResourceLeak(**common(line), what=what, count=int(found[1]))


def _killing(line: Line, found: re.Match[str]) -> Fact | None:
    return SignalSent(**common(line), signal="SIGTERM", target_pid=int(found[1]))


def _got(line: Line, found: re.Match[str]) -> Fact | None:
    name = next((group for group in found.groups() if group), None)
    return SignalSent(**common(line), signal=name, received=True) if name else None


_SHELL_WORDS = "|".join(sorted((re.escape(word) for word in WORDS), key=len, reverse=True))


class ProcessEnds(Sentences):
    """Ends of processes and what is left of them, one sentence a line."""

    patterns = (
        Pattern(
            "exits with return code = ",
            re.compile(r"exits with return code = (-?\d{1,6})", re.ASCII),
            _deepspeed,
        ),
        Pattern(
            "[launch.py:",
            re.compile(
                r"Process (\d{1,9}) (?:exits|exited) with (?:return )?code:? ?=? ?(-?\d{1,6})",
                re.ASCII,
            ),
            _deepspeed_child,
        ),
        Pattern(
            "CalledProcessError: Command",
            re.compile(
                r"CalledProcessError: Command .{0,12000}?"
                r"(?:returned non-zero exit status (-?\d{1,6})|died with <Signals\.SIG\w{2,9})",
                re.ASCII,
            ),
            _called,
        ),
        Pattern(
            " terminated with exit code ",
            re.compile(r"process (\d{1,6}) terminated with exit code (-?\d{1,6})", re.ASCII),
            _spawn_code,
        ),
        Pattern(
            " terminated with signal ",
            re.compile(r"process (\d{1,6}) terminated with signal (SIG[A-Z0-9]{2,9})", re.ASCII),
            _spawn_signal,
        ),
        Pattern(
            " terminated with the following error",
            re.compile(r"-- Process (\d{1,6}) terminated with the following error", re.ASCII),
            _spawn_error,
        ),
        Pattern(
            "Child process with PID ",
            re.compile(
                r"Child process with PID (\d{1,9}) terminated with code (-?\d{1,6})", re.ASCII
            ),
            _lightning,
        ),
        Pattern(
            " crashed with exit code ",
            re.compile(r"\b[Rr]ank (\d{1,6}) crashed with exit code (-?\d{1,6})", re.ASCII),
            _composer,
        ),
        Pattern(
            "scheduler died|] Exit code: ",
            re.compile(
                r"(?:Rank (\d{1,6}) scheduler died during initialization \(exit code: "
                r"|^\[[\d :T.-]{8,40}\] Exit code: )(-?\d{1,6})",
                re.ASCII,
            ),
            _scheduler,
        ),
        Pattern(
            ": line ",
            re.compile(r": line \d{1,7}: {1,4}(\d{1,9}) (" + _SHELL_WORDS + r")\b", re.ASCII),
            _shell,
        ),
        Pattern(
            " leaked ",
            re.compile(
                r"There appear to be (\d{1,9}) leaked (semaphore|shared_memory|shared memory|lock"
                r"|folder|noop|file)",
                re.ASCII,
            ),
            _tracker,
        ),
        Pattern(
            "泄漏|泄露",  # as people translate it in their reports
            re.compile(r"(\d{1,9}) ?个(?:被)?泄[漏露]的?(共享内存|信号量)", re.ASCII),
            _tracker_zh,
        ),
        Pattern(
            "MPI_ABORT was invoked on rank ",  # Open MPI's help-mpi-api.txt
            re.compile(
                r"MPI_ABORT was invoked on rank (\d{1,7}) in communicator"
                r"(?: \S{1,80} with errorcode (-?\d{1,9}))?",
                re.ASCII,
            ),
            _mpi_abort,
        ),
        Pattern(
            "Killing subprocess ",
            re.compile(r"Killing subprocess (\d{1,9})", re.ASCII),
            _killing,
        ),
        Pattern(
            "SIGTERM|SIGINT|SIGUSR1|SIGQUIT",
            re.compile(
                r"(?:process received|exiting program after receiving|Received|received signal|"
                r"Bypassing|Caught|Handling (?:auto-requeue )?signal:?) (?:Signals\.)?"
                r"(SIGTERM|SIGINT|SIGUSR1|SIGQUIT)\b(?! death)"
                # Ray's executor in vLLM says of such a line beforehand: "regarding … please ignore"
                r"|(?<!regarding )\b(SIGTERM|SIGINT|SIGUSR1|SIGQUIT) received\b(?!, please ignore)"
            ),
            _got,
        ),
    )


class ShellNotices(Sentences):
    """A shell's bare notice of its job's end: ``Killed``, ``Segmentation fault (core dumped)``."""

    patterns = (
        Pattern(
            "Killed|Segmentation fault|Aborted|Bus error|Terminated|Illegal instruction"
            "|Floating point exception",
            re.compile(
                r"^(?:\[\d{1,3}\][+-]? {1,4}(?:(\d{1,9}) )?)?(Killed|Segmentation fault|Aborted"
                r"|Bus error|Terminated|Illegal instruction|Floating point exception)"
                r"(?: \(core dumped\)|: \d{1,2})?(?: {2,}\S.{0,3000})?$",
                re.ASCII,
            ),
            _shell,
        ),
    )
