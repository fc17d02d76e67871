"""Which group of which program a log line speaks of.

A line's ``[PG ID 5 PG GUID 15 Rank 0]`` is held against the groups that each launched program
makes (:mod:`unstall.programs.frameworks`), and so are the ranks that were heard, the time-out, the
number of elements and whether the default group was ever used. Each observation moves the odds of
each program by a stated weight, for or against.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp, log

import msgspec

from unstall.model.facts import GroupStatus, GroupTag, Work
from unstall.model.findings import Evidence, ProcessGroup
from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.programs.default_group import dimension_meaning
from unstall.programs.frameworks import (
    FRAMEWORKS,
    Hypothesis,
    frameworks_of,
    hypotheses,
    known_sizes,
)
from unstall.programs.group_evidence import (
    SWITCHES,
    Seen,
    common,
    member_evidence,
    preference,
    sizes_text,
    tag_text,
    traffic_evidence,
)
from unstall.programs.group_names import members_of_hash
from unstall.programs.groups import (
    DEFAULT_MEANING,
    Framework,
    Group,
    Row,
    version_key,
    within,
)

NAMED = {
    "weight_update_group": say("weight update: the trainer sends new weights to the engines"),
    "weight_send_group": say("weight update: the trainer sends new weights to the engines"),
    "openrlhf": say("weight update: the trainer sends new weights to the engines"),
}
"""Groups that are opened under a name of the caller's; the name stands where ``PG GUID`` has a
number elsewhere."""

NAMED_SOURCE = (
    "SGLang 0.5.10, sglang/srt/utils/common.py: init_custom_process_group; managers/io_struct.py"
)


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of a group tag.

    Attributes:
        program: label of the program in the plan; ``None`` where there is no plan.
        software: the framework as a user writes it.
        framework: its short name.
        version: its version, where it is known.
        group: the group; its ``meaning`` says what it is for. ``None`` where no group fits.
        sizes: the sizes under which it fits; guessed ones included.
        fit: sum of the weights, for less against: a logarithm of odds beside "none of these".
        support, against: the reasons, each with its source.
        fitting: how many differently named groups of this program fit the tag.
        guessed: sizes that nobody told.
    """

    program: str | None
    software: str
    framework: str
    version: str | None = None
    group: ProcessGroup | None = None
    sizes: dict[str, int] = {}
    fit: float = 0.0
    support: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()
    fitting: int = 0
    guessed: tuple[str, ...] = ()


def probabilities(matches: Sequence[Match]) -> tuple[float, ...]:
    """How likely each match is, with room for "none of these".

    Before any evidence that has the odds of a match; a seventh of them where there is a plan, since
    few lines come from programs that a launch script does not name.
    """
    top = max(0.0, *(match.fit for match in matches)) if matches else 0.0
    odds = [exp(match.fit - top) for match in matches]
    planned = any(match.program is not None for match in matches)
    total = sum(odds) + exp(-top) * (0.15 if planned else 1.0)
    return tuple(value / total for value in odds)


def by_program(matches: Sequence[Match]) -> dict[str, float]:
    """How likely each program is the one, over all its readings that name a group."""
    shares: dict[str, float] = {}
    for match, share in zip(matches, probabilities(matches), strict=True):
        if match.program is not None and match.group is not None:
            shares[match.program] = shares.get(match.program, 0.0) + share
    return shares


def identify(
    tag: GroupTag,
    work: Work | None = None,
    candidates: Sequence[Program] = (),
    versions: Mapping[str, str] | None = None,
    ranks_seen: Collection[int] = (),
    statuses: Iterable[GroupStatus] = (),
) -> list[Match]:
    """Readings of a group tag, most likely first.

    Args:
        tag: what the line says of the group.
        work: the operation that it waited in.
        candidates: programs of the launch plan (those that the log shows included); none: all
            described frameworks are tried, and what fits is called weak.
        versions: packages' versions as far as known (``torch``, ``vllm`` …).
        ranks_seen: global ranks whose lines named this group.
        statuses: status lines of all groups of the same processes.

    Returns:
        For each program its best readings, one for each name of a group, then the program's
        reading "no group of mine" where nothing fits. Never raises for odd input.
    """
    seen = Seen(tag, work, frozenset(ranks_seen), tuple(statuses), dict(versions or {}))
    matches: list[Match] = []
    if candidates:
        for program in candidates:
            if program.role not in ("launcher", "node"):
                for framework in frameworks_of(program):
                    matches += _of(seen, framework, program)
    else:
        for framework in FRAMEWORKS:
            matches += [m for m in _of(seen, framework, None) if m.group is not None]
    matches.sort(key=lambda match: -match.fit)
    return matches


