"""Runs of scenarios, several at a time, each in a process with a nursery of its own.

``python -m unstall.experiments.prove_pool`` is such a process: one JSON task a line on standard
input, one JSON result a line on standard output. It stops everything that it started when its
input closes, on Ctrl-C and SIGTERM, and when the process that started it ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from unstall.experiments.child import die_with_parent
from unstall.experiments.closing import close
from unstall.experiments.interrupts import stop_once
from unstall.experiments.library import find
from unstall.experiments.nurse import LabError, Nurse
from unstall.experiments.runner import run_scenario
from unstall.experiments.scenario import Settings
from unstall.model.text import say
from unstall.processes.own_python import running

#: Seconds that a worker gets to stop what it started.
GRACE = 30.0


class Task(msgspec.Struct, frozen=True):
    """One run.

    Attributes:
        number: its place in the order of all.
        scenario: its name.
        variant: ``fault``, a change's name or ``control NAME``.
        settings: of the run.
        keep: folder for its evidence; without one the evidence is removed.
    """

    number: int
    scenario: str
    variant: str
    settings: Settings
    keep: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task.

    Attributes:
        outcome: as in :class:`unstall.experiments.outcome.Run`.
        step, seconds: how far it came, how long it took with evidence and diagnosis.
        verdict: first cause of the diagnosis, of runs that did not finish.
        named, closed: whether that is the scenario's cause, and its fingerprint matches too.
        missing: what of the fingerprint is missing.
        error: why there was no run.
    """

    number: int
    outcome: str = ""
    step: int = 0
    seconds: float = 0.0
    verdict: str | None = None
    named: bool = False
    closed: bool = False
    missing: tuple[str, ...] = ()
    error: str = ""


def run_task(task: Task, nurse: Nurse) -> Result:
    """Run a task here."""
    scenario = find(task.scenario)[0]
    begun = time.monotonic()
    folder = Path(task.keep or tempfile.mkdtemp(prefix="unstall-prove-"))
    if task.keep:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        run = run_scenario(scenario, task.settings, folder, nurse, name=task.variant)
        result = Result(number=task.number, outcome=run.outcome, step=run.step)
        if run.outcome != "finished":
            closing = close(scenario, run)
            result = msgspec.structs.replace(
                result,
                verdict=closing.verdict,
                named=closing.named,
                closed=closing.closed,
                missing=tuple(mark.text.render() for mark in closing.marks if not mark.found),
            )
    except LabError as error:
        result = Result(number=task.number, error=error.text.render())
    except Exception as error:  # a defect costs its own run, and is told
        traceback.print_exc()
        result = Result(number=task.number, error=f"{type(error).__name__}: {error}")
    finally:
        if not task.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return msgspec.structs.replace(result, seconds=round(time.monotonic() - begun, 1))


# --- the pool ----------------------------------------------------------------------------------


class _Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            running("unstall.experiments.prove_pool"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C comes to it from us, once
        )
        assert self.process.stdin is not None  # noqa: S101
        assert self.process.stdout is not None  # noqa: S101
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.task: Task | None = None
        self._pending = b""

    def give(self, task: Task) -> None:
        self.task = task
        self.stdin.write(msgspec.json.encode(task) + b"\n")
        self.stdin.flush()

    def take(self) -> Result | None:
        """Its result, once a whole line has come.

        Raises:
            LabError: it has ended.
        """
        data = os.read(self.stdout.fileno(), 1 << 16)
        if not data:
            name = f"{self.task.scenario} {self.task.variant}" if self.task is not None else "-"
            raise LabError(say("A process that runs scenarios ended in {run}.", run=name))
        self._pending += data
        if b"\n" not in self._pending:
            return None
        line, self._pending = self._pending.split(b"\n", 1)
        self.task = None
        return msgspec.json.decode(line, type=Result)


def run_all(
    tasks: Sequence[Task],
    jobs: int,
    hear: Callable[[Task, Result], None],
    *,
    alone: Sequence[str] = (),
) -> None:
    """Run tasks, at most ``jobs`` at a time; ``hear`` is called as each ends.

    Args:
        tasks: in the order in which they are begun, as far as ``alone`` allows.
        jobs: number of processes.
        hear: hears of each result.
        alone: scenarios of which no two may run at one time.

    Raises:
        LabError: a process ended unexpectedly; everything has been stopped.
    """
    waiting = list(tasks)
    workers: list[_Worker] = []
    selector = selectors.DefaultSelector()
    try:
        for _ in range(max(1, min(jobs, len(waiting)))):
            worker = _Worker()
            workers.append(worker)
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        while waiting or any(worker.task is not None for worker in workers):
            for worker in workers:
                if worker.task is None:
                    busy = {one.task.scenario for one in workers if one.task is not None}
                    chosen = next_task(waiting, busy, alone)
                    if chosen is not None:
                        waiting.remove(chosen)
                        worker.give(chosen)
            for key, _ in selector.select(1.0):
                worker = key.data
                task, result = worker.task, worker.take()
                if task is not None and result is not None:
                    hear(task, result)
    finally:
        selector.close()
        _stop(workers)


def next_task(waiting: Sequence[Task], busy: set[str], alone: Sequence[str]) -> Task | None:
    """The first task that may begin beside the scenarios that run now."""
    return next(
        (one for one in waiting if one.scenario not in alone or one.scenario not in busy), None
    )


def _stop(workers: Sequence[_Worker]) -> None:
    """Let the workers stop what they started, then end."""
    for worker in workers:
        with contextlib.suppress(OSError):
            worker.stdin.close()
        if worker.task is not None:
            worker.process.send_signal(signal.SIGTERM)
    for worker in workers:
        try:
            worker.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        worker.stdout.close()


# --- a worker ----------------------------------------------------------------------------------


def main() -> None:
    """Run tasks until standard input closes."""
    stop_once()
    die_with_parent(signal.SIGTERM)
    results = os.dup(1)
    os.dup2(2, 1)  # nothing else may write between the results
    with contextlib.suppress(KeyboardInterrupt), Nurse() as nurse:
        for line in sys.stdin.buffer:
            result = run_task(msgspec.json.decode(line, type=Task), nurse)
            os.write(results, msgspec.json.encode(result) + b"\n")


if __name__ == "__main__":
    main()
