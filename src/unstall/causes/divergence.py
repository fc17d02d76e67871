"""Ranks that went different ways: different operations at one place of one group, or two groups.

Sequence numbers are compared inside one group only. What two ranks ran at one number can be told
by the time-outs, by TORCH_DISTRIBUTED_DEBUG=DETAIL, by gloo, by PyTorch's desync report, or by
stacks of live processes, where the functions stand for the operations.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from unstall.causes.activity import (
    SERVING,
    Activity,
    Standing,
    activity_of_exception,
    frames_of_failed,
    rank_stacks,
)
from unstall.causes.base import ranks_text
from unstall.causes.scene import elsewhere, seconds_apart
from unstall.job import Blocked, Job
from unstall.model.facts import (
    CollectiveMismatch,
    DesyncReport,
    Fact,
    GroupTag,
    Phase,
    Progress,
    PythonException,
)
from unstall.model.plan import Program
from unstall.model.text import Text, say

#: Operations of so few elements agree on something; gradients and parameters are larger.
SMALL = 64

EXCHANGES = re.compile(r"^(SEND|RECV|COALESCED|BATCH)|^(send|recv|isend|irecv|batch_isend_irecv)")
GATHERS = re.compile(r"ALLGATHER|REDUCE_SCATTER|ALL_GATHER|all_gather_into|reduce_scatter_tensor")
#: Gathers of lists of tensors, exchanges and broadcasts: user code passes tensors of its own.
OF_LISTS = re.compile(
    r"^(ALLGATHER|ALLGATHER_COALESCED|GATHER|ALLTOALL\w*|BROADCAST|SCATTER|REDUCE)$"
)


class Side(msgspec.Struct, frozen=True):
    """Ranks that were in one operation.

    Attributes:
        ranks: global ranks, as far as told.
        op: the operation as the log names it.
        numel: its elements, where told.
        shape: its shape as written, where told.
        fact: what tells it.
        doing: what the ranks were doing, by their frames.
        frames: those of one of them, where told, innermost first.
    """

    ranks: tuple[int, ...]
    op: str
    numel: int | None
    fact: Fact
    shape: str | None = None
    doing: Activity | None = None
    frames: tuple[tuple[str, str, int | None], ...] = ()

    @property
    def small(self) -> bool:
        """A barrier, a flag, a loss: nothing of the model."""
        if self.op.upper() == "BARRIER":
            return True
        if self.numel is None:  # stacks tell no sizes; who reduces a metric reduces a few numbers
            return self.doing is not None and self.doing.kind == "metrics"
        return self.numel <= SMALL

    @property
    def shown(self) -> Text:
        """``BROADCAST of [1]``."""
        if self.shape is not None:
            return say("{op} of {shape}", op=self.op, shape=self.shape)
        if self.numel == 1:
            return say("{op} of 1 element", op=self.op)
        if self.numel is not None:
            return say("{op} of {numel} elements", op=self.op, numel=self.numel)
        return say("{op}", op=self.op)

    @property
    def who(self) -> Text:
        """Its ranks in words."""
        return ranks_text(self.ranks) if self.ranks else say("another rank")


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Two or more operations at one place of one group.

    Attributes:
        sides: the operations, that of the fewest ranks first.
        seq: the sequence number, where told.
        told: ``time-outs``, ``detail``, ``gloo``, ``desync`` or ``stacks``.
        program: whose ranks they are.
        blocked: the stall, where a watchdog told.
    """

    sides: tuple[Side, ...]
    seq: int | None
    told: str
    program: Program | None
    blocked: Blocked | None = None

    @property
    def ops(self) -> frozenset[str]:
        """The operations' names."""
        return frozenset(side.op for side in self.sides)

    @property
    def same_op(self) -> bool:
        """Whether only the sizes differ."""
        return len(self.ops) == 1

    @property
    def fact(self) -> Fact:
        """The first fact that tells it."""
        return min((side.fact for side in self.sides), key=lambda fact: fact.place)

    @property
    def exchanges(self) -> bool:
        """Whether they are sends and receives of neighbours, not collectives."""
        return any(EXCHANGES.search(side.op) for side in self.sides)

    @property
    def small_and_large(self) -> bool:
        """Whether some ranks agree on something while others exchange parts of the model."""
        return any(side.small for side in self.sides) and any(not side.small for side in self.sides)

    @property
    def all_ranks(self) -> tuple[int, ...]:
        """Every rank named."""
        return tuple(sorted({rank for side in self.sides for rank in side.ranks}))


