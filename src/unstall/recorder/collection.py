"""Which dumps belong together: incidents, programs, ranks, and what is missing."""

from __future__ import annotations

import re

import msgspec

from unstall.model.text import Text, say
from unstall.recorder.fields import members_of
from unstall.recorder.records import Dump

#: Dumps of one incident end together; one that ends so much before the others' first entry is of
#: an earlier run whose file was not overwritten.
STALE_SECONDS = 3600
_MAX_RANK = 1_000_000
_FORMAT = re.compile(r"[-_.]?(?:json|pickle|pkl)(?![a-z])")


class Incident(msgspec.Struct):
    """Dumps of one program at one time.

    Attributes:
        label: folder, host or name pattern that tells it from others; ``""`` when alone.
        dumps: readable dumps by rank.
        broken: dumps that tell nothing but that they are broken or empty, by rank.
        absent: ranks of this program without a readable dump: those of ``broken`` and the missing.
        world: all ranks.
        notes: what was noticed while sorting.
        program, attempt: as the logs tell them, see :class:`~unstall.recorder.records.Dump`.
    """

    label: str
    dumps: dict[int, Dump]
    broken: dict[int, Dump] = {}
    absent: tuple[int, ...] = ()
    world: tuple[int, ...] = ()
    notes: tuple[Text, ...] = ()
    program: str = ""
    attempt: int = -1


def sort_into_incidents(dumps: list[Dump]) -> tuple[list[Incident], list[Text]]:
    """Incidents, largest first, and notes on dumps that belong to none."""
    notes: list[Text] = []
    unique: dict[tuple[object, ...], Dump] = {}
    placed: dict[tuple[str, str, int], list[tuple[int, Dump]]] = {}
    # Of a pickle and its JSON twin the pickle comes first: it has the stacks.
    for dump in sorted(dumps, key=lambda d: not any(e.frames for e in d.details.values())):
        rank = _rank_of(dump, notes)
        if rank is None or rank > _MAX_RANK:
            if dump.readable:
                notes.append(
                    say(
                        "{name} was left out: neither its name nor its groups tell its rank. "
                        "Rename it so that it ends in its rank.",
                        name=dump.source,
                    )
                )
            continue
        if dump.entries and (twin := unique.get(_identity(dump, rank))) is not None:
            notes.append(say("{name} repeats {other}.", name=dump.source, other=twin.source))
            continue
        unique[_identity(dump, rank)] = dump
        key = (_FORMAT.sub("", dump.series), dump.program, dump.attempt)
        placed.setdefault(key, []).append((rank, dump))
    bundles: list[dict[int, Dump]] = []
    for series in sorted(placed):
        bundles.extend(_split(placed[series]))
    merged = _merge(bundles)
    merged.sort(key=lambda bundle: (-sum(d.readable for d in bundle.values()), -_newest(bundle)))
    incidents = [_incident(bundle, len(merged) > 1) for bundle in merged]
    return incidents, notes


def _identity(dump: Dump, rank: int) -> tuple[object, ...]:
    pending = sum(group.pending_count for group in dump.groups)
    series = _FORMAT.sub("", dump.series)
    told = (dump.program, dump.attempt)
    return (series, told, dump.version, rank, dump.entries, dump.last_created, pending)


def _rank_of(dump: Dump, notes: list[Text]) -> int | None:
    if dump.inside is None or dump.inside == dump.rank:
        return dump.rank
    world = _world(dump)
    if dump.rank is None or not dump.sure or (world and dump.rank not in world):
        return dump.inside
    notes.append(
        say(
            "{name} is called rank {named}, but its groups are those of rank {inside}; "
            "it is taken as rank {inside}.",
            name=dump.source,
            named=dump.rank,
            inside=dump.inside,
        )
    )
    return dump.inside


def _world(dump: Dump) -> tuple[int, ...]:
    """Members of the default group, the largest one where none is called so."""
    sizes = [group.ranks for group in dump.groups if group.ranks and group.name == "0"]
    sizes = sizes or [group.ranks for group in dump.groups if group.ranks]
    return tuple(sorted(members_of(max(sizes, key=len)))) if sizes else ()


