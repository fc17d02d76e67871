"""Which process groups a framework makes, in which order, and what PyTorch then calls them.

A framework is described by data (:class:`Framework`): the axes along which it lays its ranks out
and an ordered list of steps (:class:`Step`), each of which makes one or two groups for every list
of ranks. :func:`layout` evaluates the description for given sizes and gives every group with the
numbers that a log line shows: ``[PG ID 5 PG GUID 15(dp) Rank 0]``.

PyTorch's own rules, which hold for every framework:

* The name of a group (``PG GUID``) counts the ``init_process_group`` and ``new_group`` calls of
  the process, members and non-members alike, whatever the back end
  (``torch/distributed/distributed_c10d.py``: ``_process_group_name``, ``group_count``; 2.0 to
  2.15). The default group is "0".
* ``PG ID`` counts the ``ProcessGroupNCCL`` objects of this process, so only groups that it is a
  member of and whose back end includes NCCL (``ProcessGroupNCCL.cpp``: ``local_id_``, in 2.3
  ``uid_``).
* The members of a group are in ascending order, however the framework lists them.
* A group made by ``split_group`` or with ``use_local_synchronization`` is named by a hash
  (:mod:`unstall.programs.group_names`) and leaves the count alone.
* 2.3 prints ``[PG <ID> Rank r]`` with the per-process number, 2.4 ``[PG <GUID> (desc) Rank r]``
  with the name, 2.5 and later both. A description that nobody gave is ``undefined`` and not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from math import prod

import msgspec

from unstall.model.text import Text, say
from unstall.programs.group_names import hashed_name

Sizes = Mapping[str, int]
"""Parallel sizes and switches by short name; ``world`` is the number of ranks. A name that is
absent stands for 1 (sizes) or 0 (switches)."""

MAX_RANKS = 16_384
"""No layout is computed for more ranks: sizes come from untrusted scripts."""

COUNTED, HASHED = "counted", "hashed"


@lru_cache(maxsize=512)
def version_key(version: str | None) -> tuple[int, ...] | None:
    """The release numbers of a version: ``0.11.0+cu128`` gives ``(0, 11, 0)``.

    ``None`` if there are none. Suffixes do not count: a pre-release counts as its release.
    """
    if not version:
        return None
    found = re.match(r"\s*v?(\d{1,6}(?:\.\d{1,6}){0,5})", version[:64])
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


@lru_cache(maxsize=4096)
def within(version: str | None, since: str | None, until: str | None) -> bool:
    """Whether a version lies in ``[since, until)``. An unknown version counts as the newest."""
    key = version_key(version)
    if key is None:
        return until is None
    low, high = version_key(since), version_key(until)
    return (low is None or _padded(key) >= _padded(low)) and (
        high is None or _padded(key) < _padded(high)
    )


def _padded(key: tuple[int, ...]) -> tuple[int, ...]:
    return key + (0,) * (6 - len(key))


class Grid:
    """Ranks laid out along named axes, the slowest axis first; the last one is contiguous."""

    def __init__(self, axes: tuple[tuple[str, int], ...]) -> None:
        """Axes as ``(name, size)``; raises :class:`ValueError` for sizes below 1 or too large."""
        if any(size < 1 for _, size in axes):
            raise ValueError("a parallel size is below 1")
        self.names = tuple(name for name, _ in axes)
        self.size = dict(axes)
        self.world = prod(self.size.values())
        if self.world > MAX_RANKS:
            raise ValueError("too many ranks")
        self.stride: dict[str, int] = {}
        step = 1
        for name, size in reversed(axes):
            self.stride[name] = step
            step *= size

    def _walk(self, names: tuple[str, ...]) -> list[int]:
        ranges = [range(0, self.size[n] * self.stride[n], self.stride[n]) for n in names]
        return [sum(offsets) for offsets in product(*ranges)]

    def along(
        self, over: tuple[str, ...], outer: tuple[str, ...] | None = None
    ) -> list[tuple[int, ...]]:
        """Lists of the ranks that differ only in the axes ``over``.

        The lists stand in the order that walking the axes ``outer`` gives (default: the others,
        slowest first).
        """
        if outer is None:
            outer = tuple(name for name in self.names if name not in over)
        inner = self._walk(over)
        return [tuple(base + offset for offset in inner) for base in self._walk(outer)]

    def chunks(self, length: int, order: tuple[str, ...] | None = None) -> list[tuple[int, ...]]:
        """All ranks in the order that walking ``order`` gives, cut into lists of ``length``."""
        flat = self._walk(order or self.names)
        if length < 1 or len(flat) % length:
            raise ValueError("the ranks do not divide")
        return [tuple(flat[i : i + length]) for i in range(0, len(flat), length)]


Grids = Mapping[str, Grid]


def positive(sizes: Sizes, *names: str) -> tuple[int, ...]:
    """The sizes of those names, 1 where one is absent.

    Raises:
        ValueError: one is below 1 or the product is beyond :data:`MAX_RANKS`.
    """
    values = tuple(sizes.get(name, 1) for name in names)
    if min(values) < 1 or prod(values) > MAX_RANKS:
        raise ValueError("impossible sizes")
    return values


class Ranks(msgspec.Struct, frozen=True):
    """The lists of ranks of a step.

    Attributes:
        lists: computes them.
        length: computes how many ranks each has; all lists are of one length.
    """

    lists: Callable[[Grids, Sizes], list[tuple[int, ...]]]
    length: Callable[[Grids, Sizes], int]


everyone = Ranks(
    lambda grids, _sizes: [tuple(range(grids["main"].world))],
    lambda grids, _sizes: grids["main"].world,
)
"""One list of all ranks."""

singles = Ranks(
    lambda grids, _sizes: [(rank,) for rank in range(grids["main"].world)],
    lambda _grids, _sizes: 1,
)
"""One list for every rank."""


def along(*over: str, outer: tuple[str, ...] | None = None, grid: str = "main") -> Ranks:
    """Lists along axes of a grid, see :meth:`Grid.along`."""
    return Ranks(
        lambda grids, _sizes: grids[grid].along(over, outer),
        lambda grids, _sizes: prod(grids[grid].size[name] for name in over),
    )


def chunks(size: str, order: tuple[str, ...] | None = None, grid: str = "main") -> Ranks:
    """Lists of as many ranks as the size of that name says, see :meth:`Grid.chunks`."""
    return Ranks(
        lambda grids, sizes: grids[grid].chunks(sizes.get(size, 1), order),
        lambda _grids, sizes: sizes.get(size, 1),
    )


class Part(msgspec.Struct, frozen=True):
    """One group that a step makes for each list of ranks.

    Attributes:
        backend: ``nccl``, ``gloo`` or ``both`` (``cpu:gloo,cuda:nccl``; counts as NCCL too).
        description: ``group_desc`` as the framework gives it; ``None`` is not shown.
        name: name of the group where it differs from the step's.
        pick: the members among the list (default: all of them).
        since: first version that makes it.
        meaning: where it differs from the step's.
    """

    backend: str = "nccl"
    description: str | None = None
    name: str | None = None
    pick: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None
    since: str | None = None
    meaning: Text | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a framework's start-up: for each list of ranks, its parts in order.

    Attributes:
        name: short name in the framework's own words (``tp``, ``DATA_PARALLEL_GROUP``).
        meaning: what the group is for.
        ranks: the lists of ranks, in the order in which their groups are made.
        parts: what is made for each list.
        since, until: versions that have the step, ``[since, until)``.
        when: on which sizes and switches it depends (the main grid's axes and ``world``
            included); ``None`` is always.
        condition: ``when`` in words, for the documentation.
        naming: ``counted`` or ``hashed`` (``split_group``, local synchronization).
        over: the axes in words, for the documentation.
    """

    name: str
    meaning: Text
    ranks: Ranks
    parts: tuple[Part, ...] = (Part(),)
    since: str | None = None
    until: str | None = None
    when: Callable[[Sizes], bool] | None = None
    condition: str = ""
    naming: str = COUNTED
    over: str = ""


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that a framework is known to run in one of its groups.

    Attributes:
        group: name of the group.
        backend: back end of the group it runs in.
        op: as ``WorkNCCL`` shows it.
        numel_in: elements given, computed from the sizes.
        text: what it is.
        source: where that can be checked.
        usual: whether it is by far the most frequent operation of that group.
    """

    group: str
    op: str
    numel_in: int
    text: Text
    source: str
    backend: str = "nccl"
    usual: bool = True


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """How a framework makes its groups.

    Attributes:
        name: as in :mod:`unstall.programs` (``vllm``).
        label: as a user writes it (``vLLM``).
        source: file and function where the order can be checked.
        package: distribution whose version selects the steps.
        read: versions that were read, ``first`` to ``last``; outside it is an extrapolation.
        eras: a version for each stretch in which the order is the same; tried when the version
            is unknown, most likely first.
        grids: the axes for given sizes and version; raises :class:`ValueError` where they clash.
        steps: what is made, in order, after the default group.
        default_backend: back end of the default group.
        default_used: ``always`` (from the start of a run), ``usually``, ``rarely`` or ``never``.
        default_source: what ``default_used`` rests on.
        guesses: plausible values of a size that is unknown, by its short name.
        traffic: known operations for given sizes and version.
    """

    name: str
    label: str
    source: str
    package: str
    read: tuple[str, str]
    eras: tuple[str, ...]
    grids: Callable[[Sizes, str | None], Grids]
    steps: tuple[Step, ...]
    default_backend: str = "nccl"
    default_used: str = "always"
    default_source: str = ""
    guesses: Mapping[str, tuple[int, ...]] = {}
    traffic: Callable[[Sizes, str | None], tuple[Traffic, ...]] | None = None

    def steps_of(self, version: str | None, sizes: Sizes) -> list[Step]:
        """The steps that this version takes for these sizes."""
        return [
            step
            for step in self.steps
            if within(version, step.since, step.until) and (step.when is None or step.when(sizes))
        ]

    def extrapolated(self, version: str | None) -> bool:
        """Whether the version is unknown or outside the range that was read."""
        key = version_key(version)
        first, last = version_key(self.read[0]), version_key(self.read[1])
        if key is None or first is None or last is None:
            return True
        return not _padded(first) <= _padded(key) <= _padded((*last[:2], 999_999))


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One process group.

    Attributes:
        name: the step's name.
        meaning: what it is for.
        guid: its name in torch, ``PG GUID``; the hash where it is named by one.
        ranks: its members as global ranks of the program, in group order.
        backend: ``nccl``, ``gloo`` or ``both``.
        description: what the log shows in parentheses; ``None`` where nothing is shown.
        ids: member's global rank to its ``PG ID``; empty without NCCL.
    """

    name: str
    meaning: Text
    guid: str
    ranks: tuple[int, ...]
    backend: str
    description: str | None
    ids: Mapping[int, int] = {}

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.ranks)


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """All groups of one program.

    Attributes:
        framework: its short name.
        version: version that selected the steps.
        sizes: what it was computed for.
        world: number of ranks of the default group.
        groups: in the order of creation, the default group first.
    """

    framework: str
    version: str | None
    sizes: Mapping[str, int]
    world: int
    groups: tuple[Group, ...]

    def of(self, rank: int) -> list[Group]:
        """The groups that a rank is a member of."""
        return [group for group in self.groups if rank in group.ranks]

    def named(self, name: str, backend: str = "nccl") -> list[Group]:
        """The groups of a name and back end."""
        return [g for g in self.groups if g.name == name and g.backend == backend]


