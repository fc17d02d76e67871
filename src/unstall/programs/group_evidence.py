"""The single observations by which a group tag is given to a program, each with its weight."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unstall.model.facts import GroupStatus, GroupTag, Work
from unstall.model.findings import Evidence
from unstall.model.plan import Program
from unstall.model.text import Text, say, verbatim
from unstall.programs.frameworks import Hypothesis
from unstall.programs.groups import Framework, Group, Traffic
from unstall.programs.timeouts import GroupTimeout, group_timeout

SWITCHES = frozenset(
    {"moe", "eplb", "old_mesh", "no_gloo", "rollout", "fsdp", "split_group", "tp_pp_dp"}
)
"""Entries of the sizes that are no sizes."""


ACCELERATED = frozenset(
    {"ms-swift", "trl", "transformers", "accelerate", "llama-factory", "axolotl"}
)
"""Trainers whose ranks meet in the default group, since they are built on accelerate."""


class Seen(msgspec.Struct, frozen=True):
    """What was observed."""

    tag: GroupTag
    work: Work | None
    ranks: frozenset[int]
    statuses: tuple[GroupStatus, ...]
    versions: dict[str, str]

    def default_enqueued(self) -> tuple[int, GroupStatus] | None:
        """The last operation enqueued in the default group, as far as a status line tells."""
        known = [
            (s.last_enqueued, s)
            for s in self.statuses
            if s.last_enqueued is not None
            and (
                s.group.guid == "0"
                or s.group.description == "default_pg"
                or (s.group.guid is None and s.group.pg_id == 0)
            )
        ]
        return max(known, key=lambda pair: pair[0]) if known else None


def common(
    seen: Seen,
    framework: Framework,
    program: Program | None,
    versions: Mapping[str, str],
    processes: int | None,
) -> tuple[list[Evidence], list[Evidence]]:
    """What does not depend on which group it is."""
    support: list[Evidence] = []
    against: list[Evidence] = []
    if program is not None and seen.work is not None and seen.work.timeout_ms is not None:
        _timeout_evidence(
            seen.work.timeout_ms,
            group_timeout(program, framework.name, versions),
            program,
            support,
            against,
        )
    if processes and seen.ranks and max(seen.ranks) >= processes:
        against.append(
            Evidence(
                say(
                    "rank {rank} cannot be among {count} ranks",
                    rank=max(seen.ranks),
                    count=processes,
                ),
                None,
                5.0,
                "launch plan",
            )
        )
    default = seen.default_enqueued()
    if default is not None:
        used, source = framework.default_used, framework.default_source
        if used == "usually" and program is not None and program.software in ACCELERATED:
            used, source = (
                "always",
                "accelerate/state.py: wait_for_everyone, a barrier",
            )
        _default_evidence(*default, framework.label, used, source, support, against)
    return support, against


def _timeout_evidence(
    seen_ms: int,
    expected: GroupTimeout | None,
    program: Program,
    support: list[Evidence],
    against: list[Evidence],
) -> None:
    if expected is None:
        return
    if expected.milliseconds == seen_ms:
        support.append(
            Evidence(
                say(
                    "the time-out of {seconds} s is what {program} has ({name})",
                    seconds=_seconds(seen_ms),
                    program=program.label,
                    name=expected.name,
                ),
                expected.place,
                0.7,
                expected.source,
            )
        )
    else:
        against.append(
            Evidence(
                say(
                    "the groups of {program} time out after {expected} s ({name}), not {seconds} s",
                    program=program.label,
                    expected=_seconds(expected.milliseconds),
                    name=expected.name,
                    seconds=_seconds(seen_ms),
                ),
                expected.place,
                3.0 if expected.given else 2.0,
                expected.source,
            )
        )


def _default_evidence(
    enqueued: int,
    status: GroupStatus,
    software: str,
    used: str,
    source: str,
    support: list[Evidence],
    against: list[Evidence],
) -> None:
    if enqueued < 0 and used == "never":
        text = say(
            "the default group was never used (last enqueued -1), as in every run of {software}",
            software=software,
        )
        support.append(Evidence(text, status.place, 1.5, source))
    elif enqueued < 0 and used in ("always", "usually"):
        text = say(
            "the default group was never used (last enqueued -1); {software} uses it from the "
            "start",
            software=software,
        )
        weight = 3.0 if used == "always" else 1.5
        if used == "usually":
            text = say(
                "the default group was never used (last enqueued -1); {software} uses it in most "
                "configurations",
                software=software,
            )
        against.append(Evidence(text, status.place, weight, source))
    elif enqueued > 0 and used == "never":
        text = say(
            "the default group is in use (last enqueued {count}); {software} runs nothing there",
            count=enqueued,
            software=software,
        )
        against.append(Evidence(text, status.place, 3.0, source))


def member_evidence(
    seen: Seen, group: Group, support: list[Evidence], against: list[Evidence]
) -> None:
    """Whether the ranks that were heard are the group's members."""
    if not seen.ranks:
        return
    outside = sorted(seen.ranks - set(group.ranks))
    if outside and seen.tag.guid is not None:
        against.append(
            Evidence(
                say(
                    "rank {rank} names the same group and is no member of it",
                    rank=outside[0],
                ),
                None,
                1.5,
                "launch plan",
            )
        )
    heard = len(seen.ranks & set(group.ranks))
    if heard == group.size and not outside:
        support.append(
            Evidence(
                say("exactly its {count} members were heard", count=group.size), None, 0.7, "log"
            )
        )
    elif heard * 2 < group.size:
        against.append(
            Evidence(
                say(
                    "only {heard} of its {count} members were heard",
                    heard=heard,
                    count=group.size,
                ),
                None,
                1.0,
                "log",
            )
        )


