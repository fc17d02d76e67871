"""Helpers: a script's plan, and what to ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from unstall.launch import read_plan
from unstall.launch.texts import Config, Script
from unstall.model.facts import Place
from unstall.model.plan import Judgement, Plan, Program

SCRIPTS = Path(__file__).parent / "scripts"


def plan(
    *texts: str,
    configs: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of scripts named ``a.sh``, ``b.sh`` … and of configuration files by name."""
    scripts = [
        Script(Place(f"{chr(97 + at)}.sh", 1), dedent(text).lstrip("\n"))
        for at, text in enumerate(texts)
    ]
    files = [
        Config(Place(name, 1), dedent(text).lstrip("\n"), name.rsplit(".", 1)[-1])
        for name, text in (configs or {}).items()
    ]
    return read_plan(scripts, files, versions or {})


def only(found: Plan) -> Program:
    """The plan's one program."""
    assert [p.label for p in found.programs] == [found.programs[0].label]
    return found.programs[0]


def judgements(found: Plan, name: str) -> list[Judgement]:
    """The judgements of that name."""
    return [j for j in found.judgements if j.name == name]


def verdict(found: Plan, name: str) -> str:
    """The one judgement of that name."""
    rows = judgements(found, name)
    assert len(rows) == 1, [(j.name, j.judgement) for j in found.judgements]
    return rows[0].judgement


def wrong(found: Plan) -> set[str]:
    """Names of all settings that conflict."""
    return {j.name for j in found.judgements if j.judgement == "conflict"}


def lines(judgement: Judgement) -> list[int]:
    """The line numbers that it cites."""
    return [p.line for p in judgement.places]
