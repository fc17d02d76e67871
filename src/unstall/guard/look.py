"""A look at a job's processes: does anything still move, and who waits for whom?

Silence alone proves nothing: an evaluation, a checkpoint or a compilation prints nothing for long.
So the stacks of all processes are taken twice, some seconds apart, and what they have used and
moved in between is counted.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from unstall import stacks as knowledge
from unstall.causes.activity import RankStack, place_of, standing
from unstall.guard.signs import ALIVE, BYTES, Change, Signs, answers, signs
from unstall.job import build
from unstall.model.facts import Fact, ProcessStack
from unstall.model.plan import Plan
from unstall.model.text import Text, say
from unstall.processes import evidence, tree
from unstall.reports import words

#: What a process may spin in while it waits: its time on a processor tells nothing.
_SPINS = ("collective", "point-to-point", "gpu", "store")
_TOGETHER = ("collective", "point-to-point")
#: A process in which somebody steps through a program (CPython's, and the debuggers of editors).
_DEBUGGERS = re.compile(r"(?:^|/)(?:pdb|bdb)\.py$|/(?:debugpy|_?pydevd[a-z_]*)/", re.ASCII)
#: Bytes per second with which a stack that moves does more than to ask again and again.
_SOME = BYTES / 32


class Sample(msgspec.Struct, frozen=True):
    """The processes at one moment.

    Attributes:
        stacks: what py-spy says, read, by process id.
        signs: of all processes, Python's or not.
        pythons: those whose stacks were asked for.
    """

    stacks: dict[int, ProcessStack]
    facts: tuple[Fact, ...]
    signs: Signs
    pythons: frozenset[int] = frozenset()


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What two samples show.

    Attributes:
        kind: ``stuck``: some wait in a collective and nobody moves; ``elsewhere``: the same, but
            a rank that they wait for may wait for something that is not in the job: an answer, a
            disk, a time; ``away``: nobody moves here, and what they wait for may be on another
            machine; ``late``: some wait, and those for whom they wait are at work; ``still``:
            nobody waits in a collective, nobody moves; ``moving``: at work; ``unseen``: stacks
            could not be had.
        said: in a sentence.
        texts: the stacks of both samples.
    """

    kind: str
    said: Text
    texts: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether nothing moves."""
        return self.kind in ("stuck", "elsewhere", "away", "still")


def look(
    pids: Callable[[], Sequence[int]],
    gap: float = 5.0,
    wait: Callable[[float], bool] | None = None,
) -> Look:
    """Look at a job's processes twice.

    Args:
        pids: its processes, asked each time.
        gap: seconds between the samples.
        wait: sleeps so long; true if the look is no longer wanted.
    """
    first, early = sample(pids())
    if wait is None:
        time.sleep(gap)
    elif wait(gap):
        return Look(kind="moving", said=say("there is output again"))
    second, late = sample(pids())
    return msgspec.structs.replace(compare(first, second), texts=(early, late))


def sample(pids: Sequence[int]) -> tuple[Sample, str]:
    """The stacks of the Python processes among these as py-spy writes them, and signs of all."""
    now = signs(pids)
    pythons = frozenset(pid for pid in pids if tree.is_python(pid))
    with tempfile.TemporaryDirectory(prefix="unstall-") as folder:
        path = Path(folder) / "stacks.txt"
        if not evidence.stacks([pid for pid in sorted(pythons) if answers(pid)], path):
            return Sample({}, (), now, pythons), ""
        text = path.read_text(encoding="utf-8", errors="replace")
        return read_sample(path, now, pythons), text


def read_sample(path: Path, now: Signs, pythons: frozenset[int] = frozenset()) -> Sample:
    """A sample from stacks in a file, and what else is known of the processes."""
    from unstall.reading import read

    facts = tuple(read([path]).facts)
    found = {
        fact.pid: fact for fact in facts if isinstance(fact, ProcessStack) and fact.pid is not None
    }
    return Sample(found, facts, now, pythons or frozenset(found))


def compare(first: Sample, second: Sample) -> Look:
    """What two samples of one job show."""
    change = Change(first.signs, second.signs)
    if not second.stacks:
        return _unseen(change, second)
    seen = standing(build(second.facts, Plan()))
    together, apart = _ranks_alone(seen.together), _ranks_alone(seen.apart)
    if not together:
        together, apart = list(seen.together), list(seen.apart)
    ranks = {one.stack.pid for one in (*together, *apart)}
    state = {pid: _state(stack, first, change) for pid, stack in second.stacks.items()}
    for pid in second.pythons - second.stacks.keys():  # its stack could not be taken
        state[pid] = "works" if change.works(pid) or change.new(pid) else "unread"

    def working(some: Sequence[RankStack]) -> list[RankStack]:
        return [one for one in some if one.stack.pid and state[one.stack.pid] == "works"]

    helping = any(
        how == "works" and (pid not in second.stacks or _helps(second.stacks[pid]))
        for pid, how in state.items()
        if pid not in ranks
    )
    late, passing = working(apart), working(together)
    if together and late and not passing and not helping:
        return Look(kind="late", said=_late(together, late))
    if together and change.fabric and not (late or passing or helping):
        return Look(kind="late", said=say("the network carries data of a collective"))
    if late or passing or helping:
        return Look(kind="moving", said=say("processes are at work"))
    if not together:
        return Look(
            kind="away" if _away(second, change, second.signs.processes) else "still",
            said=say("no process moves, and none waits in a collective that is known"),
        )
    mute = sorted(pid for pid, how in state.items() if how == "unread" and change.waits(pid))
    mute += sorted(pid for pid in second.pythons if change.stopped(pid))
    if mute:
        patient = any(change.waits(pid) for pid in mute)
        return Look(kind="elsewhere" if patient else "stuck", said=_mute(together, mute, change))
    outside = [one for one in apart if _outside(one, state, change)]
    if outside:
        return Look(kind="elsewhere", said=_elsewhere(together, outside))
    if not apart and _away(second, change, [pid for pid in ranks if pid is not None]):
        return Look(
            kind="away",
            said=say(
                "{who} in a collective, nobody elsewhere here, and none moves; other ranks of the "
                "job are not here",
                who=_ranks(together),
            ),
        )
    return Look(kind="stuck", said=_stuck(together, apart))


def _away(second: Sample, change: Change, pids: Iterable[int]) -> bool:
    """Whether what these processes wait for may be on another machine, or under another guard.

    Where a launcher told how many ranks there are, that decides. Else a connection does, which may
    be a tracker's.
    """
    known = {knowledge.identify(stack).rank for stack in second.stacks.values()} - {None}
    world = max((change.world(pid) for pid in second.stacks), default=0)
    if known and world:
        return world > len(known)
    return any(change.outward(pid) for pid in pids)


def _unseen(change: Change, second: Sample) -> Look:
    if any(change.works(pid) for pid in second.signs.processes):
        return Look(kind="moving", said=say("processes are at work"))
    if evidence.py_spy() is None:
        return Look(kind="unseen", said=say("py-spy is missing: pip install py-spy"))
    if not second.pythons:
        return Look(kind="unseen", said=say("no Python process runs"))
    if all(change.waits(pid) or change.stopped(pid) for pid in second.pythons):
        return Look(kind="still", said=_mute((), sorted(second.pythons), change))
    return Look(
        kind="unseen",
        said=say("no stacks could be taken (py-spy may need root, or SYS_PTRACE in a container)"),
    )


def _mute(together: Sequence[RankStack], pids: Sequence[int], change: Change) -> Text:
    """Of processes whose stacks cannot be taken."""
    known = [evidence.rank_of(pid) for pid in pids]
    numbers = [rank for rank in known if rank is not None]
    other = words.ranks(sorted(numbers)) if len(numbers) == len(pids) else _processes(pids)
    stopped = all(change.stopped(pid) for pid in pids)
    if not together:
        if stopped:
            return say("{other} stopped by a signal", other=other)
        return say("{other} waiting for a disk or a file server", other=other)
    who = _ranks(together)
    if stopped:
        return say("{who} in a collective; {other} stopped by a signal", who=who, other=other)
    return say(
        "{who} in a collective; {other} waiting for a disk or a file server", who=who, other=other
    )


def _ranks_alone(some: Sequence[RankStack]) -> list[RankStack]:
    """Without processes beside the ranks: a logger's service, a tracker."""
    return [one for one in some if one.rank is not None]