def divergences(job: Job, seen: Standing) -> list[Divergence]:
    """Every divergence of a training program, those told most exactly first."""
    found: list[Divergence] = []
    found.extend(_mismatches(job))
    for blocked in job.blocked:
        if blocked.program is None or blocked.program.role not in SERVING:
            found.extend(_in_stall(job, blocked))
    found.extend(_in_reports(job))
    if not found:
        found.extend(_in_stacks(job, seen))
    return found


# --- one group ---------------------------------------------------------------------------------


def _in_stall(job: Job, blocked: Blocked) -> Iterable[Divergence]:
    doing = frames_of_failed(job, blocked.program)
    # stacks that were taken while they waited tell the same as torch's own of the operation
    taken = {one.rank: one for one in rank_stacks(job) if one.rank is not None}
    by_seq: dict[int, list[Side]] = defaultdict(list)
    for (seq, op, numel_in, _), ranks in blocked.stall.operations.items():
        if seq is None or not op:
            continue
        known = [rank for rank in ranks if rank >= 0]
        told = next((doing[rank] for rank in known if rank in doing), None)
        seen = next((taken[rank] for rank in known if rank in taken), None)
        fact = blocked.stall.waiters[ranks[0]]
        numel = numel_in if numel_in is not None and numel_in < 1 << 62 else None
        by_seq[seq].append(
            Side(
                tuple(known), op, numel, fact, None,
                told[0] if told is not None else seen.activity if seen is not None else None,
                told[1].frames if told is not None else seen.calls if seen is not None else (),
            )
        )  # fmt: skip
    for seq, sides in sorted(by_seq.items()):
        if len(sides) > 1:
            yield Divergence(
                sides=_fewest_first(sides),
                seq=seq,
                told="time-outs",
                program=blocked.program,
                blocked=blocked,
            )


def _fewest_first(sides: Sequence[Side]) -> tuple[Side, ...]:
    return tuple(sorted(sides, key=lambda side: (len(side.ranks), side.ranks)))


def _mismatches(job: Job) -> Iterable[Divergence]:
    by_seq: dict[int | None, dict[tuple[str, str | None], Side]] = defaultdict(dict)
    ranks: dict[tuple[int | None, str, str | None], set[int]] = defaultdict(set)
    told = "detail"
    program: Program | None = None
    for fact in job.all(CollectiveMismatch)[:200]:
        if not {"op", "shape", "size"} & set(fact.aspects):
            continue
        program = program or job.owner(fact)
        numbers = [side[3] for side in (fact.mine, fact.other) if side[3] is not None]
        number = max(numbers) if numbers else None  # they meet though their counts differ
        for index, (rank, op, shape, _) in enumerate((fact.mine, fact.other)):
            if op is None and shape is None:
                continue
            if op is None:
                told = "gloo"
            key = (op or "collective", shape)
            if rank is not None:
                ranks[(number, *key)].add(rank)
            doing = _raised(job, fact) if index == 0 else None
            known = by_seq[number].get(key)
            if known is None or (known.doing is None and doing is not None):
                by_seq[number][key] = Side((), key[0], elements(shape), fact, shape, doing)
    for seq, sides in by_seq.items():
        if len(sides) < 2:
            continue
        complete = [
            msgspec.structs.replace(side, ranks=tuple(sorted(ranks[(seq, *key)])))
            for key, side in sides.items()
        ]
        yield Divergence(
            sides=_fewest_first(complete),
            seq=seq,
            told=told,
            program=program if program is not None else job.trainer,
        )


