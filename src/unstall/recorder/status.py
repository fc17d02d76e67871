"""What a dump says of its process groups beside the entries: members and progress."""

from __future__ import annotations

import re
from typing import Any

from unstall.recorder.fields import ABSENT, MAX_GROUPS, members_of, text_of, whole
from unstall.recorder.records import Dump, GroupLog

_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def read_config(dump: Dump, config: Any) -> None:
    """Members of each group, and groups of which no operation is recorded."""
    if not isinstance(config, dict):
        return
    known: dict[tuple[str, str], GroupLog] = {(g.name, g.desc): g for g in dump.groups}
    by_name = {group.name: group for group in dump.groups}
    for key, value in list(config.items())[:MAX_GROUPS]:
        if not isinstance(value, dict) or not isinstance(key, str) or not key:
            continue  # gloo: one nameless group without members
        name, desc = text_of(value.get("name", key)), text_of(value.get("desc"))
        ranks = value.get("ranks", "")
        if isinstance(ranks, (list, tuple)):
            ranks = str([rank for rank in ranks[:1_000_000] if type(rank) is int])
        if not isinstance(ranks, str) or len(ranks) > 8 << 20 or not re.search(r"\d", ranks):
            ranks = ""
        group = known.get((name, desc)) or by_name.get(name)
        if group is None:
            group = GroupLog(name, desc, pending=[], sent={}, received={})
            dump.groups.append(group)
            by_name[name] = known[(name, desc)] = group
        group.ranks = ranks
        group.desc = group.desc or desc


def read_status(dump: Dump, status: Any) -> None:
    """Last enqueued and completed operation of each group.

    ``pg_status`` goes by this process's own number of a group (``pg_id``), which only entries tie
    to a name. For groups without entries: a process numbers its groups in the order in which they
    were made, and names made of digits count up in that order too, so both lists line up when they
    are equally long and agree wherever entries tell (seen in dumps of torch 2.5 to 2.13).
    """
    if not isinstance(status, dict):
        return
    by_id: dict[int, dict[Any, Any]] = {}
    for key, value in list(status.items())[:MAX_GROUPS]:
        pg_id = whole(key)
        if pg_id != ABSENT and isinstance(value, dict):
            by_id[pg_id] = value
    named = {group.pg_id: group for group in dump.groups if group.pg_id is not None}
    digits = [group for group in dump.groups if _NUMBER.match(group.name)]
    if len(digits) == len(dump.groups) == len(by_id):
        lined = dict(zip(sorted(by_id), sorted(digits, key=lambda g: int(g.name)), strict=True))
        if all(lined.get(pg_id) is group for pg_id, group in named.items()):
            named = lined
    elif len(by_id) == 1 and len(dump.groups) == 1:
        named = {next(iter(by_id)): dump.groups[0]}
    for pg_id, value in by_id.items():
        group = named.get(pg_id)
        if group is None:
            continue
        group.pg_id = pg_id
        enqueued = whole(value.get("last_enqueued_collective"))
        completed = whole(value.get("last_completed_collective"))
        group.enqueued = None if enqueued == ABSENT else enqueued
        group.completed = None if completed == ABSENT else completed


def rank_inside(dump: Dump) -> int | None:
    """The rank, where the groups' members leave only one possible."""
    common: set[int] | None = None
    for text in {group.ranks for group in dump.groups if group.ranks}:
        members = set(members_of(text))
        common = members if common is None else common & members
    if common is not None and len(common) == 1:
        return next(iter(common))
    for group in dump.groups:
        if group.own_rank is not None and group.ranks:
            members_list = members_of(group.ranks)
            if group.own_rank < len(members_list):
                return members_list[group.own_rank]
    return None