def _helps(stack: ProcessStack) -> bool:
    """Whether a process beside the ranks does some of the job's work."""
    return knowledge.identify(stack).process not in ("launcher", "helper")


def _state(stack: ProcessStack, first: Sample, change: Change) -> str:
    """What one process does, by its stack and by its signs.

    ``works``; ``stirs``: its stack moves with next to no work, in a loop that asks and sleeps;
    ``stands``.
    """
    pid = stack.pid
    if pid is None:
        return "stands"
    if change.new(pid) or _debugged(stack):
        return "works"
    kind = knowledge.wait_of_process(stack).kind
    # what spins while it waits is not at work for that; what moves bytes is
    if change.works(pid) and (kind not in _SPINS or not change.only_cpu(pid)):
        return "works"
    if any(change.works(child) for child in change.family(pid) if child not in first.pythons):
        return "works"  # a compiler, an archiver
    before = first.stacks.get(pid)
    if before is not None and _frames(before) == _frames(stack):
        return "stands"
    if before is not None and {kind, knowledge.wait_of_process(before).kind} <= {*_TOGETHER}:
        return "works"  # from one collective to another
    return "works" if change.cpu(pid) > ALIVE or change.bytes(pid) > _SOME else "stirs"


def _outside(one: RankStack, state: dict[int, str], change: Change) -> bool:
    """Whether a rank may wait for something that is not in the job."""
    pid = one.stack.pid
    if pid is None:
        return False
    asks = one.wait.kind in ("http", "unknown") and change.outward(pid)
    return asks or change.waits(pid) or state[pid] == "stirs"