def _of(seen: Seen, framework: Framework, program: Program | None) -> list[Match]:
    versions = {**seen.versions, **(program.versions if program else {})}
    version = versions.get(framework.package) or versions.get(framework.package.replace("-", "_"))
    if framework.package == "torch":
        version = versions.get("torch")
    processes = program.processes if program else None
    support, against = common(seen, framework, program, versions, processes)
    guesses: tuple[Hypothesis, ...] = ()
    untold = seen.tag.guid is None and seen.tag.pg_id is None and seen.tag.description is None
    if not untold and _describes(framework, seen.tag):
        guesses = hypotheses(
            framework,
            known_sizes(framework, program) if program else {},
            version if version_key(version) else None,
            processes=processes,
            planned=program is not None,
            torch=versions.get("torch"),
        )
    if NAMED.get(seen.tag.guid or "") is not None:
        return [_opened(seen, framework, program, version, support, against)]
    hits: dict[str, list[tuple[Hypothesis, Group]]] = {}
    for guess in guesses:
        if not _promising(guess, seen.tag):
            continue
        for group in guess.layout().groups:
            if seen.work is not None and group.size == 1:
                continue  # nobody to wait for
            if fits(group, seen.tag, versions.get("torch")):
                hits.setdefault(group.name, []).append((guess, group))
    total = sum(guess.prior for guess in guesses)
    if not hits:
        return [_nothing(seen, framework, program, version, guesses, support, against)]
    return [
        _match(seen, framework, program, version, found, total, support, against, len(hits))
        for found in hits.values()
    ]


def _describes(framework: Framework, tag: GroupTag) -> bool:
    """Whether the framework gives some group the tag's description (2.5 and later print it)."""
    if tag.guid is None or tag.description == "default_pg" or tag.guid in NAMED:
        return True
    return any(
        part.description == tag.description for step in framework.steps for part in step.parts
    )


def _promising(guess: Hypothesis, tag: GroupTag) -> bool:
    """Whether one of the groups can have the tag's numbers; cheap, and never wrong with a no."""
    if guess.sizes.get("split_group"):
        return True
    if tag.guid is not None and not tag.guid.isdecimal():
        return False
    if tag.guid is None and tag.pg_id is None:
        return True
    for row in guess.rows:
        if row.backend == "gloo":
            continue
        alike = tag.pg_id is None or row.id is None or row.id == tag.pg_id
        if tag.guid is None:
            if alike or _counts(row, tag.pg_id):
                return True
        elif alike and _counts(row, int(tag.guid[:9])):
            return True
    return False


def _counts(row: Row, number: int | None) -> bool:
    steps = -1 if number is None else number - row.first
    return steps >= 0 and steps % row.stride == 0 and steps // row.stride < row.count


def _opened(
    seen: Seen,
    framework: Framework,
    program: Program | None,
    version: str | None,
    support: list[Evidence],
    against: list[Evidence],
) -> Match:
    """A group that was opened under a name of its own, between a trainer and its engines."""
    purpose = NAMED[seen.tag.guid or ""]
    engine = framework.name == "sglang"
    text = say(
        "a group is opened under the name “{name}” ({purpose})",
        name=seen.tag.guid or "",
        purpose=purpose,
    )
    weighed = [*support, Evidence(text, None, 1.5 if engine else 0.7, NAMED_SOURCE)]
    return Match(
        program=program.label if program else None,
        software=framework.label,
        framework=framework.name,
        version=version,
        group=ProcessGroup(id=seen.tag.pg_id, guid=seen.tag.guid, meaning=purpose),
        fit=sum(e.weight for e in weighed) - sum(e.weight for e in against),
        support=tuple(weighed),
        against=tuple(against),
        fitting=1,
    )


def fits(group: Group, tag: GroupTag, torch: str | None = None) -> bool:
    """Whether a tag can be this group's; see :mod:`unstall.programs.groups` for what it counts."""
    if group.backend == "gloo":
        return False
    if tag.rank is not None and not 0 <= tag.rank < group.size:
        return False
    if tag.guid is None and tag.pg_id is None:
        return tag.description is not None and tag.description == group.description
    members = group.ranks if tag.rank is None else (group.ranks[tag.rank],)
    ids = {group.ids[member] for member in members if member in group.ids}
    if tag.guid is not None:
        if tag.description != group.description:
            return False
        return tag.guid == group.guid and (tag.pg_id is None or tag.pg_id in ids)
    if tag.description is not None and tag.description != group.description:
        return False
    # One number alone: torch 2.3 prints the per-process number, 2.4 the name.
    named = str(tag.pg_id) == group.guid
    if tag.description is not None or (torch and within(torch, "2.4", None)):
        return named
    if torch and within(torch, None, "2.4"):
        return tag.pg_id in ids
    return named or tag.pg_id in ids