def _told(grids: Grids, sizes: Sizes) -> Sizes:
    """The sizes, with those that follow from others: the axes of the main grid, the world."""
    main = grids["main"]
    return {**main.size, **sizes, "world": main.world}


DEFAULT_MEANING = say("default group: all ranks of the program")


def layout(framework: Framework, sizes: Sizes, version: str | None = None) -> Layout:
    """All groups of a program of these sizes.

    Raises:
        ValueError: the sizes contradict each other or the number of ranks.
    """
    grids = framework.grids(sizes, version)
    world = grids["main"].world
    groups: list[Group] = []
    next_id = [0] * world
    joined = [0] * world
    count = 0

    def make(
        name: str,
        meaning: Text,
        ranks: tuple[int, ...],
        backend: str,
        description: str | None,
        naming: str,
    ) -> None:
        nonlocal count
        if naming == HASHED:
            guid = hashed_name(ranks, joined[ranks[0]])
        else:
            guid = str(count)
            count += 1
        ids: dict[int, int] = {}
        for rank in ranks:
            joined[rank] += 1
            if backend != "gloo":
                ids[rank] = next_id[rank]
                next_id[rank] += 1
        groups.append(
            Group(
                name=name,
                meaning=meaning,
                guid=guid,
                ranks=ranks,
                backend=backend,
                description=description,
                ids=ids,
            )
        )

    make(
        "default",
        DEFAULT_MEANING,
        tuple(range(world)),
        framework.default_backend,
        "default_pg",
        COUNTED,
    )
    for step in framework.steps_of(version, _told(grids, sizes)):
        parts = [p for p in step.parts if within(version, p.since, None)]
        lists = step.ranks.lists(grids, sizes)
        # A split makes one part for all lists before the next part; new_group goes list by list.
        order = (
            [(part, members) for part in parts for members in lists]
            if step.naming == HASHED
            else [(part, members) for members in lists for part in parts]
        )
        for part, members in order:
            # torch sorts the ranks it is given (new_group, split_group).
            chosen = tuple(sorted(part.pick(members) if part.pick else members))
            make(
                part.name or step.name,
                part.meaning or step.meaning,
                chosen,
                part.backend,
                part.description,
                step.naming,
            )
    return Layout(
        framework=framework.name,
        version=version,
        sizes=dict(sizes),
        world=world,
        groups=tuple(groups),
    )