def _raised(job: Job, fact: CollectiveMismatch) -> Activity | None:
    """What the rank was doing by the traceback that ends with the mismatch."""
    best: PythonException | None = None
    for exception in job.all(PythonException):
        if exception.place.source != fact.place.source or "mismatch" not in exception.message:
            continue
        if exception.place <= fact.place and (best is None or exception.place > best.place):
            best = exception
    if best is None or fact.place.line - best.place.line > 400:
        return None
    return activity_of_exception(best)


def is_flat(shape: str | None) -> bool:
    """Whether a shape is of one dimension, as buffers of gradients and parameters are."""
    return shape is None or not any("," in listed for listed in _DIMENSIONS.findall(shape[:2000]))


_DIMENSIONS = re.compile(r"\[([\d, ]{0,200})\]", re.ASCII)


def elements(shape: str | None) -> int | None:
    """Elements of shapes as written: 12 for ``[3, 4]``; lists of shapes are added up."""
    found = _DIMENSIONS.findall(shape[:2000]) if shape is not None else []
    if not found:
        return None
    total = 0
    for listed in found:
        count = 1
        for word in listed.split(","):
            if word.strip():
                count *= min(int(word.strip()[:18]), 1 << 62)
        total += count
    return total


def _in_reports(job: Job) -> Iterable[Divergence]:
    for report in job.all(DesyncReport)[:20]:
        by_seq: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for rank, _, op, seq in report.states:
            by_seq[seq][op].add(rank)
        for seq, ops in sorted(by_seq.items()):
            if len(ops) < 2 or seq < 0:
                continue
            sides = [Side(tuple(sorted(ranks)), op, None, report) for op, ranks in ops.items()]
            yield Divergence(
                sides=_fewest_first(sides),
                seq=seq,
                told="desync",
                program=job.owner(report) or job.trainer,
            )


def _in_stacks(job: Job, seen: Standing) -> Iterable[Divergence]:
    """Ranks that are in collectives of different kinds of work, by their stacks."""
    by_kind: dict[str, list[Side]] = defaultdict(list)
    for one in seen.together:
        if one.activity is None or one.wait.frame is None:
            continue
        kind = {"forward": "step", "gradients": "step"}.get(one.activity.kind, one.activity.kind)
        ranks = () if one.rank is None else (one.rank,)
        by_kind[kind].append(
            Side(ranks, one.wait.frame.function, None, one.stack, None, one.activity, one.calls)
        )
    if len(by_kind) < 2:
        return
    sides = [
        msgspec.structs.replace(
            members[0], ranks=tuple(sorted({rank for one in members for rank in one.ranks}))
        )
        for members in by_kind.values()
    ]
    first = seen.together[0].stack
    yield Divergence(
        sides=_fewest_first(sides),
        seq=None,
        told="stacks",
        program=job.owner(first) or job.trainer,
    )


# --- two groups --------------------------------------------------------------------------------


class Split(msgspec.Struct, frozen=True):
    """Ranks of one program that began to wait at one time in two groups.

    Attributes:
        one, other: the stalls; ``one`` is that of a small operation, where one is.
        gap: seconds between their beginnings, where known.
    """

    one: Blocked
    other: Blocked
    gap: float | None

    @property
    def small_and_large(self) -> bool:
        """Whether one side agrees on something and the other exchanges parts of the model."""
        return _small(self.one) and not _small(self.other)

    @property
    def one_ranks(self) -> tuple[int, ...]:
        """Ranks of the first."""
        return _ranks(self.one)

    @property
    def other_ranks(self) -> tuple[int, ...]:
        """Ranks of the second that are not among the first's."""
        return tuple(rank for rank in _ranks(self.other) if rank not in self.one_ranks)


def _ranks(blocked: Blocked) -> tuple[int, ...]:
    return tuple(sorted(rank for rank in blocked.stall.waiters if rank >= 0))


def _small(blocked: Blocked) -> bool:
    work = blocked.stall.work
    return work.op == "BARRIER" or (work.numel_in is not None and work.numel_in <= SMALL)


