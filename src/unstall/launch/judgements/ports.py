"""Ports: two listeners on one, and ports that another process may take first."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import (
    Context,
    listeners,
    places,
    share_network,
    show,
    together,
)
from unstall.model.plan import Judgement, Port
from unstall.model.text import say
from unstall.programs.base import Launch


def judge(context: Context) -> Iterator[Judgement]:
    """Conflicts first; then one row for each purpose."""
    bound = [
        (la, p)
        for la, p in listeners(context.launches)
        if not (p.value.known and p.value.text in ("0", ""))
    ]
    clashed: set[int] = set()
    for at, (one, first) in enumerate(bound):
        for other, second in bound[at + 1 :]:
            if one is other and first.purpose == second.purpose:
                continue
            if first.value.same_as(second.value) is not True:
                continue
            if one is not other and not (together(one, other) and share_network(one, other)):
                continue
            if one.job is not None and one.job == other.job:
                continue
            clashed |= {id(first), id(second)}
            yield _clash(one, first, other, second)
    for purpose in dict.fromkeys(p.purpose for _, p in bound):
        rows = [(la, p) for la, p in bound if p.purpose == purpose and id(p) not in clashed]
        if not rows:
            continue
        values = {la.label: "not set" for la in context.launches}
        values.update({la.label: show(p.value) for la, p in rows})
        late = [(la, p) for la, p in rows if p.picked == "reserved-late"]
        drawn = [(la, p) for la, p in rows if p.picked == "random"]
        where = places(*(p.value for _, p in rows))
        name = f"{purpose} port"
        if late:
            launch, port = late[0]
            why = say(
                "the port of {program} is asked of the system, closed, and bound only later: "
                "another "
                "process may take it in between",
                program=launch.label,
            )
            if launch.software == "ms-swift" and port.purpose == "http":
                why = say(
                    "{why}; ms-swift then takes the next free port without a word, and the trainer "
                    "asks on the old one",
                    why=why,
                )
            yield Judgement(
                name, values, "suspicious", why, where, _better(launch, port), ("port-collision",)
            )
        elif drawn:
            yield Judgement(
                name,
                values,
                "suspicious",
                say(
                    "the port of {program} is drawn at random without asking whether it is free",
                    program=drawn[0][0].label,
                ),
                where,
                None,
                ("port-collision",),
            )
        elif len(rows) > 1:
            distinct = len({p.value.text for _, p in rows}) == len(rows)
            yield Judgement(
                name,
                values,
                "ok",
                say("every listener has a port of its own")
                if distinct
                else say("the listeners with one number never run on one machine at the same time"),
                where,
                None,
                ("port-collision",),
            )
        else:
            launch, port = rows[0]
            if port.value.default:
                why = say(
                    "{program} takes its default {port}: a second job on this machine that does so "
                    "too collides with it",
                    program=launch.label,
                    port=port.value.text,
                )
            else:
                why = say("no other listener of this plan has it")
            yield Judgement(name, values, "ok", why, where, None, ("port-collision",))


def _better(launch: Launch, port: Port) -> str | None:
    if port.purpose == "rendezvous" and "torchrun" in launch.launchers:
        return "--rdzv_backend c10d --rdzv_endpoint localhost:0"
    return None


def _clash(one: Launch, first: Port, other: Launch, second: Port) -> Judgement:
    values = {one.label: show(first.value)}
    values[other.label if other is not one else f"{other.label} ({second.purpose})"] = show(
        second.value
    )
    soft = all("accelerate" in la.launchers for la in (one, other)) and one is not other
    if soft:
        why = say(
            "{one} and {other} both ask for port {port}; accelerate then looks for another one by "
            "itself on a single machine, which can fail when both start at once",
            one=one.label,
            other=other.label,
            port=first.value.text,
        )
    elif one is other:
        why = say(
            "{one} binds port {port} twice: as {first} and as {second}",
            one=one.label,
            port=first.value.text,
            first=first.purpose,
            second=second.purpose,
        )
    else:
        meet = first.purpose == second.purpose == "rendezvous"
        why = say(
            "{one} ({first}) and {other} ({second}) run at the same time on one machine and both "
            "bind "
            "port {port}: the later one fails with address already in use",
            one=one.label,
            other=other.label,
            first=first.purpose,
            second=second.purpose,
            port=first.value.text,
        )
        if meet:
            why = say("{why}, or joins the rendezvous of the other", why=why)
    return Judgement(
        f"{second.purpose} port",
        values,
        "suspicious" if soft else "conflict",
        why,
        places(first.value, second.value, one.place, other.place),
        _other_port(other, second),
        ("port-collision",),
    )


def _other_port(launch: Launch, port: Port) -> str | None:
    if not port.value.known or not port.value.text.isdigit():
        return None
    number = int(port.value.text) + 1
    if port.purpose == "http":
        return f"--port {number}"
    for launcher, flag in (
        ("accelerate", "--main_process_port"),
        ("deepspeed", "--master_port"),
        ("torchrun", "--master_port"),
    ):
        if launcher in launch.launchers:
            return f"{flag} {number}"
    return None
