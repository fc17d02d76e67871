"""What a scenario declares: a fault, the changes that cure it, and how it shows itself."""

from __future__ import annotations

import msgspec

from unstall.model.text import Text


class Change(msgspec.Struct, frozen=True):
    """A change that is claimed to cure a scenario's fault.

    Attributes:
        name: as given to ``--change``.
        text: what it does.
        ranks: number of trainer ranks with it, where that differs.
        stack: of a real stack's change that is another version of its software: that stack, as
            it is asked for. A run with the change takes place in its environment.
    """

    name: str
    text: Text
    ranks: int | None = None
    stack: str = ""


class Control(msgspec.Struct, frozen=True):
    """A variation that looks like the fault and does not hang; for ``--control``."""

    name: str
    text: Text


class ProgramSpec(msgspec.Struct, frozen=True):
    """A program of a scenario.

    Attributes:
        name: label of its log: ``trainer``, ``rollout``.
        role: what ``main`` of the scenario's module is told to be.
        ranks: how many processes are started; 0 means as many as the scenario has ranks.
        service: it serves the others and is stopped when they have finished.
        own_log: its ranks write one log without prefixes, as a server or a launcher does.
        own_torch: it starts processes that load torch by themselves (a launcher); the others are
            forked from one process that has loaded it.
        stacks: its stacks are part of the evidence; those of bystanders are kept apart from it.
    """

    name: str = "trainer"
    role: str = "rank"
    ranks: int = 0
    service: bool = False
    own_log: bool = False
    own_torch: bool = False
    stacks: bool = True


class Waits(msgspec.Struct, frozen=True):
    """Fingerprint: these processes' stacks have a frame.

    Attributes:
        who: what the process is called in the stack dump (``trainer rank 1``), a part of it.
        frame: function name, its last part.
    """

    who: str
    frame: str


class Apart(msgspec.Struct, frozen=True):
    """Fingerprint: what the ranks of one group had enqueued and completed, relative to the least.

    Attributes:
        group: description of the group as in the recorder's entries (``dp``, ``default_pg``).
        states: which states ``(enqueued - least completed, completed - least)`` there are among
            the ranks; ``()`` asks only that the ranks differ.
        op: operation of the last entry, a part of its name.
        program: program whose dumps are meant.
    """

    group: str
    states: tuple[tuple[int, int], ...] = ()
    op: str = ""
    program: str = "trainer"


class Dumps(msgspec.Struct, frozen=True):
    """Fingerprint: last operations of the ranks as ``(rank, operation, elements)``.

    ``None`` for elements asks nothing; the numbers are compared with the last entry of the rank.
    """

    last: tuple[tuple[int, str, int | None], ...]
    program: str = "trainer"


class Says(msgspec.Struct, frozen=True):
    """Fingerprint: a program's log holds a line with these words (plain text, not a pattern)."""

    program: str
    words: str


class Ended(msgspec.Struct, frozen=True):
    """Fingerprint: a process of a program ended with this code (negative for a signal)."""

    program: str
    code: int
    rank: int | None = None


Mark = Waits | Apart | Dumps | Says | Ended


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One cause as a small program.

    Attributes:
        name: as given to ``reproduce``.
        causes: identifiers of causes.md that it stands for; the first is the expected verdict.
        title: a few words.
        about: what happens, and what the fault is.
        module: below ``unstall.experiments.scenarios``.
        programs: in the order in which they are started.
        changes, controls: what can be varied.
        fingerprint: who waits, in what, how far apart.
        expect: ``hang`` or ``failure`` with the fault on.
        ranks: trainer ranks by default; ``least`` and ``most`` bound them.
        sizes: named numbers that the program takes, with their defaults (``--size name=value``).
        size_texts: what each number means.
        steps: steps of a run that is to finish.
        long_steps: steps of a run that is to show that it goes on and on (``--long``).
        by: number of steps within which the fault is expected to show.
        stall: seconds without progress that count as a hang.
        gather: seconds without progress after which evidence is gathered, where that is to be
            before the outcome is clear; 0 means at the outcome.
        timeout: the process groups' time-out in seconds (PyTorch's default is 600 or 1800).
        limit: seconds after which a run that still makes progress is given up.
        progress: pattern of a progress line; its group ``step`` is the step where it has one.
        needs: what the machine must have: ``root``, ``linux``.
        cuda: whether its tensors may lie on GPUs, with NCCL instead of gloo: ``no``, ``asked``
            (with ``--backend nccl``), ``auto`` (wherever there is a GPU for each rank).
    """

    name: str
    causes: tuple[str, ...]
    title: Text
    about: Text
    module: str
    programs: tuple[ProgramSpec, ...] = (ProgramSpec(),)
    changes: tuple[Change, ...] = ()
    controls: tuple[Control, ...] = ()
    fingerprint: tuple[Mark, ...] = ()
    expect: str = "hang"
    ranks: int = 2
    least: int = 2
    most: int = 64
    sizes: dict[str, float] = {}
    size_texts: dict[str, Text] = {}
    steps: int = 40
    long_steps: int = 400
    by: int = 40
    stall: float = 4.0
    gather: float = 0.0
    timeout: float = 8.0
    limit: float = 180.0
    progress: str = r"'global_step/max_steps': '(?P<step>\d+)/"
    needs: tuple[str, ...] = ()
    cuda: str = "no"

    def change(self, name: str) -> Change | None:
        """The change of that name."""
        return next((one for one in self.changes if one.name == name), None)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a scenario, as its processes are told.

    Attributes:
        fault: whether the fault is switched on.
        changes: names of the changes that are on.
        control: name of the control that is on.
    """

    fault: bool = True
    changes: tuple[str, ...] = ()
    control: str = ""
    ranks: int = 2
    seed: int = 0
    steps: int = 40
    timeout: float = 8.0
    backend: str = "gloo"
    sizes: dict[str, float] = {}
