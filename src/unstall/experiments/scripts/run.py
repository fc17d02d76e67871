"""One run of a user's own launch script on the user's own devices."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from unstall.experiments import last_words
from unstall.experiments.logs import Log
from unstall.experiments.outcome import End, Run
from unstall.experiments.pump import Pump
from unstall.experiments.runner import PAUSE, Tell
from unstall.experiments.scripts.outputs import Outputs, named_in
from unstall.experiments.until import Until
from unstall.processes import evidence, leash, tree
from unstall.processes.steps import Steps

#: Bytes of a run's log after which the run is given up: a loop that prints would fill the disk.
LARGEST = 1 << 30


def run_script(
    script: Path,
    folder: Path,
    *,
    name: str,
    until: Until,
    stall: float,
    limit: float,
    environment: dict[str, str],
    tell: Tell,
    first: float = 0.0,
    total: int | None = None,
    gather: Callable[[], None] | None = None,
    remove: Sequence[Path] = (),
) -> Run:
    """Run a script with bash and stop everything it started.

    Args:
        script: the file to run, in the current folder.
        folder: gets ``evidence``.
        name: of the run.
        until: when it counts as finished before its own end.
        stall: seconds without progress that count as a hang.
        limit: seconds after which it is given up.
        environment: variables that are added, unless they are set already.
        tell: hears of progress.
        first: the same before its first step was seen, where that may take longer.
        total: how many steps it makes, where that is known.
        gather: gathers more evidence of a run that did not finish, while its processes live.
        remove: what is to be removed besides if this process is killed; else the caller does it.
    """
    place = folder / "evidence"
    place.mkdir(parents=True, exist_ok=True)
    raw = folder / "run.raw"
    tree.adopt_orphans()
    before = set(tree.below(os.getpid()))
    segments = tree.segments()
    begun = time.monotonic()
    steps = Steps(total)
    log = Log(raw, place / "run.log", "")
    seen: set[int] = set()
    pattern = re.compile(until.pattern) if until.pattern else None
    pump = Pump(raw, LARGEST)
    text = script.read_text(encoding="utf-8", errors="replace")
    outputs = Outputs([raw], named_in(text, (Path.cwd(), script.resolve().parent)))
    try:
        process = subprocess.Popen(
            leash.command(["bash", str(script)], [script, raw, *remove]),
            stdin=subprocess.PIPE,  # its end tells the leash that this process has gone
            stdout=pump.write_end,
            stderr=subprocess.STDOUT,
            env={**environment, **os.environ},
            start_new_session=True,
        )
    except BaseException:
        pump.close()
        raise
    pump.started()
    tree.waited_elsewhere(process.pid)

    def others() -> list[int]:
        """Living processes of the script, without the leash."""
        return [p for p in tree.below(os.getpid()) if p not in before and p != process.pid]

    running, look = 0, 0.0
    outcome = "slow"
    has_stacks = False
    ends: tuple[End, ...] = ()
    try:
        last = 0
        while True:
            pump.check()
            lines = log.follow()
            steps.look(lines, log.rest)
            if outputs.due():
                outputs.find(others())
            for path, new, rest in outputs.follow():
                steps.look(new, rest, path)
                lines += new
            if steps.step != last:
                last = steps.step
                tell("step", last)
            code = process.poll()
            spent = time.monotonic() - begun
            reached = (
                (until.step is not None and steps.step >= until.step)
                # in the midst of a hang the time may pass as well: it counts with the next progress
                or (until.seconds is not None and steps.since - begun >= until.seconds)
                or _fits(pattern, lines)
            )
            if code == 0 and until != Until() and not reached and time.monotonic() >= look:
                # programs in the background go on after the script's own end
                look = time.monotonic() + 1.0
                running = len(others())
            if code is not None and (reached or not running or code or until == Until()):
                running = len(others())
                outputs.find(others())
                pump.settle()
                said = False
                for more in (*log.drain(), *outputs.drain()):
                    steps.look(more)
                    said = said or _fits(pattern, more)
                wanted = until.step is not None and steps.step < until.step
                missing = (pattern is not None and not (said or reached)) or wanted
                outcome = "finished" if reached or (code == 0 and not missing) else "failed"
                ends = (End("script", 0, code),)
                break
            if reached:
                outcome = "finished"
                break
            if steps.idle > (stall if steps.started else max(stall, first)):
                outcome = "hung"
                break
            if spent > limit or pump.full:
                break
            if not lines:
                time.sleep(PAUSE)
        seconds = time.monotonic() - begun
        if outcome in ("hung", "failed", "slow"):
            tell("gather", steps.step)
            alive = [pid for pid in others() if tree.is_python(pid)]
            has_stacks = evidence.stacks(alive, place / "stacks.txt")
            if gather is not None:
                gather()
        log.copy()
    finally:
        seen.update(pid for pid in tree.below(os.getpid()) if pid not in before)
        process.terminate()
        tree.wait_for(process, 3.0)
        left = tree.kill_below(os.getpid(), before)
        tree.wait_for(process, 10.0)
        if process.stdin is not None:
            process.stdin.close()
        pump.close()
        tree.reap()
        removed = tree.remove_segments(segments, seen)
    raw.unlink(missing_ok=True)
    kept = [place / "run.log", *outputs.keep(place)]
    lines = last_words.of(kept) if outcome != "slow" else []
    if outcome == "finished" and until == Until() and last_words.ends_badly(lines):
        outcome = "failed"
    if outcome == "finished":
        lines = []
    run = Run(
        name=name,
        outcome=outcome,
        step=steps.step,
        seconds=round(seconds, 2),
        folder=str(folder),
        ends=ends,
        stacks=has_stacks,
        survivors=tuple(left),
        segments=tuple(removed),
        running=running,
        started=steps.started,
        last=last_words.shown(lines),
        errors=last_words.errors(lines),
    )
    (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))
    return run


def _fits(pattern: re.Pattern[str] | None, lines: Sequence[str]) -> bool:
    """Whether one of these lines is that for which a run is to be waited."""
    return pattern is not None and any(pattern.search(line[:4096]) for line in lines)


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
