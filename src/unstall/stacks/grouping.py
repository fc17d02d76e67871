"""Equal stacks together: who waits like all the others, and who stands apart.

The majority of the ranks of one program waits in one place; a rank whose stack differs is the one
they wait for, or at least the one to look at (the idea is described for ByteRobust, 2025). Where
no majority exists nothing is claimed from counting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from unstall.model.facts import Frame, ProcessStack, ThreadStack
from unstall.stacks.classify import Wait, main_thread, own_frames, wait_of_process
from unstall.stacks.identity import UNKNOWN as UNKNOWN_PROCESS
from unstall.stacks.identity import ProcessIdentity, identify

Kind = tuple[str, str, str]
Key = tuple[tuple[str, str, int | None], ...]


_NO_KIND: Kind = (UNKNOWN_PROCESS, UNKNOWN_PROCESS, UNKNOWN_PROCESS)


class StackGroup(msgspec.Struct, frozen=True):
    """Processes of one program whose main threads stand at one place.

    Attributes:
        stacks: the processes.
        identity: software, role and process that they share.
        wait: what they wait for.
        standing: ``majority`` (more than half of the program's processes stand there),
            ``outlier`` (the majority stands elsewhere: a suspect), ``tie`` (there is no majority)
            or ``alone`` (it is the only process of its kind among the dumps).
        of: how many processes of this kind there are.
        by_line: the processes were told apart by line numbers only: the functions are the same.
        frames: the frames that they share, innermost first, without line numbers unless
            ``by_line``.
    """

    stacks: tuple[ProcessStack, ...]
    identity: ProcessIdentity
    wait: Wait
    standing: str
    of: int
    by_line: bool
    frames: tuple[Frame, ...]

    @property
    def suspect(self) -> bool:
        """Whether counting speaks against these processes."""
        return self.standing == "outlier"


def group(stacks: Iterable[ProcessStack]) -> list[StackGroup]:
    """Groups equal main-thread stacks within each kind of process, largest first.

    Line numbers do not count at first; where that leaves all processes of a kind in one group,
    they are compared with line numbers too. Native frames count only for threads without any
    Python frame. Of several dumps of one process the last is taken. Helper threads never count.
    """
    kinds: dict[Kind, list[ProcessStack]] = defaultdict(list)
    for kind, stack in _kinds(_latest(stacks)):
        kinds[kind].append(stack)
    found: list[StackGroup] = []
    for kind, members in kinds.items():
        by_line = False
        piles = _piles(members, by_line)
        if len(piles) == 1 and len(members) > 1:
            finer = _piles(members, True)
            by_line = len(finer) > 1
            piles = finer if by_line else piles
        found.extend(_judged(piles, kind, len(members), by_line))
    return sorted(found, key=lambda one: (-one.of, -len(one.stacks), one.standing))


def suspects(stacks: Iterable[ProcessStack]) -> list[StackGroup]:
    """The groups that stand apart from a majority, the smallest first."""
    return sorted((one for one in group(stacks) if one.suspect), key=lambda one: len(one.stacks))


class Movement(msgspec.Struct, frozen=True):
    """What repeated dumps of one process say.

    Attributes:
        stacks: the dumps, in order.
        moved: ``True``: the main thread was elsewhere in some dump; ``False``: it stood still and
            waited in every one; ``None``: it stands still by its frames but runs, so that it may
            compute inside one function.
        wait: what it waits for in the last dump.
    """

    stacks: tuple[ProcessStack, ...]
    moved: bool | None
    wait: Wait


def movements(stacks: Iterable[ProcessStack]) -> list[Movement]:
    """Compares the dumps of each process that was dumped more than once, in the order given."""
    found = []
    for dumps in _by_process(stacks).values():
        if len(dumps) < 2:
            continue
        threads = [thread for dump in dumps if (thread := main_thread(dump)) is not None]
        if len(threads) < 2:
            continue
        keys = {_key(thread, True) for thread in threads}
        runs = any(thread.holds_gil or thread.state == "active" for thread in threads)
        moved: bool | None = len(keys) > 1
        if not moved and runs:
            moved = None
        found.append(Movement(tuple(dumps), moved, wait_of_process(dumps[-1])))
    return found


def _kinds(stacks: list[ProcessStack]) -> list[tuple[Kind, ProcessStack]]:
    """Each stack with its kind.

    A process by whose stack nothing is known (a rank that sleeps in user code) is of the kind of
    those that run the same command, or of the only kind that has ranks if it has one itself.
    """
    found: list[tuple[Kind, ProcessStack]] = []
    by_command: dict[str, set[Kind]] = defaultdict(set)
    ranked: set[Kind] = set()
    for stack in stacks:
        identity = identify(stack)
        kind = (identity.software, identity.role, identity.process)
        found.append((kind, stack))
        if kind != _NO_KIND:
            by_command[_command(stack)].add(kind)
            if identity.rank is not None:
                ranked.add(kind)
    for index, (kind, stack) in enumerate(found):
        if kind != _NO_KIND:
            continue
        same = by_command.get(_command(stack), set()) if stack.command else set()
        if not same and identify(stack).rank is not None:
            same = ranked
        if len(same) == 1:
            found[index] = (next(iter(same)), stack)
    return found


def _of_kind(identity: ProcessIdentity, kind: Kind) -> ProcessIdentity:
    software, role, process = kind
    return msgspec.structs.replace(identity, software=software, role=role, process=process)


def _command(stack: ProcessStack) -> str:
    """The command without its numbers, which differ between ranks."""
    return "".join(letter for letter in (stack.command or "")[:2000] if not letter.isdigit())


def _latest(stacks: Iterable[ProcessStack]) -> list[ProcessStack]:
    return [dumps[-1] for dumps in _by_process(stacks).values()]


def _by_process(stacks: Iterable[ProcessStack]) -> dict[object, list[ProcessStack]]:
    found: dict[object, list[ProcessStack]] = defaultdict(list)
    for stack in stacks:
        found[_process(stack)].append(stack)
    return found


def _process(stack: ProcessStack) -> object:
    """What tells processes apart; dumps that say nothing of theirs are each their own."""
    speaker = stack.speaker
    if stack.pid is not None:
        return ("pid", speaker.host, speaker.container, stack.pid, stack.command)
    if speaker.rank is not None:
        return ("rank", speaker.host, speaker.name, speaker.rank)
    if speaker.pid is not None or speaker.name is not None or speaker.local_rank is not None:
        return ("speaker", speaker)
    main = main_thread(stack)
    if main is not None and main.tid is not None:
        return ("thread", stack.place.source, stack.tool, main.tid)
    return ("place", stack.place)


def _key(thread: ThreadStack, lines: bool) -> Key:
    frames: Sequence[Frame] = own_frames(thread)
    python = [frame for frame in frames if not frame.native]
    return tuple(
        (frame.function, frame.file, frame.line if lines else None) for frame in python or frames
    )


def _piles(members: list[ProcessStack], lines: bool) -> dict[Key, list[ProcessStack]]:
    piles: dict[Key, list[ProcessStack]] = defaultdict(list)
    for stack in members:
        thread = main_thread(stack)
        piles[_key(thread, lines) if thread is not None else ()].append(stack)
    return piles


def _judged(
    piles: dict[Key, list[ProcessStack]], kind: Kind, total: int, by_line: bool
) -> Iterable[StackGroup]:
    most = max(len(pile) for pile in piles.values())
    majority = most * 2 > total
    for key, pile in piles.items():
        if total == 1:
            standing = "alone"
        elif not majority:
            standing = "tie"
        else:
            standing = "majority" if len(pile) == most else "outlier"
        yield StackGroup(
            stacks=tuple(pile),
            identity=_of_kind(identify(pile[0]), kind),
            wait=wait_of_process(pile[0]),
            standing=standing,
            of=total,
            by_line=by_line,
            frames=tuple(Frame(function, file, line) for function, file, line in key),
        )