def splits(job: Job) -> list[Split]:
    """Pairs of groups of one training program in which different ranks began to wait together."""
    found: list[Split] = []
    order = {id(blocked): index for index, blocked in enumerate(job.blocked)}
    for index, blocked in enumerate(job.blocked):
        if blocked.program is not None and blocked.program.role in SERVING:
            continue
        for other, _ in elsewhere(job, blocked):
            if order[id(other)] > index and _named(other) and _named(blocked):
                pair = (blocked, other)
                if _small(other) and not _small(blocked):
                    pair = (other, blocked)
                found.append(Split(*pair, seconds_apart(blocked, other)))
    found.sort(key=lambda split: not split.small_and_large)
    return found


def _named(blocked: Blocked) -> bool:
    """Whether the log names the group: else two groups cannot be told from one."""
    return blocked.stall.tag.pg_id is not None or blocked.stall.tag.guid is not None


def group_text(tag: GroupTag) -> Text:
    """``default_pg`` or ``PG 3``."""
    if tag.description:
        return say("“{name}”", name=tag.description)
    if tag.pg_id is not None:
        return say("process group {name}", name=tag.pg_id)
    return say("a process group")


# --- the end of a loop -------------------------------------------------------------------------


class LoopEnd(msgspec.Struct, frozen=True):
    """That a rank reached the end of a loop: an epoch, an evaluation, a loader."""

    fact: Fact
    rank: int | None


_END = re.compile(
    r"exhausted|end of (?:epoch|dataloader)|epoch \d+ (?:finished|done|ended|complete)"
    r"|StopIteration|finished (?:epoch|evaluat|validat)|no more batches|遍历完"
    r"|数据(?:已)?(?:耗尽|用完|取完)",
    re.IGNORECASE,
)


def loop_ends(job: Job, before: Fact) -> list[LoopEnd]:
    """Ends of loops told before a fact, the latest first; those whose rank is known before."""
    found: list[LoopEnd] = []
    for fact in job.facts:
        if isinstance(fact, Phase):
            ends = fact.finished and fact.kind in ("evaluate", "end")
            ends = ends or (
                fact.kind in ("evaluate", "train", "load-data", "end")
                and bool(_END.search(fact.quote))
            )
        elif isinstance(fact, Progress):
            ends = fact.total is not None and fact.done == fact.total and fact.total > 1
            ends = ends and not _LOADING.search(fact.label)
        else:
            continue
        if ends and job.chronology.before(fact, before) is not False:
            found.append(LoopEnd(fact, fact.speaker.rank))
    return sorted(found, key=lambda end: (end.rank is None, _reversed(end.fact)))


def left_the_loop(
    job: Job, before: Fact, left: Sequence[int], inside: Sequence[int]
) -> tuple[LoopEnd, bool] | None:
    """The end of a loop that some ranks reached and others did not.

    Args:
        job: the job.
        before: ends told later do not count.
        left: ranks that may have left the loop.
        inside: ranks that may still be in it.

    Returns:
        The end, and whether a line shows one of ``inside`` still in a loop of that kind; ``None``
        where none of ``left`` told an end, or one of ``inside`` told the same.
    """
    ends = loop_ends(job, before)
    own = next((end for end in ends if end.rank is not None and end.rank in left), None)
    if own is None or any(end.rank in inside and alike(end.fact, own.fact) for end in ends):
        return None
    going = any(
        isinstance(fact, (Phase, Progress))
        and fact.speaker.rank in inside
        and alike(fact, own.fact)
        for fact in job.facts
    )
    return own, going


def alike(one: Fact, other: Fact) -> bool:
    """Whether two lines tell of the same kind of loop."""
    if isinstance(one, Phase) and isinstance(other, Phase):
        return one.kind == other.kind
    if isinstance(one, Progress) and isinstance(other, Progress):
        return one.label.strip() == other.label.strip()
    return False


_LOADING = re.compile(r"load|token|map|shard|download|fetch|split|filter|capture", re.IGNORECASE)


def _reversed(fact: Fact) -> tuple[str, int]:
    return (fact.place.source, -fact.place.line)