def _match(
    seen: Seen,
    framework: Framework,
    program: Program | None,
    version: str | None,
    found: list[tuple[Hypothesis, Group]],
    total: float,
    common_support: list[Evidence],
    common_against: list[Evidence],
    fitting: int,
) -> Match:
    support, against = list(common_support), list(common_against)
    scored = [
        (guess.prior * exp(preference(seen, framework, guess, group)), guess, group)
        for guess, group in found
    ]
    _, best, group = max(scored, key=lambda row: row[0])
    share = sum(guess.prior for guess, _ in found) / total if total else 0.0
    exact = seen.tag.guid is not None and seen.tag.pg_id is not None
    # The lower the numbers, the more programs have such a group; all have a default group.
    number = int(group.guid) if group.guid.isdecimal() else 99
    chance = max(0.05 if exact else 0.2, 1 / (1 + number))
    weight = max(-1.0, min(3.0, log(max(share, 1e-3) / chance)))
    told = sizes_text(best)
    shown = version or say("(version unknown)")
    source = f"{framework.label} {version or best.version or ''}, {framework.source}".strip()
    if framework.extrapolated(version):
        weight = min(weight, 2.0)
    if best.guessed or best.version_guessed:
        text = say(
            "{tag} can be {software}'s group “{name}” ({meaning}), if it runs with {sizes}",
            tag=tag_text(seen.tag),
            software=framework.label,
            name=group.name,
            meaning=group.meaning,
            sizes=told,
        )
        weight = min(weight, 2.0)
    else:
        text = say(
            "{tag} is {software} {version}'s group “{name}”: {meaning} ({sizes}, in the order in "
            "which it makes its groups)",
            tag=tag_text(seen.tag),
            software=framework.label,
            version=shown,
            name=group.name,
            meaning=group.meaning,
            sizes=told,
        )
    support.append(Evidence(text, None, max(weight, 0.0), source))
    if weight < 0:
        against.append(
            Evidence(
                say("only few of the possible sizes have such a group there"),
                None,
                -weight,
                source,
            )
        )
    member_evidence(seen, group, support, against)
    traffic_evidence(seen, framework, best, group, version, support, against)
    if group.guid == "0" and framework.default_used == "never":
        against.append(
            Evidence(
                say("{software} runs nothing in its default group", software=framework.label),
                None,
                4.0,
                framework.default_source,
            )
        )
    fit = sum(e.weight for e in support) - sum(e.weight for e in against)
    if program is None:
        fit = min(fit * 0.5, 2.0)
    ids = set(group.ids.values())
    return Match(
        program=program.label if program else None,
        software=framework.label,
        framework=framework.name,
        version=version,
        group=ProcessGroup(
            id=seen.tag.pg_id if seen.tag.guid is not None else (ids.pop() if ids else None),
            guid=group.guid,
            name=group.name,
            meaning=group.meaning,
            ranks=group.ranks,
        ),
        sizes={
            name: value
            for name, value in best.sizes.items()
            if name not in SWITCHES or name in best.guessed
        },
        fit=fit,
        support=tuple(support),
        against=tuple(against),
        fitting=fitting,
        guessed=best.guessed,
    )


def _nothing(
    seen: Seen,
    framework: Framework,
    program: Program | None,
    version: str | None,
    guesses: tuple[Hypothesis, ...],
    support: list[Evidence],
    against: list[Evidence],
) -> Match:
    against = list(against)
    sure = not any(guess.guessed for guess in guesses) and not framework.extrapolated(version)
    if seen.tag.pg_id is not None or seen.tag.guid is not None:
        against.append(
            Evidence(
                say(
                    "no group of {software} {version} has {tag}",
                    software=framework.label,
                    version=version or say("(version unknown)"),
                    tag=tag_text(seen.tag),
                ),
                None,
                3.0 if sure else 1.5,
                framework.source,
            )
        )
    return Match(
        program=program.label if program else None,
        software=framework.label,
        framework=framework.name,
        version=version,
        fit=sum(e.weight for e in support) - sum(e.weight for e in against),
        support=tuple(support),
        against=tuple(against),
    )


def meaning(tag: GroupTag, world: int | None = None) -> Text | None:
    """What a tag says by itself, without any plan.

    The default group, a mesh's dimension, a group opened under a name, the members of a hashed
    name (tried for up to ``world`` ranks).
    """
    if tag.description == "default_pg" or tag.guid == "0":
        return DEFAULT_MEANING
    if tag.description and tag.description.startswith("mesh_"):
        return dimension_meaning(tag.description.removeprefix("mesh_"))
    named = NAMED.get(tag.guid or "")
    if named is not None:
        return named
    if tag.guid and world:
        members = members_of_hash(tag.guid, world)
        if members:
            return say("group of the ranks {ranks}", ranks=", ".join(map(str, members)))
    return None
