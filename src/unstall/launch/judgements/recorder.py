"""The Flight Recorder: without it a time-out tells who waited, not who was missing.

Sources: PyTorch 2.2 to 2.15, ``torch/csrc/distributed/c10d``, ``FlightRecorder.hpp`` and
``ProcessGroupNCCL.hpp``/``.cpp``: the ring's size is 0 (off) by default to 2.10 and 2000 from 2.11
on; TORCH_NCCL_TRACE_BUFFER_SIZE sets it since 2.2, TORCH_FR_BUFFER_SIZE since 2.8 (the newer name
counts where both are set); a time-out writes it by default from 2.8 on, before only with
TORCH_NCCL_DUMP_ON_TIMEOUT=1 (2.15 also reads TORCH_FR_DUMP_ON_TIMEOUT). The nccl2 back end
(TORCH_DIST_USE_NCCL2 in 2.14, the default in 2.15) is recorded from 2.15 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement, Value
from unstall.model.text import Text, say
from unstall.programs.base import Launch, number, truth

OLD_NAME = "TORCH_NCCL_TRACE_BUFFER_SIZE"
NEW_NAME = "TORCH_FR_BUFFER_SIZE"
RING = 2000
_FIRST = (2, 2)
_NEW_NAME_SINCE = (2, 8)
_ON_SINCE = (2, 11)
_DUMPS_SINCE = (2, 8)
_NCCL2_RECORDED_SINCE = (2, 15)


def judge(context: Context) -> Iterator[Judgement]:
    """One row for all programs with several ranks, and one for a name that is too new.

    Where PyTorch's version is unknown and nothing is set, whether it is on is unknown, too: that is
    told, and it is no doubt about the user's script.
    """
    several = [
        la
        for la in context.launches
        if la.distributed and la.role != "node" and (la.processes is None or la.processes > 1)
    ]
    if not several:
        return
    for launch in several:
        torch, value = launch.version("torch"), launch.environment.get(NEW_NAME)
        if value is not None and torch is not None and _FIRST <= torch < _NEW_NAME_SINCE:
            yield Judgement(
                NEW_NAME,
                {launch.label: show(value)},
                "no effect",
                say(
                    "PyTorch reads this name from 2.8 on; before, it is called {name}",
                    name=OLD_NAME,
                ),
                places(value),
                f"export {OLD_NAME}={value.text}",
            )
    states = {la.label: _state(la) for la in several}
    values = {la.label: _shown(la, states[la.label]) for la in several}
    where = places(*(_size(la) for la in several))
    for state in ("absent", "unrecorded", "off", "unwritten", "untold"):
        found = [la for la in several if states[la.label] == state]
        if found:
            yield Judgement(
                "Flight Recorder",
                values,
                "ok" if state == "untold" else "suspicious",
                _why(state, found),
                where or places(*(la.place for la in found)),
                _correction(state, found),
            )
            return
    written = all(_writes(la) for la in several)
    yield Judgement(
        "Flight Recorder",
        values,
        "ok",
        say("on in every program")
        if written
        else say("on; TORCH_NCCL_DUMP_ON_TIMEOUT=1 has it written where a collective times out"),
        where or places(*(la.place for la in several)),
    )


def _size(launch: Launch) -> Value | None:
    """The ring's size as given under a name that this PyTorch reads."""
    torch = launch.version("torch")
    names = (OLD_NAME,) if torch is not None and torch < _NEW_NAME_SINCE else (NEW_NAME, OLD_NAME)
    return next((launch.environment[n] for n in names if n in launch.environment), None)


def _state(launch: Launch) -> str:
    torch = launch.version("torch")
    if torch is not None and torch < _FIRST:
        return "absent"
    second = truth(launch.environment.get("TORCH_DIST_USE_NCCL2"))
    if second and torch is not None and torch < _NCCL2_RECORDED_SINCE:
        return "unrecorded"
    value = _size(launch)
    if value is not None:
        on = number(value) != 0
    elif torch is None:
        return "untold"
    else:
        on = torch >= _ON_SINCE
    if not on:
        return "off"
    return "unwritten" if truth(_dump(launch)) is False else "on"


def _dump(launch: Launch) -> Value | None:
    names = ("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT")
    return next((launch.environment[n] for n in names if n in launch.environment), None)


def _writes(launch: Launch) -> bool:
    torch = launch.version("torch")
    return _dump(launch) is not None or (torch is not None and torch >= _DUMPS_SINCE)


def _shown(launch: Launch, state: str) -> str:
    value, torch = _size(launch), launch.version("torch")
    if value is None and torch is not None and state not in ("absent", "unrecorded"):
        return f"{RING if torch >= _ON_SINCE else 0} (default)"
    return show(value)


def _why(state: str, found: list[Launch]) -> Text:
    programs = ", ".join(la.label for la in found)
    if state == "absent":
        return say("{programs}: PyTorch before 2.2 has no Flight Recorder", programs=programs)
    if state == "unrecorded":
        return say(
            "{programs}: the nccl2 back end is recorded only from PyTorch 2.15 on",
            programs=programs,
        )
    if state == "unwritten":
        return say(
            "{programs}: recorded, but not written where a collective times out", programs=programs
        )
    if state == "off":
        return say(
            "off in {programs}: a time-out would show who waited and not who was missing",
            programs=programs,
        )
    return say(
        "not set for {programs}: off by default before PyTorch 2.11 and on since, and without it a "
        "time-out shows who waited and not who was missing",
        programs=programs,
    )


def _correction(state: str, found: list[Launch]) -> str | None:
    if state in ("absent", "unrecorded"):
        return None
    if state == "unwritten":
        return "export TORCH_NCCL_DUMP_ON_TIMEOUT=1"
    known = [t for la in found if (t := la.version("torch")) is not None]
    if len(known) == len(found) and min(known) >= _NEW_NAME_SINCE:
        return f"export {NEW_NAME}={RING}"
    return f"export {OLD_NAME}={RING} TORCH_NCCL_DUMP_ON_TIMEOUT=1"