def _known_traffic(
    framework: Framework, guess: Hypothesis, group: Group, version: str | None
) -> list[Traffic]:
    if framework.traffic is None:
        return []
    rows = framework.traffic(guess.sizes, version or guess.version)
    return [row for row in rows if row.group == group.name and row.backend == group.backend]


def preference(seen: Seen, framework: Framework, guess: Hypothesis, group: Group) -> float:
    """How much better than others these sizes explain the operation and the ranks heard."""
    weight = traffic_weight(seen, framework, guess, group)
    if seen.tag.guid is not None and seen.ranks - set(group.ranks):
        weight -= 1.5
    return weight


def traffic_weight(seen: Seen, framework: Framework, guess: Hypothesis, group: Group) -> float:
    """How well the operation agrees with what the framework runs in that group."""
    if seen.work is None or seen.work.numel_in is None:
        return 0.0
    rows = _known_traffic(framework, guess, group, guess.version)
    if any(row.op == seen.work.op and row.numel_in == seen.work.numel_in for row in rows):
        return 2.0
    return -1.0 if any(row.usual for row in rows) else 0.0


def traffic_evidence(
    seen: Seen,
    framework: Framework,
    guess: Hypothesis,
    group: Group,
    version: str | None,
    support: list[Evidence],
    against: list[Evidence],
) -> None:
    """Whether the operation is one that the framework is known to run in that group."""
    work = seen.work
    if work is None or work.numel_in is None:
        return
    rows = _known_traffic(framework, guess, group, version)
    for row in rows:
        if row.op == work.op and row.numel_in == work.numel_in:
            support.append(Evidence(row.text, None, 2.0, row.source))
            return
    usual = next((row for row in rows if row.usual), None)
    if usual is not None:
        against.append(
            Evidence(
                say(
                    "nearly every operation of that group is {op} of {count} elements",
                    op=usual.op,
                    count=usual.numel_in,
                ),
                None,
                1.0,
                usual.source,
            )
        )


def tag_text(tag: GroupTag) -> Text:
    """``PG ID 5 PG GUID 15``: the tag's numbers as the log shows them."""
    words = []
    if tag.pg_id is not None:
        words.append(f"PG ID {tag.pg_id}" if tag.guid is not None else f"PG {tag.pg_id}")
    if tag.guid is not None:
        words.append(f"PG GUID {tag.guid}")
    if tag.description is not None:
        words.append(f"({tag.description})")
    return verbatim(" ".join(words))


def sizes_text(guess: Hypothesis) -> Text:
    """``DP 2, TP 1``: the sizes that matter, guessed ones included."""
    first = ("dp", "tp", "pp")
    told = sorted(
        ((name, value) for name, value in guess.sizes.items() if name not in SWITCHES),
        key=lambda size: first.index(size[0]) if size[0] in first else len(first),
    )
    shown = [
        f"{name.upper().replace('_', ' ')} {value}"
        for name, value in told
        if value != 1 or name in ("dp", "tp")
    ]
    return verbatim(", ".join(shown) or f"WORLD {guess.world}")


def _seconds(milliseconds: int) -> int | float:
    return milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000
