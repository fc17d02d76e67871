"""One run: start the processes, watch them, gather evidence while they hang, stop everything."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from unstall.experiments.child import FOLDER, HANDED_OVER, PROGRAM, ROLE, SETTINGS
from unstall.experiments.logs import Log, Watch
from unstall.experiments.nurse import LabError, Nurse
from unstall.experiments.outcome import End, Run
from unstall.experiments.scenario import ProgramSpec, Scenario, Settings
from unstall.model.text import say
from unstall.processes import evidence, recorder_names, tree
from unstall.processes.states import process_list

PAUSE = 0.05
#: Patience until the first line, in those later on: imports take long where others compute, too.
FIRST_LINE = 3
#: Longest stretch of times on a busy machine.
MOST_STRETCH = 2.5

#: Time-outs above this are not waited for once the run hangs.
LONGEST_LINGER = 60.0

#: Told while a run goes on: what happens (``start``, ``step``, ``stall``, ``gather``), the step.
Tell = Callable[[str, int], None]


def stretch() -> float:
    """How many times longer things may take because other work runs on this machine too."""
    try:
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return 1.0
    return round(min(max(busy, 1.0), MOST_STRETCH), 1)


def free_port() -> int:
    """A port that nobody listens on now.

    For programs that insist on binding it themselves, as ``MASTER_PORT`` wants; it is drawn
    afresh for every run, and a run whose port was taken meanwhile fails with a clear line. It lies
    below those that the system gives to connections by itself, where it can: runs beside this one
    open many.
    """
    for _ in range(100):
        port = _drawn()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise LabError(say("No free port was found on this machine."))


def _drawn() -> int:
    """A port to try; 0 lets the system choose."""
    try:
        given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()
        first = int(given[0])
    except (OSError, ValueError, IndexError):
        return 0
    lowest = 20_000
    return lowest + secrets.randbelow(first - lowest) if first > lowest + 1000 else 0


def patience_of(scenario: Scenario, settings: Settings, scale: float) -> tuple[float, float]:
    """Seconds without progress that are a hang, and seconds after which a run is given up.

    A rank that is at work for so many time-outs of its group (the size ``times``) is late, not
    hung: with a time-out that covers the work it is to be waited for, be it as long as the user
    wants it.

    Args:
        scenario: what is run.
        settings: of the run, its time-out stretched already.
        scale: by which times are stretched.
    """
    work = settings.timeout * settings.sizes.get("times", 0.0)
    stall = max(scenario.stall * scale, 1.25 * work + 5.0 * scale if work else 0.0)
    return stall, scenario.limit * scale + 2.0 * work


class _Process:
    def __init__(self, spec: ProgramSpec, rank: int, pid: int, log: Log) -> None:
        self.spec = spec
        self.rank = rank
        self.pid = pid
        self.log = log
        self.code: int | None = None


def run_scenario(
    scenario: Scenario,
    settings: Settings,
    folder: Path,
    nurse: Nurse,
    *,
    name: str = "A1",
    tell: Tell | None = None,
) -> Run:
    """Run a scenario once.

    Args:
        scenario: what to run.
        settings: fault, changes, sizes.
        folder: gets ``raw`` (each process's log) and ``evidence`` (what the diagnosis reads).
        nurse: starts the processes; everything below it is stopped at the end, however it comes.
        name: of the run.
        tell: hears of progress.

    Raises:
        LabError: the processes could not be started.
    """
    nurse.open()
    for part in ("raw", "evidence"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    scale = stretch()
    settings = msgspec.structs.replace(settings, timeout=round(settings.timeout * scale, 1))
    private = Path(tempfile.mkdtemp(prefix="unstall-"))
    before = tree.segments()
    running = _Running(scenario, settings, folder, private, nurse, scale, tell)
    try:
        running.kernel = evidence.kernel_log() if "memory-cgroup" in scenario.needs else None
        running.start()
        outcome = running.watch()
        return running.result(name, outcome, before)
    finally:
        nurse.clear()
        tree.remove_segments(before, running.seen, [private.name])
        tree.remove_cgroups(private / "cgroups")
        shutil.rmtree(private, ignore_errors=True)


class _Running:
    def __init__(
        self,
        scenario: Scenario,
        settings: Settings,
        folder: Path,
        private: Path,
        nurse: Nurse,
        scale: float,
        tell: Tell | None,
    ) -> None:
        self.scenario = scenario
        self.settings = settings
        self.folder = folder
        self.private = private
        self.nurse = nurse
        self.scale = scale
        self.tell = tell or (lambda _what, _step: None)
        self.processes: list[_Process] = []
        self.seen: set[int] = set()
        self.watcher = Watch(scenario.progress)
        self.begun = time.monotonic()
        self.ended_after = 0.0
        self.has_stacks = False
        self.has_dumps: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.gathered = False
        self.known: tuple[int, int] | None = None
        self.kernel: list[str] | None = None

    # --- start ------------------------------------------------------------------------------

    def start(self) -> None:
        port = free_port()
        self.tell("start", 0)
        for spec in self.scenario.programs:
            count = spec.ranks or self.settings.ranks
            for rank in range(count):
                alone = spec.own_log or count == 1
                merged = self.folder / "evidence" / f"{spec.name}.log"
                raw = (
                    self.folder
                    / "raw"
                    / (f"{spec.name}.log" if alone else f"{spec.name}-{rank}.log")
                )
                log = Log(raw, merged, "" if alone else f"[default{rank}]:")
                module = f"unstall.experiments.scenarios.{self.scenario.module}"
                pid = self.nurse.start(
                    module=module,
                    title=f"python -m {module} --rank={rank}",
                    log=raw,
                    folder=self.private,
                    environment=self._environment(spec, rank, count, port),
                )
                self.processes.append(_Process(spec, rank, pid, log))
                self.names[pid] = f"{spec.name} rank {rank}"

    def _environment(self, spec: ProgramSpec, rank: int, count: int, port: int) -> dict[str, str]:
        settings = msgspec.json.encode(self.settings).decode()
        return {
            **lab_environment(os.environ),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TMPDIR": str(self.private),
            **self._watchdog(),
            SETTINGS: settings,
            FOLDER: str(self.private),
            PROGRAM: spec.name,
            ROLE: spec.role,
        }

    def _watchdog(self) -> dict[str, str]:
        """Where NCCL's watchdog puts its own dumps: into a folder that is removed."""
        if self.settings.backend != "nccl":
            return {}
        dump = str(self.private / "watchdog_rank_")
        return {"TORCH_FR_DUMP_TEMP_FILE": dump, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dump}

    # --- watch ------------------------------------------------------------------------------

    def watch(self) -> str:
        """Follow the run to its outcome and gather evidence unless it finished."""
        outcome = self._until_clear()
        self.ended_after = time.monotonic() - self.begun
        if outcome == "finished":
            self._follow(last=True)
            return outcome
        if not self.gathered:
            self._gather()
        if self.kernel is not None:
            evidence.kernel_news(self.kernel, self.folder / "evidence" / "kernel.log")
        if outcome == "hung":
            self._linger()
        self._follow(last=True)
        return outcome

    def _until_clear(self) -> str:
        failed_at: float | None = None
        stall, limit = patience_of(self.scenario, self.settings, self.scale)
        early = self.scenario.gather * self.scale
        last = self.watcher.step
        patience = FIRST_LINE * stall
        while True:
            moved = self._follow()
            if moved:
                patience = stall
                self.gathered = False
                self._discard_stale()
            elif early and not self.gathered and self.watcher.idle > early:
                self._gather()
            if self.watcher.step != last:
                last = self.watcher.step
                self.tell("step", last)
            self._note_ends()
            required = [p for p in self.processes if not p.spec.service]
            bad = any(p.code not in (None, 0) for p in self.processes)
            if all(p.code == 0 for p in required):
                return "finished"
            if bad and failed_at is None:
                failed_at = time.monotonic()
            if failed_at is not None:
                all_ended = all(p.code is not None for p in required)
                if all_ended or self.watcher.idle > patience:
                    return "failed"
            elif self.watcher.idle > patience:
                return "hung"
            if time.monotonic() - self.begun > limit:
                return "failed" if bad else "slow"
            if not moved:
                time.sleep(PAUSE)

    def _follow(self, last: bool = False) -> bool:
        moved = False
        for process in self.processes:
            lines = process.log.finish() if last else process.log.follow()
            if not process.spec.service:
                moved = self.watcher.look(lines) or moved
        return moved

    def _note_ends(self) -> None:
        ended = self.nurse.ended()
        for process in self.processes:
            if process.code is None:
                process.code = ended.get(process.pid)

    def _gather(self) -> None:
        """Recorder dumps and stacks of what is alive.

        What was gathered at the same step with more processes alive is kept: it shows more.
        """
        assert self.nurse.pid is not None  # noqa: S101 - it started the processes
        alive = tree.below(self.nurse.pid)
        self.seen.update(alive)
        self.gathered = True
        known = (self.watcher.step, len(alive))
        if self.known is not None and self.known[0] == known[0] and self.known[1] > known[1]:
            return
        self.known = known
        self.tell("gather", self.watcher.step)
        place = self.folder / "evidence"
        asked = evidence.ask_for_dumps(self.private)
        aside = self._bystanders()
        own = [pid for pid in alive if pid not in aside]
        process_list(own, place / "processes.txt")
        self.has_stacks = evidence.stacks(own, place / "stacks.txt")
        evidence.stacks([pid for pid in alive if pid in aside], self.folder / "raw" / "stacks.txt")
        self.has_dumps = evidence.collect_dumps(self.private, asked, place, 4.0 * self.scale)

    def _discard_stale(self) -> None:
        """Remove what was gathered in a pause after which the run made steps again.

        If it fails later at once, nobody is left to be asked, and the old stacks would show
        another moment.
        """
        if self.known is None or self.known[0] == self.watcher.step:
            return
        self.known, self.has_stacks, self.has_dumps = None, False, {}
        place = self.folder / "evidence"
        raw = self.folder / "raw" / "stacks.txt"
        for path in (place / "stacks.txt", place / "processes.txt", raw):
            path.unlink(missing_ok=True)
        for path in place.glob("*-dumps"):
            shutil.rmtree(path, ignore_errors=True)

    def _bystanders(self) -> set[int]:
        """Processes of programs whose stacks are no part of the evidence."""
        found: set[int] = set()
        for process in self.processes:
            if not process.spec.stacks:
                found |= {process.pid, *tree.below(process.pid)}
        return found

    def _linger(self) -> None:
        """Let the group's time-out pass, so that the logs hold what users see of it."""
        if self.settings.timeout > LONGEST_LINGER * self.scale:
            return
        end = time.monotonic() + self.settings.timeout + 2.0 * self.scale
        end -= self.watcher.idle
        while time.monotonic() < end:
            self._follow()
            self._note_ends()
            if all(p.code is not None for p in self.processes if not p.spec.service):
                return
            time.sleep(PAUSE)

    # --- end --------------------------------------------------------------------------------

    def result(self, name: str, outcome: str, before: set[str]) -> Run:
        assert self.nurse.pid is not None  # noqa: S101
        ends = tuple(End(p.spec.name, p.rank, p.code) for p in self.processes if p.code is not None)
        self.seen.update(p.pid for p in self.processes)
        self.seen.update(tree.below(self.nurse.pid))
        survivors = self.nurse.clear()
        for path in sorted((self.private / HANDED_OVER).glob("*")):
            shutil.copyfile(path, self.folder / "evidence" / path.name)
        removed = tree.remove_segments(before, self.seen, [self.private.name])
        run = Run(
            name=name,
            outcome=outcome,
            step=self.watcher.step,
            seconds=round(self.ended_after, 2),
            folder=str(self.folder),
            settings=self.settings,
            ends=ends,
            stacks=self.has_stacks,
            dumps=self.has_dumps,
            survivors=tuple(survivors),
            segments=tuple(removed),
            scale=self.scale,
            pids=self.names,
        )
        (self.folder / "run.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(run), indent=1)
        )
        return run


def lab_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for processes of an experiment: nothing of an outer distributed job."""
    dropped = ("RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    kept = {
        name: text
        for name, text in given.items()
        if name not in dropped and not name.startswith(("TORCHELASTIC_", "GLOO_", "SLURM_"))
    }
    for names in recorder_names.RENAMED.items():  # it is always on here
        for name in names:
            kept.pop(name, None)
    import sys

    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        **recorder_names.variables(2000, None, recorder_names.own_torch(), {}),
    }
