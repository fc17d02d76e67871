"""The Flight Recorder: without it a time-out tells who waited, not who was missing."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement
from unstall.model.text import say
from unstall.programs.base import Launch, number

_SIZES = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE")


def judge(context: Context) -> Iterator[Judgement]:
    """One row for all programs with several ranks."""
    several = [
        la
        for la in context.launches
        if la.distributed and la.role != "node" and (la.processes is None or la.processes > 1)
    ]
    if not several:
        return
    sizes = {
        la.label: next((la.environment[n] for n in _SIZES if n in la.environment), None)
        for la in several
    }
    off = [la for la in several if _off(la)]
    values = {label: show(value) for label, value in sizes.items()}
    where = places(*sizes.values())
    if not off:
        dump = all("TORCH_NCCL_DUMP_ON_TIMEOUT" in la.environment for la in several)
        yield Judgement(
            "Flight Recorder",
            values,
            "ok",
            say("on in every program")
            if dump
            else say(
                "on; TORCH_NCCL_DUMP_ON_TIMEOUT=1 has it written where a collective times out"
            ),
            where,
        )
        return
    explicit = any(sizes[la.label] is not None for la in off)
    yield Judgement(
        "Flight Recorder",
        values,
        "suspicious",
        say(
            "off in {programs}: a time-out would show who waited and not who was missing",
            programs=", ".join(la.label for la in off),
        )
        if explicit
        else say(
            "not set for {programs}; whether it is on by default depends on the PyTorch version, "
            "and "
            "without it a time-out shows who waited and not who was missing",
            programs=", ".join(la.label for la in off),
        ),
        where or places(*(la.place for la in off)),
        "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
    )


def _off(launch: Launch) -> bool:
    found = next((launch.environment[n] for n in _SIZES if n in launch.environment), None)
    return found is None or number(found) == 0
