"""Slurm, Kubernetes and other schedulers: cancellations, evictions, ends of tasks, memory kills.

Sources: ``src/slurmd/slurmstepd`` and ``src/srun`` of Slurm 18.08 to 24.11, ``kubectl describe``
and ``kubectl get pods`` of Kubernetes, Volcano's and Kubeflow's events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, MemoryKill, ProcessEnd, SchedulerEvent
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
from unstall.reading.writers.stamps import full_moment

_REASONS = (
    ("TIME LIMIT", "time-limit"),
    ("PREEMPT", "preempted"),
    ("NODE FAIL", "node-failure"),
    ("REQUEUE", "requeued"),
)
_TASKS = re.compile(
    r"srun: error: (\S{1,200}): tasks? ([\d,-]{1,4000}): (?:Exited with exit code (\d{1,4})"
    r"|([A-Z][A-Za-z/ ]{3,40}?)(?: \(core dumped\))?)\s*$",
    re.ASCII,
)
_RANKS = 4096
"""Tasks of one line that are told of each."""


class TaskEnds:
    """``srun: error: node01: tasks 0-2,4: Exited with exit code 1``, one fact for each task."""

    marks: tuple[str, ...] = ("srun: error: ",)

    @property
    def wants_more(self) -> bool:
        """Never: each sentence stands on one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The end of each task that the line names; a Slurm task is a global rank."""
        found = _TASKS.search(line.text[:8192])
        if found is None:
            return ()
        if found[3] is not None:
            code: int | None = exit_code(int(found[3]))
        else:
            name = WORDS.get(found[4].strip())
            if name is None:
                return ()
            code = -NUMBERS[name]
        return [
            ProcessEnd(
                **common(line),
                reporter="slurm",
                exit_code=code,
                signal=signal_of(code),
                rank=task,
                host=found[1],
            )
            for task in _expand(found[2])
        ]

    def finish(self) -> Iterable[Fact]:
        """Nothing is held back."""
        return ()


def _expand(ranges: str) -> list[int]:
    """``0-2,4`` as numbers, at most 4096 of them."""
    tasks: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        start, stop = small_int(first), small_int(last or first)
        if start is None or stop is None:
            continue
        tasks += range(start, min(stop + 1, start + _RANKS - len(tasks)))
        if len(tasks) >= _RANKS:
            break
    return tasks


def _cancelled(line: Line, found: re.Match[str]) -> Fact | None:
    why = (found[3] or "").upper()
    kind = next((kind for words, kind in _REASONS if words in why), "cancelled")
    told = common(line)
    told["moment"] = full_moment(found[2]) or told["moment"]
    return SchedulerEvent(**told, kind=kind, node=found[1])


def _slurm_oom(line: Line, _: re.Match[str]) -> Fact | None:
    return MemoryKill(**common(line), by="slurm")


def _node(line: Line, found: re.Match[str]) -> Fact | None:
    return SchedulerEvent(**common(line), kind="node-failure", node=found[1] or None)


def _time_limit(line: Line, _: re.Match[str]) -> Fact | None:
    return SchedulerEvent(**common(line), kind="time-limit")


def _step(line: Line, _: re.Match[str]) -> Fact | None:
    return SchedulerEvent(**common(line), kind="cancelled")


def _requeued(line: Line, _: re.Match[str]) -> Fact | None:
    return SchedulerEvent(**common(line), kind="requeued")


def _k8s_oom(line: Line, _: re.Match[str]) -> Fact | None:
    return MemoryKill(**common(line), by="kubernetes", process=line.speaker.container)


def _k8s_exit(line: Line, found: re.Match[str]) -> Fact | None:
    code = exit_code(int(found[1]))
    if code == 0:
        return None
    return ProcessEnd(**common(line), reporter="kubernetes", exit_code=code, signal=signal_of(code))


def _k8s(kind: str) -> Pattern:
    words = {
        "evicted": (
            "Evicted|evicting pod|was evicted",
            r"^\s*(?:Reason:\s+|Warning\s+)?Evicted\b|\sEvicted\s|[Ee]victing pod|was evicted"
            r"|The node was low on resource",
        ),
        "preempted": (
            "Preempted|Preempting|preempted by|Preemption",
            r"\bPreempt(?:ed|ing)\b.{0,60}\b(?:pod|by|Pod|node|task)|Preemption is|preempted by",
        ),
        "node-failure": (
            "NodeNotReady|NodeLost|TaintManagerEviction",
            r"\bNodeNotReady\b|\bNodeLost\b|TaintManagerEviction",
        ),
    }
    marks, regex = words[kind]
    scheduler = "kubernetes"

    def make(line: Line, _: re.Match[str]) -> Fact | None:
        return SchedulerEvent(**common(line), kind=kind, scheduler=scheduler)

    return Pattern(marks, re.compile(regex), make)


class SchedulerLog(Sentences):
    """What a scheduler did to the job."""

    patterns = (
        Pattern(
            "CANCELLED AT ",
            re.compile(
                r"\*\*\* (?:JOB|STEP) \S{1,40} ON (\S{1,200}) CANCELLED AT (\S{1,40})"
                r"(?: DUE TO ([A-Za-z _]{1,60}))?"
            ),
            _cancelled,
        ),
        Pattern(
            "oom-kill event|oom_kill event|OOM Killed",
            re.compile(
                r"[Dd]etected \d{1,9} oom[-_]kill event|tasks have been OOM Killed"
                r"|Exceeded job memory limit"
            ),
            _slurm_oom,
        ),
        Pattern("Exceeded job memory limit", re.compile("Exceeded job memory limit"), _slurm_oom),
        Pattern(
            "Out Of Memory",
            re.compile(r"srun: error: \S{1,200}: tasks? [\d,-]{1,400}: Out Of Memory"),
            _slurm_oom,
        ),
        Pattern(
            "Node failure on ",
            re.compile(r"Node failure on (\S{1,200})"),
            _node,
        ),
        Pattern(
            "due to time limit|exceeded its time limit|TIME LIMIT",
            re.compile(r"[Jj]ob .{0,60}(?:due to time limit|exceeded its time limit)|TIME LIMIT"),
            _time_limit,
        ),
        Pattern(
            "forcing job termination|Force Terminated",
            re.compile(r"srun: (?:error: )?(?:interrupt|forcing job termination|Force Terminated)"),
            _step,
        ),
        Pattern(
            "Requeue|requeue",
            re.compile(
                r"(?:scontrol requeue|Requeued? [Jj]ob|[Jj]ob \S{1,40} (?:has been )?requeued)"
            ),
            _requeued,
        ),
        Pattern(
            "OOMKilled",
            re.compile(r"\bOOMKilled\b"),
            _k8s_oom,
        ),
        Pattern(
            "command terminated with exit code ",
            re.compile(r"command terminated with exit code (\d{1,4})", re.ASCII),
            _k8s_exit,
        ),
        Pattern(
            "Exit Code:",
            re.compile(r"^\s{0,40}Exit Code:\s{1,20}(\d{1,4})\s*$", re.ASCII),
            _k8s_exit,
        ),
        _k8s("evicted"),
        _k8s("preempted"),
        _k8s("node-failure"),
    )
