"""The launch plan: every program that was started and what each was given."""

from __future__ import annotations

import msgspec

from unstall.model.facts import Place
from unstall.model.text import Text

ROLES = ("trainer", "rollout", "inference", "reward", "launcher", "node")
JUDGEMENTS = ("ok", "conflict", "suspicious", "no effect")


class Value(msgspec.Struct, frozen=True):
    """A flag's or variable's value.

    Attributes:
        text: the value; for an unknown one its expression as written, e.g. ``$(get_free_port)``.
        known: whether the value is known from the script alone.
        place: where it was set; ``None`` for a default.
        token: for unknown values: equal tokens mean the same (unknown) value at run time.
        default: it was not given; ``text`` is what the software takes then.
    """

    text: str
    known: bool = True
    place: Place | None = None
    token: str | None = None
    default: bool = False

    def same_as(self, other: Value) -> bool | None:
        """Whether both are one value at run time; ``None`` where that cannot be known."""
        if self.known and other.known:
            return self.text == other.text
        if self.token is not None and self.token == other.token:
            return True
        return None


class Port(msgspec.Struct, frozen=True):
    """A port that a program listens on or connects to.

    Attributes:
        purpose: ``rendezvous``, ``http``, ``weight-exchange``, ``data-parallel rendezvous`` …
        listens: the program itself binds it (else it connects to another's).
        host: address as written.
        picked: ``fixed``, ``free`` (bound at once by the program that asked the system for it) or
            ``reserved-late`` (asked for, closed, and bound later: another process may take it), or
            ``random`` (drawn without asking the system).
    """

    purpose: str
    value: Value
    listens: bool = True
    host: Value | None = None
    picked: str = "fixed"


class Timeout(msgspec.Struct, frozen=True):
    """A time-out and what it reaches.

    Attributes:
        name: flag or variable.
        milliseconds: its value.
        reaches: ``process groups``, ``store``, ``http``, ``heartbeat``, ``rollout`` …
        value: as given.
    """

    name: str
    milliseconds: int | None
    reaches: str
    value: Value


class Parallel(msgspec.Struct, frozen=True):
    """Parallel sizes; ``None`` where unknown."""

    tensor: int | None = None
    data: int | None = None
    pipeline: int | None = None
    expert: int | None = None
    context: int | None = None
    decode_context: int | None = None
    expert_enabled: bool = False
    extra: dict[str, int] = {}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One launched program.

    Attributes:
        label: unique in its plan and understood by a user: ``rollout server``, ``trainer``.
        role: one of :data:`ROLES`.
        software: name in :mod:`unstall.programs`: ``vllm``, ``ms-swift``, ``torchrun`` …
        command: words as the shell would pass them; unknown parts stay as written.
        flags: flags in their canonical spelling (no leading dashes, ``_`` for ``-``).
        environment: variables that the script gave it and that it really receives.
        not_exported: variables that the script set but that never reach it.
        devices: device ordinals; ``None`` where unknown.
        processes: how many ranks it has in all; ``None`` where unknown.
        engine: inference software inside it, e.g. ``vllm`` in ms-swift's rollout.
        versions: package to version, as far as the input gives them.
        place: where its command stands.
        condition: the condition under which the script starts it, as written.
    """

    label: str
    role: str
    software: str
    command: tuple[str, ...] = ()
    flags: dict[str, Value] = {}
    environment: dict[str, Value] = {}
    not_exported: dict[str, Value] = {}
    devices: tuple[int, ...] | None = None
    nodes: int | None = None
    processes: int | None = None
    parallel: Parallel = Parallel()
    ports: tuple[Port, ...] = ()
    timeouts: tuple[Timeout, ...] = ()
    engine: str | None = None
    versions: dict[str, str] = {}
    place: Place | None = None
    condition: str | None = None
    background: bool = False


class Cited(msgspec.Struct, frozen=True):
    """A sentence and the lines it rests on (``source`` of knowledge where no line can be cited)."""

    text: Text
    places: tuple[Place, ...] = ()


class Judgement(msgspec.Struct, frozen=True):
    """One setting, side by side over the programs.

    Attributes:
        name: variable, flag or property: ``MASTER_PORT``, ``devices``, ``collective time-out``.
        values: program label to what it has there, as shown to a user (``not set``).
        judgement: one of :data:`JUDGEMENTS`.
        why: reason, always given.
        places: lines it rests on.
        correction: the corrected line or value, where there is one.
        concerns: identifiers of causes.md that it speaks for (conflict) or against (ok).
    """

    name: str
    values: dict[str, str]
    judgement: str
    why: Text
    places: tuple[Place, ...] = ()
    correction: str | None = None
    concerns: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """All programs of one input, and what was noticed while reading them."""

    programs: tuple[Program, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    notes: tuple[Cited, ...] = ()
    versions: dict[str, str] = {}

    def program(self, label: str) -> Program | None:
        """The program with that label."""
        return next((p for p in self.programs if p.label == label), None)
