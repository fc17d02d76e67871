"""What became of one run."""

from __future__ import annotations

import msgspec

from unstall.experiments.scenario import Settings
from unstall.model.text import Text

#: Outcomes: ``finished`` (every process ended well), ``hung`` (alive without progress), ``failed``
#: (a process ended badly), ``slow`` (still in progress at the limit), ``short`` (of B: it ended by
#: itself before any step at which A hung), ``stopped`` (by the user).
OUTCOMES = ("finished", "hung", "failed", "slow", "short", "stopped")


class End(msgspec.Struct, frozen=True):
    """The end of one process; ``code`` as Python counts, negative for a signal."""

    program: str
    rank: int
    code: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the evidence of a run that hung or failed was diagnosed as.

    Attributes:
        cause: identifier of causes.md; ``unknown`` where the evidence does not decide.
        confidence: 0 to 1.
        summary: the diagnosis in a sentence.
        operation: the operation that could not finish with its sequence number, as far as known.
        why: the statements that weigh most, the heaviest first.
    """

    cause: str
    confidence: float
    summary: Text
    operation: str = ""
    why: tuple[Text, ...] = ()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a scenario or script.

    Attributes:
        name: ``A1``, ``B3``.
        outcome: one of :data:`OUTCOMES`.
        step: last step seen.
        seconds: how long it ran, without gathering evidence.
        folder: where its logs and evidence are.
        ends: processes that had ended by themselves when the outcome was clear.
        stacks, dumps: what evidence there is besides logs; dumps by program.
        survivors: processes that could not be stopped (never seen; told if it happens).
        segments: shared-memory segments that were removed.
        scale: by how much the times were stretched because the machine was busy.
        pids: what the processes were called in the logs and stacks: process id to name.
        verdict: what its evidence was diagnosed as, of a run that hung or failed.
        running: processes of a script that still ran when its shell ended.
        started: whether a first step was seen, ``None`` where nobody looked for it.
        last: the end of its log, of a script's run that did not finish.
        errors: the errors in that, without what differs by chance.
    """

    name: str
    outcome: str
    step: int
    seconds: float
    folder: str
    settings: Settings | None = None
    ends: tuple[End, ...] = ()
    stacks: bool = False
    dumps: dict[str, int] = {}
    survivors: tuple[int, ...] = ()
    segments: tuple[str, ...] = ()
    scale: float = 1.0
    pids: dict[int, str] = {}
    verdict: Verdict | None = None
    running: int = 0
    started: bool | None = None
    last: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def evidence(self) -> str:
        """The folder that the diagnosis reads."""
        return f"{self.folder}/evidence"
