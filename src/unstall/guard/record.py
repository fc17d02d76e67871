"""What is asked of a guard, and what it tells of a run: the form of ``result.json``."""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for.

    Attributes:
        stall: seconds without progress after which the processes are looked at; ``None``: by pace.
        start_up: the same before a pace is known.
        stop: whether a job that is stalled is ended.
        grace: seconds between SIGTERM and SIGKILL.
        gap: seconds between the two samples of a look, and between two looks.
        bare: nothing is added to the command's environment.
    """

    stall: float | None = None
    start_up: float = 600.0
    stop: bool = False
    grace: float = 30.0
    gap: float = 3.0
    bare: bool = False


class Stall(msgspec.Struct, kw_only=True):
    """That a job made no progress and nothing in it moved.

    Attributes:
        step: the last step.
        idle: seconds since, when that was certain.
        kind, said: of the look.
        folder: with the evidence.
        cause, confidence, summary: of the diagnosis.
        went_on: seconds after which there was progress again; ``None``: there was none.
    """

    step: int
    idle: float
    kind: str
    said: str
    folder: str
    cause: str | None = None
    confidence: float = 0.0
    summary: str = ""
    went_on: float | None = None


class Attempt(msgspec.Struct, kw_only=True):
    """What became of one attempt.

    Attributes:
        number: from 1.
        command: its words.
        code: exit code of the command as Python counts, negative for a signal.
        outcome: ``finished``, ``failed``, ``stalled`` (and ended for that), ``interrupted``.
        step: last step seen; ``first_step`` the first.
        seconds: how long it ran.
        ended: when, as seconds since 1970.
        stalls: times at which it stood still.
        evidence: folder of a failure's evidence.
        checkpoint: that it began from.
    """

    number: int
    command: list[str]
    code: int | None = None
    outcome: str = "interrupted"
    first_step: int | None = None
    step: int = 0
    seconds: float = 0.0
    ended: float = 0.0
    stalls: list[Stall] = []
    evidence: str | None = None
    cause: str | None = None
    confidence: float = 0.0
    summary: str = ""
    checkpoint: str | None = None
