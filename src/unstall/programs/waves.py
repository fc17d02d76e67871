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
    seq: int | None,
    match: Match,
    program: Program | None,
    versions: Mapping[str, str],
    *,
    on_cpu: bool = False,
) -> WaveReading | None:
    """The reading for a step collective of a data-parallel engine group; ``None`` for others.

    ``on_cpu`` says that the engines run on a CPU, where start-up makes fewer of them.
    """
    if seq is None or match.framework != "vllm" or match.group is None:
        return None
    if match.group.name != "dp":
        return None
    version = match.version or versions.get("vllm")
    interval = stepping.wave_interval(version)
    given = _number(program, "max_num_seqs", "vllm_max_num_seqs")
    known = [
        start
        for sequences in ((given,) if given else _defaults(program))
        if (
            start := stepping.startup(
                version,
                sequences,
                enforce_eager=_switch(program, "enforce_eager", "vllm_enforce_eager"),
                on_cpu=on_cpu,
            )
        )
        is not None
    ]
    if not known:
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
    residues = {count % interval for start in known for count in start.counts}
    for start in known:
        for count in start.counts:
            position = stepping.wave_position(seq, count, interval)
            if position is not None and position.first_of_wave:
                return WaveReading(
                    True,
                    say(
                        "{seq} = {startup} + {interval} x {waves} + 1: the operations of start-up, "
                        "a whole number of {interval}-step waves, and one: the hang is at the "
                        "first step of a new wave (by chance this would be {chance} in {interval})",
                        seq=seq,
                        startup=position.startup,
                        interval=interval,
                        waves=position.intervals,
                        chance=len(residues),
                    ),
                    len(residues) / interval,
                    start.source,
                    start.assumptions,
                )
    at = stepping.wave_position(seq, known[0].counts[0], interval)
    if at is None:
        return None
    return WaveReading(
        False if given else None,
        say(
            "with {startup} operations of start-up, {seq} is step {step} of a {interval}-step wave",
            startup=at.startup,
            seq=seq,
            step=at.step,
            interval=interval,
        ),
        1.0,
        known[0].source,
        known[0].assumptions,
    )


def _defaults(program: Program | None) -> tuple[int, ...]:
    """Plausible ``max_num_seqs`` where none was given, most likely first.

    ms-swift 3.x passes 256. vLLM's own default is 256, on GPUs of 70 GiB and more except the A100
    1024 (0.9 to 0.11, ``vllm/engine/arg_utils.py``: ``_set_default_args``).
    """
    return (256,) if program is not None and program.software == "ms-swift" else (256, 1024)


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