def _debugged(stack: ProcessStack) -> bool:
    thread = knowledge.main_thread(stack)
    return thread is not None and any(
        _DEBUGGERS.search(frame.file.replace("\\", "/")) for frame in thread.frames[:200]
    )


def _frames(stack: ProcessStack) -> tuple[tuple[str, str, int | None], ...]:
    thread = knowledge.main_thread(stack)
    if thread is None:
        return ()
    return tuple((frame.function, frame.file, frame.line) for frame in thread.frames)


def _stuck(together: Sequence[RankStack], apart: Sequence[RankStack]) -> Text:
    if not apart:
        return say("all of {who} are in a collective and none moves", who=_ranks(together))
    return say(
        "{who} in a collective; {other} elsewhere, and none moves ({frame})",
        who=_ranks(together),
        other=_ranks(apart),
        frame=place_of(apart[0]),
    )


def _elsewhere(together: Sequence[RankStack], outside: Sequence[RankStack]) -> Text:
    return say(
        "{who} in a collective; {other} may wait for something outside of the job, or for a time "
        "to pass ({frame})",
        who=_ranks(together),
        other=_ranks(outside),
        frame=place_of(outside[0]),
    )


def _late(together: Sequence[RankStack], late: Sequence[RankStack]) -> Text:
    return say(
        "{other} still at work ({frame}), {who} in a collective",
        other=_ranks(late),
        frame=place_of(late[0]),
        who=_ranks(together),
    )


def _ranks(ranks: Sequence[RankStack]) -> Text:
    known = sorted({one.rank for one in ranks if one.rank is not None})
    if not known:
        return _processes([one.stack.pid for one in ranks])
    return words.ranks(known)


def _processes(pids: Sequence[int | None]) -> Text:
    return say("processes {pids}", pids=", ".join(map(str, pids)))