def _split(series: list[tuple[int, Dump]]) -> list[dict[int, Dump]]:
    """Dumps of one naming: apart by program (other members of the default group), then by time."""
    by_world: dict[tuple[int, ...], list[tuple[int, Dump]]] = {}
    loose: list[tuple[int, Dump]] = []
    for rank, dump in series:
        world = _world(dump) if dump.readable else ()
        if world:
            by_world.setdefault(world, []).append((rank, dump))
        else:
            loose.append((rank, dump))
    if not by_world:
        return _by_time(loose)
    largest = max(by_world, key=lambda world: (len(by_world[world]), len(world)))
    by_world[largest].extend(loose)
    return [bundle for members in by_world.values() for bundle in _by_time(members)]


def _by_time(members: list[tuple[int, Dump]]) -> list[dict[int, Dump]]:
    """Older runs' left-overs apart, and a rank's second dump into the next bundle."""
    bundles: list[dict[int, Dump]] = []
    timed = sorted(
        (
            (dump.first_created, dump.last_created, rank, dump)
            for rank, dump in members
            if dump.last_created
        ),
        key=lambda item: item[:3],
        reverse=True,
    )
    oldest = 0
    for first, last, rank, dump in timed:
        fresh = not bundles or (oldest and last < oldest - STALE_SECONDS * 1_000_000_000)
        if fresh or rank in bundles[-1]:
            bundles.append({})
            oldest = first
        bundles[-1][rank] = dump
        oldest = min(oldest, first)
    for rank, dump in members:
        if not dump.last_created:
            home = next((b for b in bundles if rank not in b), None)
            if home is None:
                home = {}
                bundles.append(home)
            home[rank] = dump
    return bundles


def _merge(bundles: list[dict[int, Dump]]) -> list[dict[int, Dump]]:
    """Join what several nodes' folders or host names keep apart: no common rank, same program."""
    merged: list[dict[int, Dump]] = []
    for bundle in sorted(bundles, key=lambda b: (-len(b), min(b, default=0))):
        for home in merged:
            if home.keys().isdisjoint(bundle.keys()) and _related(home, bundle):
                home.update(bundle)
                break
        else:
            merged.append(dict(bundle))
    return merged


def _related(one: dict[int, Dump], other: dict[int, Dump]) -> bool:
    both = (*one.values(), *other.values())
    if len({d.program for d in both} - {""}) > 1 or len({d.attempt for d in both} - {-1}) > 1:
        return False
    worlds = [
        {_world(d) for d in bundle.values() if d.readable and _world(d)} for bundle in (one, other)
    ]
    if worlds[0] and worlds[1] and not worlds[0] & worlds[1]:
        return False
    spans = []
    for bundle in (one, other):
        times = [d for d in bundle.values() if d.last_created]
        if not times:
            return True
        spans.append((min(d.first_created for d in times), max(d.last_created for d in times)))
    gap = max(spans[0][0], spans[1][0]) - min(spans[0][1], spans[1][1])
    return gap < STALE_SECONDS * 1_000_000_000


def _newest(bundle: dict[int, Dump]) -> int:
    return max((dump.last_created for dump in bundle.values()), default=0)


def _incident(bundle: dict[int, Dump], several: bool) -> Incident:
    readable = {rank: dump for rank, dump in sorted(bundle.items()) if dump.readable}
    broken = {rank: dump for rank, dump in sorted(bundle.items()) if not dump.readable}
    world: set[int] = set(bundle)
    known = False
    for text in {group.ranks for dump in readable.values() for group in dump.groups if group.ranks}:
        world.update(rank for rank in members_of(text) if rank <= _MAX_RANK)
        known = True
    if not known and bundle and max(bundle) < 4 * len(bundle) + 8:
        world.update(range(max(bundle) + 1))  # gloo names no members: gaps in the numbers tell
    absent = tuple(sorted(world - readable.keys()))
    series = sorted({dump.series for dump in bundle.values()})
    label = series[0] if several and series else ""
    if any(not dump.source.startswith("/") for dump in bundle.values()):
        label = label.lstrip("/")  # of files without a folder
    return Incident(
        label, readable, broken, absent, tuple(sorted(world)),
        program=max((dump.program for dump in bundle.values()), default=""),
        attempt=max((dump.attempt for dump in bundle.values()), default=-1),
    )  # fmt: skip
