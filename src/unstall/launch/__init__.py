"""Launch scripts to programs, their settings side by side, and what conflicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.launch.texts import ConfigText, ScriptText
    from unstall.model.plan import Plan

__all__ = ["read_plan"]


def read_plan(
    scripts: Sequence[ScriptText],
    configs: Sequence[ConfigText] = (),
    versions: Mapping[str, str] | None = None,
    at_hand: Sequence[ScriptText] = (),
    searched: Collection[str] = (),
) -> Plan:
    """The launch plan of scripts; see :func:`unstall.launch.plan.read_plan`."""
    from unstall.launch.plan import read_plan as read

    return read(scripts, configs, versions, at_hand, searched)
