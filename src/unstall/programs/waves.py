"""Where an engine's step collective stands: the count of start-up, whole waves, the step within.

Engines that step together do so in waves (see :mod:`unstall.programs.vllm.stepping`). The sequence
number of the collective that could not finish therefore tells whether a new wave had just begun.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.programs.identify import Match
from unstall.programs.vllm import stepping


class WaveReading(msgspec.Struct, frozen=True):
    """What a sequence number says.

    Attributes:
        first_of_wave: it can be the first step of a wave; ``None`` where start-up is not known.
        text: the arithmetic, in words.
        chance: how likely the same would be at a step taken at random.
        source: where the counts can be checked.
        assumptions: what the count of start-up rests on.
    """

    first_of_wave: bool | None
    text: Text
    chance: float
    source: str
    assumptions: tuple[Text, ...] = ()


def wave_reading(
    seq: int | None, match: Match, program: Program | None, versions: Mapping[str, str]
) -> WaveReading | None:
    """The reading for a step collective of a data-parallel engine group; ``None`` for others."""
    if seq is None or match.framework != "vllm" or match.group is None:
        return None
    if match.group.name != "dp":
        return None
    version = match.version or versions.get("vllm")
    interval = stepping.wave_interval(version)
    known = stepping.startup(
        version,
        _number(program, "max_num_seqs", "vllm_max_num_seqs") or 256,
        enforce_eager=_switch(program, "enforce_eager", "vllm_enforce_eager"),
    )
    if known is None:
        return WaveReading(
            None,
            say(
                "{seq} would be the first step of a wave if start-up made {residue} such "
                "operations, or that many plus whole waves of {interval}",
                seq=seq,
                residue=(seq - 1) % interval,
                interval=interval,
            ),
            1.0,
            stepping.ENGINE,
        )
    positions = [stepping.wave_position(seq, count, interval) for count in known.counts]
    for position in positions:
        if position is not None and position.first_of_wave:
            return WaveReading(
                True,
                say(
                    "{seq} = {startup} + {interval} x {waves} + 1: the operations of start-up, a "
                    "whole number of {interval}-step waves, and one: the hang is at the first step "
                    "of a new wave (by chance this would be 1 in {interval})",
                    seq=seq,
                    startup=position.startup,
                    interval=interval,
                    waves=position.intervals,
                ),
                len(known.counts) / interval,
                known.source,
                known.assumptions,
            )
    at = positions[0]
    if at is None:
        return None
    return WaveReading(
        False,
        say(
            "with {startup} operations of start-up, {seq} is step {step} of a {interval}-step wave",
            startup=at.startup,
            seq=seq,
            step=at.step,
            interval=interval,
        ),
        1.0,
        known.source,
        known.assumptions,
    )


def _number(program: Program | None, *flags: str) -> int | None:
    for flag in flags:
        value = program.flags.get(flag) if program is not None else None
        if value is not None and value.known and value.text.isdigit():
            return int(value.text[:9])
    return None


def _switch(program: Program | None, *flags: str) -> bool:
    for flag in flags:
        value = program.flags.get(flag) if program is not None else None
        if value is not None and value.text.lower() in ("", "true", "1", "yes"):
            return True
    return False
