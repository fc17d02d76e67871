"""One rollout server with data parallel N as N servers, in the text of a launch script.

What a diagnosis says of a desynchronised server (independent engines) is more than a change of
flags: each server gets its share of the devices and a port of its own, and the trainer the list of
them. Source: ms-swift 3.10.3 ``swift/trainers/arguments.py`` (``vllm_server_host`` and
``vllm_server_port`` are lists of equal length), ``swift/trainers/rlhf_trainer/vllm_client.py`` (it
waits for each server, divides the requests among them and exchanges weights with server ``i`` on
port 51216 + ``i``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts import edit, places
from unstall.experiments.scripts.changes import Edits
from unstall.experiments.scripts.places import Cut, Spot
from unstall.model.plan import Plan, Program
from unstall.model.text import Text, say
from unstall.programs.swift.launch import DATA_PARALLEL

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?\Z", re.ASCII)


class UnableError(LabError):
    """The script does not give all that is needed; the text says what is missing."""


def concerns(program: Program | None, unset: tuple[str, ...]) -> bool:
    """Whether a fix that takes these flags away means several servers instead of one.

    TRL's trainer takes one server only; its fixes say so.
    """
    return (
        program is not None
        and program.software in ("ms-swift", "vllm")
        and any("data_parallel_size" in flag for flag in unset)
        and (program.parallel.data or 0) > 1
    )


def several(text: str, plan: Plan, server: Program) -> str:
    """The script with a server for each of an engine's data-parallel ranks.

    Raises:
        UnableError: the script does not give all that is needed.
    """
    if server.software != "ms-swift":
        raise UnableError(
            say("several servers need a load balancer before them, which it does not start")
        )
    engines = server.parallel.data or 1
    data = text.encode()
    spot = _spot(data, server)
    start, end = _statement(spot)
    shares = _shares(server, engines)
    trainer = _trainer(plan)
    of_trainer = _spot(data, trainer)
    names = _ports(spot, server, engines, plan)
    made = [
        _one(data, (start, end), spot, server, number, shares[number], names)
        for number in range(engines)
    ]
    first = start
    while first > 0 and data[first - 1 : first] in (b" ", b"\t"):
        first -= 1
    between = b"\n" + data[first:start]
    cuts: list[Cut] = [(start, end, between.join(made))]
    cuts += _lists(of_trainer, trainer, server, names)
    for begin, stop, new in sorted(cuts, reverse=True):
        data = data[:begin] + new + data[stop:]
    return data.decode()


def checked(text: str, before: Plan, server: Program, shortened: Sequence[Edits]) -> str:
    """The changed script, with its time-outs shortened, if its plan is what was meant.

    Raises:
        UnableError: it is not.
    """
    place = server.place
    name = place.source if place is not None else "-"
    after = edit.plan_of_text(text, name)
    servers = [p for p in after.programs if p.role == "rollout"]
    devices = [d for p in servers for d in p.devices or ()]
    trainers = [p for p in after.programs if p.role == "trainer"]
    listed = [p.flags["vllm_server_port"].text for p in trainers if "vllm_server_port" in p.flags]
    good = (
        len(servers) == server.parallel.data
        and all(DATA_PARALLEL not in p.flags or p.flags[DATA_PARALLEL].default for p in servers)
        and sorted(devices) == sorted(server.devices or ())
        and len({p.flags["port"].text for p in servers[1:] if "port" in p.flags})
        == len(servers) - 1
        and len(after.programs) == len(before.programs) + len(servers) - 1
        and bool(listed)
    )
    if not good:
        raise UnableError(say("the changed script would not start what is meant"))
    return edit.apply(text, after, shortened) if shortened else text


def _spot(data: bytes, program: Program) -> Spot:
    found = places.spots(data, program)
    if not found or found[0].depth or program.command[0] not in _words(found[0]):
        raise UnableError(
            say("the command of {program} is no plain command of the script", program=program.label)
        )
    return found[0]


def _words(spot: Spot) -> list[str]:
    return [spot.text(word) for word in spot.words()]


def _statement(spot: Spot) -> tuple[int, int]:
    """The server's whole statement, from its assignments to ``&``."""
    node: Node = spot.node
    while node.parent is not None and node.parent.type in ("redirected_statement", "pipeline"):
        node = node.parent
    after = node.next_sibling
    if after is None or spot.data[after.start_byte : after.end_byte] != b"&":
        raise UnableError(say("the script does not start the server in the background"))
    return node.start_byte, after.end_byte


