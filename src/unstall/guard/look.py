"""A look at a job's processes: does anything still move, and who waits for whom?

Silence alone proves nothing: an evaluation, a checkpoint or a compilation prints nothing for long.
So the stacks of all processes are taken twice, some seconds apart.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from unstall import stacks as knowledge
from unstall.causes.activity import RankStack, place_of, standing
from unstall.experiments import evidence
from unstall.job import build
from unstall.model.facts import Fact, ProcessStack
from unstall.model.plan import Plan
from unstall.model.text import Text, say
from unstall.reports import words

#: CPU seconds per second from which a process is at work though its stack looks the same. Not if
#: it is in a collective: a library may spin while it waits.
BUSY = 0.25


class Sample(msgspec.Struct, frozen=True):
    """The processes at one moment.

    Attributes:
        stacks: as they were written, by process id: what py-spy says, read.
        cpu: CPU seconds that each has used.
        at: monotonic time.
    """

    stacks: dict[int, ProcessStack]
    facts: tuple[Fact, ...]
    cpu: dict[int, float]
    at: float


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What two samples show.

    Attributes:
        kind: ``stuck``: some wait in a collective and nobody moves; ``late``: some wait, and those
            for whom they wait are at work; ``still``: nobody waits in a collective, nobody moves;
            ``moving``: at work; ``unseen``: stacks could not be had.
        said: in a sentence.
        texts: the stacks of both samples.
    """

    kind: str
    said: Text
    texts: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether nothing moves."""
        return self.kind in ("stuck", "still")


def look(
    pids: Callable[[], Sequence[int]],
    gap: float = 5.0,
    wait: Callable[[float], bool] | None = None,
) -> Look:
    """Look at a job's processes twice.

    Args:
        pids: its Python processes, asked each time.
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
    """The stacks of these processes, and their text as py-spy writes it."""
    at = time.monotonic()
    cpu = {pid: used for pid in pids if (used := _cpu(pid)) is not None}
    with tempfile.TemporaryDirectory(prefix="unstall-") as folder:
        path = Path(folder) / "stacks.txt"
        if not evidence.stacks(pids, path):
            return Sample({}, (), cpu, at), ""
        return read_sample(path, cpu, at), path.read_text(encoding="utf-8", errors="replace")


def read_sample(path: Path, cpu: dict[int, float], at: float) -> Sample:
    """A sample from stacks in a file, and what else is known of the processes."""
    from unstall.reading import read

    facts = tuple(read([path]).facts)
    found = {
        fact.pid: fact for fact in facts if isinstance(fact, ProcessStack) and fact.pid is not None
    }
    return Sample(found, facts, cpu, at)


def compare(first: Sample, second: Sample) -> Look:
    """What two samples of one job show."""
    if not second.stacks:
        return Look(
            kind="unseen",
            said=say(
                "no stacks could be taken (py-spy may need root, or SYS_PTRACE in a container)"
            ),
        )
    seen = standing(build(second.facts, Plan()))
    together, apart = _ranks_alone(seen.together), _ranks_alone(seen.apart)
    if not together:
        together, apart = list(seen.together), list(seen.apart)
    ranks = {one.stack.pid for one in (*together, *apart)}
    others = [stack for pid, stack in second.stacks.items() if pid not in ranks]
    moved = [one for one in (*apart, *together) if _moved(one.stack, first, second)]
    helping = [one for one in others if _helps(one) and _moved(one, first, second)]
    if together and not moved and not helping:
        return Look(kind="stuck", said=_stuck(together, apart))
    late = [one for one in moved if one in apart]
    if together and late and len(late) == len(moved):
        return Look(kind="late", said=_late(together, late))
    if moved or helping or set(second.stacks) != set(first.stacks):
        return Look(kind="moving", said=say("processes are at work"))
    return Look(
        kind="still",
        said=say("no process moves, and none waits in a collective that is known"),
    )


def _ranks_alone(some: Sequence[RankStack]) -> list[RankStack]:
    """Without processes beside the ranks: a logger's service, a tracker."""
    return [one for one in some if one.rank is not None]


def _helps(stack: ProcessStack) -> bool:
    """Whether a process beside the ranks does some of the job's work."""
    return knowledge.identify(stack).process not in ("launcher", "helper")


def _moved(stack: ProcessStack, first: Sample, second: Sample) -> bool:
    pid = stack.pid
    if pid is None:
        return False
    before = first.stacks.get(pid)
    if before is None:
        return True
    if _frames(before) != _frames(stack):
        return True
    if knowledge.wait_of_process(stack).kind in ("collective", "point-to-point", "gpu", "store"):
        return False  # it may spin while it waits
    spent = second.cpu.get(pid, 0.0) - first.cpu.get(pid, 0.0)
    return spent > BUSY * max(second.at - first.at, 0.1)


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
        return say("processes {pids}", pids=", ".join(str(one.stack.pid) for one in ranks))
    return words.ranks(known)


def _cpu(pid: int) -> float | None:
    import psutil

    with contextlib.suppress(psutil.Error):
        used = psutil.Process(pid).cpu_times()
        return float(used.user + used.system)
    return None
