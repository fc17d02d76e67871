"""One attempt: the command is started, followed, looked at when it falls silent, and ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from unstall.guard import keep
from unstall.guard.job import Job, end
from unstall.guard.look import Look, look
from unstall.guard.output import Kept, Stream, mid_line
from unstall.guard.pace import Pace
from unstall.guard.record import Attempt, Rules, Stall
from unstall.guard.signals import Signals
from unstall.guard.telling import Teller
from unstall.model.text import say
from unstall.processes import leash, tree

_PAUSE = 0.1
#: Looks that must find the same before a job counts as stalled.
_LOOKS = 2
#: Where a job may wait for something that is not in it, it gets so much longer,
_STILL = 3
#: and at least so many seconds before it is ended, unless the user set a limit.
_ANSWER = 300.0
#: or so many where those that it waits for may be on another machine, whose guard knows better.
_AWAY = 1800.0
#: Seconds, at most, between the report of a stall and the look after which the job is ended.
_ONCE_MORE = 120.0
#: Stalls of one attempt whose evidence is kept; each may be 150 MB.
_EVIDENCE = 20
#: Seconds that the reader of the output may take nothing before the job may wait for that.
_UNREAD = 1.0


class Runner:
    """Runs attempts of a command in one folder."""

    def __init__(self, rules: Rules, folder: Path, teller: Teller, signals: Signals) -> None:
        self.rules = rules
        self.folder = folder
        self.teller = teller
        self.signals = signals

    def run(self, attempt: Attempt, extra: dict[str, str]) -> None:
        """Run the command once; what became of it is written into ``attempt``.

        Args:
            attempt: its number and command.
            extra: variables of the command.

        Raises:
            OSError: it cannot be started, or the folder cannot be written.
        """
        place = self.folder / f"attempt-{attempt.number}"
        place.mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            state = Path(tempfile.mkdtemp(prefix="unstall-"))
            stack.callback(shutil.rmtree, state, ignore_errors=True)
            log = Kept(place)
            stack.callback(log.close)
            segments, seen = tree.segments(), set[int]()
            job = self._start(attempt, extra, place, state, log)
            try:
                self._follow(job)
            finally:
                left = job.pids()
                seen.update(left)
                if attempt.outcome == "finished" and left:
                    self.teller.left_behind(len(left))
                end(job)
                for stream in job.streams:
                    stream.settle(5.0, lambda: self.signals.first is not None)
                job.hear()
                tree.remove_segments(segments, seen)
                attempt.seconds = round(time.monotonic() - job.begun, 1)
                attempt.ended = time.time()
            if attempt.outcome == "failed":
                self._post_mortem(job)
        with contextlib.suppress(OSError):
            place.rmdir()  # nothing happened that is worth keeping

    def _start(
        self, attempt: Attempt, extra: dict[str, str], place: Path, state: Path, log: Kept
    ) -> Job:
        lock = threading.Lock()
        streams = [Stream(_descriptor(one), log, lock) for one in (sys.stdout, sys.stderr)]
        own = {} if self.rules.bare else keep.variables(state, os.environ)
        environment = {**os.environ, **own, **extra}
        tree.adopt_orphans()
        before = set(tree.below(os.getpid()))
        try:
            process = subprocess.Popen(
                leash.command(attempt.command, [state]),
                stdin=subprocess.PIPE,  # its end tells the leash that this process has gone
                stdout=streams[0].write_end,
                stderr=streams[1].write_end,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            for stream in streams:
                stream.given_up()
            raise
        for stream in streams:
            stream.started()
        self.teller.mid_line = lambda: mid_line(streams[0], streams[1])
        tree.waited_elsewhere(process.pid)
        return Job(
            process=process,
            before=before,
            place=place,
            state=state,
            log=log,
            streams=streams,
            attempt=attempt,
            environment=environment,
            pace=Pace(self.rules.stall, self.rules.start_up),
        )

    # --- while it runs ---------------------------------------------------------------------------

    def _follow(self, job: Job) -> None:
        attempt, pace = job.attempt, job.pace
        while True:
            code = job.process.poll()
            job.hear()
            if attempt.stalls and attempt.stalls[-1].went_on is None and pace.moves > job.stalled:
                stall = attempt.stalls[-1]
                stall.went_on = round(time.monotonic() - job.stalled_at, 1)
                self.teller.went_on(stall, pace.step)
            for number in self.signals.take():
                job.signal(number)
            if code is not None:
                attempt.code = code
                attempt.outcome = "failed" if code else "finished"
                if self.signals.first is not None:
                    attempt.outcome = "interrupted"
                return
            if self.signals.first is not None:
                self._hand_on(job)
                attempt.outcome = "interrupted"
                return
            if pace.overdue and self._stalled(job):
                attempt.outcome = "stalled"
                self._stop(job)
                return
            time.sleep(_PAUSE)

    def _stalled(self, job: Job) -> bool:
        """Look at a job that is overdue; whether it is to be ended, since it stands still for good.

        If it stands still, its evidence is kept.
        """
        pace, attempt = job.pace, job.attempt
        if any(stream.blocked > _UNREAD for stream in job.streams):
            self.teller.unread(pace)  # a pager, a terminal that was stopped
            pace.excuse()
            return False
        known = bool(attempt.stalls) and attempt.stalls[-1].went_on is None
        for number in range(1 if known else _LOOKS):
            if number and self._pause(job, self.rules.gap):
                return False
            found = self._look(job)
            if not found.bad:
                break
        if self._wanted(job) or pace.idle < pace.patience:
            return False
        if not found.bad:
            if found.kind in ("late", "unseen") or known:
                self.teller.quiet_but(found, pace)
            pace.excuse()
            return False
        if found.kind != "stuck" and pace.idle < pace.base:
            pace.look_after(pace.base)
            return False
        if found.kind in ("still", "away") and pace.idle < _STILL * pace.base:
            pace.look_after(_STILL * pace.base)
            return False
        if not known:
            self._keep(job, found)
        if self.rules.stop:
            least = self._least(job, found)
            if known and pace.idle >= least:
                return True
            if not known:
                self.teller.patient(max(least, pace.idle))
            pace.look_after(max(least, pace.idle))
        else:
            pace.excuse()
        return False

    def _least(self, job: Job, found: Look) -> float:
        """Seconds without progress after which a job that still stands still is ended."""
        base = job.pace.base
        least = job.attempt.stalls[-1].idle + min(base, _ONCE_MORE)
        if not job.pace.paced:
            least = max(least, base)
        if found.kind == "stuck":
            return least
        floor = _AWAY if found.kind == "away" else _ANSWER
        return max(least, _STILL * base, floor if self.rules.stall is None else 0.0)

    def _stop(self, job: Job) -> None:
        """End a job that stands still; the user may hurry that."""
        self.teller.stopping(self.rules.grace)
        job.signal(signal.SIGTERM)
        self._give(job, lambda: self.signals.first is not None)

    def _give(self, job: Job, enough: Callable[[], bool]) -> None:
        """Wait for the job's end, as long as it has grace."""
        end = time.monotonic() + self.rules.grace
        while job.process.poll() is None and time.monotonic() < end and not enough():
            time.sleep(_PAUSE)
        job.attempt.code = job.process.poll()

    def _wanted(self, job: Job) -> bool:
        """Whether there is something else to do than to look: the job has ended, or shall."""
        return self.signals.first is not None or job.process.poll() is not None

    def _look(self, job: Job) -> Look:
        try:
            return look(job.pids, self.rules.gap, lambda seconds: self._pause(job, seconds))
        except Exception as error:  # a defect of ours must not end the user's job
            return Look(
                kind="unseen", said=say("the stacks cannot be read: {error}", error=repr(error))
            )

    def _pause(self, job: Job, seconds: float) -> bool:
        """Wait; true if there is progress, the job ends or the user wants something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if job.hear() or self._wanted(job):
                return True
            time.sleep(_PAUSE)
        return False

    def _keep(self, job: Job, found: Look) -> None:
        attempt, pace = job.attempt, job.pace
        job.stalled, job.stalled_at = pace.moves, time.monotonic()
        place = job.place / f"stall-{len(attempt.stalls) + 1}"
        stall = Stall(
            step=pace.step,
            idle=round(pace.idle, 1),
            kind=found.kind,
            said=found.said.render(self.teller.language),
            folder=str(place),
        )
        attempt.stalls.append(stall)
        self.teller.stalled(stall, found, pace)
        if len(attempt.stalls) > _EVIDENCE:  # what is on the disk is enough
            stall.folder = attempt.stalls[_EVIDENCE - 1].folder
            return
        with self._whatever():
            self._gather(job, found, place)
        self._diagnose(place, stall)
        self.teller.diagnosed(stall)

    def _gather(self, job: Job, found: Look, place: Path) -> None:
        place.mkdir()
        for which, text in enumerate(found.texts, 1):
            (place / f"stacks-{which}.txt").write_text(text, encoding="utf-8")
        asked = keep.ask_for_dumps(job.state)
        if asked or not self.rules.bare:
            keep.dumps(job.state, place, asked)
        keep.machine(job.pids(), place)
        self._rest(job, place)

    # --- afterwards ------------------------------------------------------------------------------

    def _post_mortem(self, job: Job) -> None:
        place = job.place / "end"
        with self._whatever():
            place.mkdir()
            keep.dumps(job.state, place, (), 1.0)
            self._rest(job, place)
        job.attempt.evidence = str(place)
        self._diagnose(place, job.attempt)
        self.teller.failed(job.attempt)

    def _rest(self, job: Job, place: Path) -> None:
        for stream in job.streams:
            stream.flush()
        job.log.whole(place / "run.log")
        keep.command(job.attempt.command, job.environment, place)

    @contextlib.contextmanager
    def _whatever(self) -> Iterator[None]:
        """A disk that is full, or a defect of ours, must not end the user's job."""
        try:
            yield
        except Exception as error:
            shown = str(error) if isinstance(error, OSError) else repr(error)
            self.teller.tell(say("the evidence is not whole: {error}", error=shown), "red")

    def _diagnose(self, place: Path, into: Stall | Attempt) -> None:
        from unstall.diagnosis import diagnose

        try:
            found = diagnose([place])
        except Exception as error:  # a defect of ours must not end the user's job
            self.teller.tell(say("the evidence cannot be diagnosed: {error}", error=repr(error)))
            return
        if found.causes:
            first = found.causes[0]
            into.cause = first.finding.cause
            into.confidence = round(first.confidence, 2)
            into.summary = first.finding.summary.render(self.teller.language)

    def _hand_on(self, job: Job) -> None:
        """Give the user's signal to the job and wait for its end, as long as it has grace."""
        first = self.signals.first
        assert first is not None  # noqa: S101 - for the type checker
        self.teller.handing_on(first, self.rules.grace)
        job.signal(first)
        self._give(job, lambda: self.signals.again)


def _descriptor(stream: object) -> int | None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return int(stream.fileno())  # type: ignore[attr-defined]
    return None
