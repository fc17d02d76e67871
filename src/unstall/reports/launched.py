"""The launch plan as reports show it: one program as labels and values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unstall.model.plan import Port, Program, Value
from unstall.model.text import Text, say, verbatim
from unstall.reports import words
from unstall.reports.words import clean, speak


@dataclass(frozen=True)
class ProgramView:
    """A program's label and what was given to it, as label and value; ``cite`` is its place."""

    label: str
    cite: str
    rows: tuple[tuple[str, str], ...]


def program_view(program: Program, language: str) -> ProgramView:
    """A program in a language, cleaned; values of secrets are hidden."""
    return ProgramView(
        label=clean(program.label),
        cite=clean(str(program.place)) if program.place else "",
        rows=tuple(
            (speak(label, language), speak(value, language)) for label, value in _rows(program)
        ),
    )


def _rows(program: Program) -> Iterable[tuple[Text, Text]]:
    software = verbatim(program.software)
    if program.engine:
        software = say("{software} with {engine}", software=software, engine=program.engine)
    yield say("software"), say("{first}, {next}", first=software, next=words.role(program.role))
    if program.command:
        yield say("command"), verbatim(" ".join(words.shown_command(program.command)))
    if program.devices is not None:
        yield say("devices"), verbatim(words.runs(program.devices) or "-")
    if program.processes is not None:
        yield say("processes"), verbatim(str(program.processes))
    if program.nodes is not None:
        yield say("nodes"), verbatim(str(program.nodes))
    sizes = _sizes(program)
    if sizes:
        yield say("parallel"), verbatim(sizes)
    for port in program.ports:
        yield say("port"), _port(port)
    for timeout in program.timeouts:
        span = words.duration(timeout.milliseconds) if timeout.milliseconds is not None else None
        given = f"{timeout.name}={timeout.value.text}"
        yield (
            say("time-out"),
            say("{given}: {time} for {reach}", given=given, time=span, reach=timeout.reaches)
            if span
            else say("{given} for {reach}", given=given, reach=timeout.reaches),
        )
    if program.environment:
        yield say("environment"), verbatim(_assignments(program.environment))
    if program.not_exported:
        yield say("not exported"), verbatim(_assignments(program.not_exported))
    if program.versions:
        pairs = (f"{name} {version}" for name, version in program.versions.items())
        yield say("versions"), verbatim(", ".join(pairs))
    if program.condition:
        yield say("only if"), verbatim(program.condition)


def _sizes(program: Program) -> str:
    parallel = program.parallel
    named = {
        "TP": parallel.tensor,
        "DP": parallel.data,
        "PP": parallel.pipeline,
        "EP": parallel.expert,
        "CP": parallel.context,
        "DCP": parallel.decode_context,
        **parallel.extra,
    }
    return ", ".join(f"{name} {size}" for name, size in named.items() if size is not None)


def _port(port: Port) -> Text:
    host = f"{port.host.text}:" if port.host else ""
    where = f"{host}{port.value.text}"
    if port.listens:
        listens = say("{port} ({purpose}), listens", port=where, purpose=port.purpose)
        if port.picked == "reserved-late":
            return say("{port}; chosen early and bound late", port=listens)
        return listens
    return say("{port} ({purpose}), connects", port=where, purpose=port.purpose)


def _assignments(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={words.shown_value(name, v.text)}" for name, v in values.items())