class Row(msgspec.Struct, frozen=True):
    """The numbers of one part of a step, without the groups themselves.

    Attributes:
        name: name of the groups.
        backend: their back end.
        first: ``PG GUID`` of the first of them.
        stride: from one to the next.
        count: how many.
        size: members of each.
        id: ``PG ID``, where it is the same for all ranks; ``None`` where it is not or without NCCL.
    """

    name: str
    backend: str
    first: int
    stride: int
    count: int
    size: int
    id: int | None


def outline(framework: Framework, sizes: Sizes, version: str | None = None) -> tuple[Row, ...]:
    """The numbers of all groups that are counted, without building the groups (fast).

    Raises:
        ValueError: as :func:`layout`.
    """
    grids = framework.grids(sizes, version)
    world = grids["main"].world
    rows = [Row("default", framework.default_backend, 0, 1, 1, world, 0)]
    count, number, uniform = 1, 1, True
    for step in framework.steps_of(version, _told(grids, sizes)):
        parts = [p for p in step.parts if within(version, p.since, None)]
        length = step.ranks.length(grids, sizes)
        if length < 1 or world % length:
            raise ValueError("the ranks do not divide")
        lists = world // length
        for index, part in enumerate(parts):
            nccl = part.backend != "gloo"
            if step.naming == COUNTED:
                rows.append(
                    Row(
                        part.name or step.name,
                        part.backend,
                        count + index,
                        len(parts),
                        lists,
                        length,
                        number if nccl and uniform else None,
                    )
                )
            uniform = uniform and part.pick is None
            number += nccl
        if step.naming == COUNTED:
            count += lists * len(parts)
    return tuple(rows)