def _shares(server: Program, engines: int) -> list[str]:
    devices = server.devices
    if devices is None or len(devices) < engines or len(devices) % engines:
        raise UnableError(
            say("the server's devices are not known or cannot be divided by {count}", count=engines)
        )
    size = len(devices) // engines
    return [",".join(map(str, devices[n * size : (n + 1) * size])) for n in range(engines)]


def _trainer(plan: Plan) -> Program:
    trainers = [
        p
        for p in plan.programs
        if p.role == "trainer" and "vllm_server_port" in p.flags and p.software == "ms-swift"
    ]
    servers = [p for p in plan.programs if p.role == "rollout"]
    if len(trainers) != 1 or len(servers) != 1:
        raise UnableError(say("the script does not start one server and one trainer that names it"))
    flags = trainers[0].flags
    if "vllm_server_base_url" in flags or " " in flags["vllm_server_port"].text.strip():
        raise UnableError(say("the trainer does not name one server by its host and port"))
    return trainers[0]


def _ports(spot: Spot, server: Program, engines: int, plan: Plan) -> list[str]:
    """Each server's port, as it is written; the first is the one that is there."""
    port = server.flags.get("port")
    written = _value(spot, "port") or (port.text if port is not None else "8000")
    if written.isdigit() and len(written) < 6:
        taken = {p.value.text for one in plan.programs for p in one.ports}
        free = (str(n) for n in range(int(written) + 1, 65536) if str(n) not in taken)
        return [written, *(next(free) for _ in range(engines - 1))]
    if (found := _VARIABLE.match(written.strip("\"'"))) is not None:
        return [written, *(f"$(({found[1]} + {n}))" for n in range(1, engines))]
    raise UnableError(say("the server's port is an expression: {port}", port=written))


def _value(spot: Spot, flag: str) -> str | None:
    """A flag's value as it is written."""
    words = _words(spot)
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.startswith("--") and places.canonical(name) == flag:
            return value if equals else words[number + 1] if number + 1 < len(words) else None
    return None


def _one(
    data: bytes,
    statement: tuple[int, int],
    spot: Spot,
    server: Program,
    number: int,
    devices: str,
    ports: list[str],
) -> bytes:
    """The statement of one server."""
    gone = places.unset_flags(spot, [DATA_PARALLEL], server)
    if gone is None:
        raise UnableError(
            say("--{flag} does not stand in the server's own command", flag=DATA_PARALLEL)
        )
    cuts = [*gone, *places.set_variable(spot, "CUDA_VISIBLE_DEVICES", devices)]
    if number:
        cuts += places.put_flag(spot, "port", ports[number], server)
        cuts += _own_logs(spot, number + 1)
    start, end = statement
    text = data[start:end]
    for begin, stop, new in sorted(dict.fromkeys(cuts), reverse=True):
        if not start <= begin <= stop <= end:
            raise UnableError(say("the server's statement cannot be repeated as it is"))
        text = text[: begin - start] + new + text[stop - start :]
    return text


def _own_logs(spot: Spot, number: int) -> list[Cut]:
    """A log of its own for a further server: two that write into one file overwrite each other."""
    parent = spot.node.parent
    if parent is None or parent.type != "redirected_statement":
        return []
    return [
        (word.end_byte, word.end_byte, f".{number}".encode())
        for redirect in parent.named_children
        if redirect.type == "file_redirect"
        for word in redirect.named_children
        if word.type == "word" and not spot.text(word).startswith(("/dev/", "&"))
    ]


def _lists(spot: Spot, trainer: Program, server: Program, ports: list[str]) -> list[Cut]:
    """The trainer's lists of hosts and ports."""
    port = _value(spot, "vllm_server_port") or "8000"
    same = server.flags.get("port")
    named = trainer.flags["vllm_server_port"]
    if same is not None and not same.default and named.same_as(same) is False:
        raise UnableError(say("the trainer names another port than the server's"))
    host = _value(spot, "vllm_server_host") or "127.0.0.1"
    return [
        *places.put_flag(spot, "vllm_server_host", " ".join([host] * len(ports)), trainer),
        *places.put_flag(spot, "vllm_server_port", " ".join([port, *ports[1:]]), trainer),
    ]


def as_one_engine(fix: Text, count: int, why: Text) -> Text:
    """What the change of flags alone does, where the script cannot be given more servers."""
    return say(
        "{fix} - in this script only as one engine instead of {count}, on its share of the "
        "devices, which costs throughput: {why}",
        fix=fix,
        count=count,
        why=why,
    )
