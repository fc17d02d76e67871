"""Attempts until the command has finished, restarts are used up, or another would not help."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unstall.experiments.folders import new_folder
from unstall.guard.attempt import Runner
from unstall.guard.checkpoints import Checkpoint, newest
from unstall.guard.record import Attempt, Rules
from unstall.guard.signals import Signals
from unstall.guard.telling import Teller
from unstall.model.secrets import redacted
from unstall.model.text import say

#: Exit status where a stalled job was ended: that of ``timeout``.
STALLED = 124
#: What stands for the checkpoint's path in ``--resume-with``.
PLACE = "{checkpoint}"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; see :func:`unstall.commands.run.run`."""

    command: tuple[str, ...]
    rules: Rules = Rules()
    restarts: int = 0
    resume_with: str | None = None
    checkpoints: str | None = None
    output: Path | None = None
    language: str = "en"


def guard(request: Request) -> int:
    """Run the command under guard; the exit status.

    Raises:
        LabError: the folder for the evidence cannot be used.
    """
    folder = new_folder(request.output, "run")
    teller = Teller(request.language)
    signals = Signals()
    signals.listen()
    runner = Runner(request.rules, folder, teller, signals)
    begun = time.time()
    attempts: list[Attempt] = []
    checkpoint: Checkpoint | None = None
    while True:
        attempt = Attempt(
            number=len(attempts) + 1,
            command=words_of(request, checkpoint, again=bool(attempts)),
            checkpoint=str(checkpoint.path) if checkpoint is not None else None,
        )
        if attempts:
            teller.again(attempt, checkpoint, request.restarts, bool(request.checkpoints))
        attempts.append(attempt)
        extra = {"UNSTALL_ATTEMPT": str(attempt.number)}
        if checkpoint is not None:
            extra["UNSTALL_CHECKPOINT"] = str(checkpoint.path.absolute())
        runner.run(attempt, extra)
        try:
            _write(folder, attempts)
        except OSError as error:  # a full disk is no reason to lose the job's exit status
            teller.tell(say("result.json cannot be written: {error}", error=str(error)), "red")
        if not another(request, attempts, teller):
            break
        if request.checkpoints:
            checkpoint = newest(request.checkpoints, attempt.ended, begun)
        if not _wait(signals, pause(attempts)):
            break
    _tidy(request, folder, attempts)
    return status_of(attempts[-1])


def words_of(request: Request, checkpoint: Checkpoint | None, *, again: bool) -> list[str]:
    """The command's words; after a restart with those that make it go on."""
    words = list(request.command)
    if not again or not request.resume_with:
        return words
    if checkpoint is None and (request.checkpoints or PLACE in request.resume_with):
        return words  # nothing to go on from: from the start
    path = str(checkpoint.path) if checkpoint is not None else ""
    return words + [word.replace(PLACE, path) for word in shlex.split(request.resume_with)]


def another(request: Request, attempts: list[Attempt], teller: Teller) -> bool:
    """Whether the command is to be started again; says why not, where restarts were asked for."""
    last = attempts[-1]
    if last.outcome in ("finished", "interrupted") or not request.restarts:
        return False
    if len(attempts) > request.restarts:
        teller.tell(say("all {count} restarts are used up", count=request.restarts), "red")
        return False
    if len(attempts) > 1 and _same(attempts[-2], last):
        teller.tell(
            say(
                "twice in a row at step {step}: another restart would not help, see the diagnosis",
                step=last.step,
            ),
            "red",
        )
        return False
    return True


def _same(one: Attempt, other: Attempt) -> bool:
    """Whether two attempts ended alike, so that a third would too.

    Before the first step much is passing (a node that is not up yet, a port that is still taken):
    there only a cause that is known tells.
    """
    alike = (one.outcome, one.step, _cause(one)) == (other.outcome, other.step, _cause(other))
    return alike and (one.first_step is not None or _cause(one) not in (None, "unknown"))


def _cause(one: Attempt) -> str | None:
    return one.stalls[-1].cause if one.outcome == "stalled" and one.stalls else one.cause


def pause(attempts: Sequence[Attempt]) -> float:
    """Seconds before another attempt: longer each time that one failed before it did anything.

    Ports and devices need a moment to become free; a server that is down needs longer.
    """
    early = 0
    for one in reversed(attempts):
        if one.first_step is not None or one.seconds > 60:
            break
        early += 1
    return min(2.0 ** min(max(early, 1), 6), 60.0)


def _wait(signals: Signals, seconds: float) -> bool:
    """Wait; false if the user wants an end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and signals.first is None:
        time.sleep(0.05)
    return signals.first is None


def status_of(last: Attempt) -> int:
    """The exit status that the last attempt makes."""
    if last.outcome == "stalled":
        return STALLED
    code = last.code if last.code is not None else 1
    return code if code >= 0 else 128 - code


def _write(folder: Path, attempts: list[Attempt]) -> None:
    shown = [msgspec.to_builtins(one) for one in attempts]
    for one in shown:
        one["command"] = redacted(shlex.join(one["command"]))
    data = msgspec.json.format(msgspec.json.encode({"attempts": shown}), indent=1)
    (folder / "result.json").write_bytes(data + b"\n")


def _tidy(request: Request, folder: Path, attempts: list[Attempt]) -> None:
    """Leave no folder behind where nothing happened and none was asked for."""
    quiet = all(one.outcome in ("finished", "interrupted") and not one.stalls for one in attempts)
    if quiet and request.output is None:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
