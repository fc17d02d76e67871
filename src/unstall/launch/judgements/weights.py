"""The port over which a trainer hands its weights to a server."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, same_host, show, together
from unstall.model.plan import Judgement
from unstall.model.text import say


def judge(context: Context) -> Iterator[Judgement]:
    """One row for all weight-exchange ports."""
    having = [
        (la, p) for la in context.launches for p in la.ports if p.purpose == "weight-exchange"
    ]
    if not having:
        return
    values = {la.label: "not set" for la in context.launches}
    for launch, port in having:
        text = show(port.value)
        old = values[launch.label]
        values[launch.label] = text if old == "not set" else f"{old} {text}"
    for at, (one, first) in enumerate(having):
        for other, second in having[at + 1 :]:
            if (
                one is other
                or not same_host(one, other)
                or first.value.same_as(second.value) is not True
            ):
                continue
            if not together(one, other):
                continue
            yield Judgement(
                "weight-exchange port",
                values,
                "conflict",
                say(
                    "{one} and {other} hand their weights over on the same port {port} of one "
                    "machine: "
                    "the second server cannot bind it, or joins the first one's exchange",
                    one=one.label,
                    other=other.label,
                    port=first.value.text,
                ),
                places(first.value, second.value, one.place, other.place),
                f"--vllm_server_group_port {int(second.value.text) + 10}"
                if second.value.text.isdigit()
                else None,
                ("weight-sync-failure", "port-collision"),
            )
            return
    launch, port = having[0]
    taken = [
        la
        for la in context.launches
        for p in la.ports
        if p.listens and p.value.same_as(port.value) is True and p.purpose != "weight-exchange"
    ]
    if taken:
        yield Judgement(
            "weight-exchange port",
            values,
            "conflict",
            say(
                "{other} listens on port {port}, over which {program} hands its weights to the "
                "server",
                other=taken[0].label,
                port=port.value.text,
                program=launch.label,
            ),
            places(port.value, launch.place, taken[0].place),
            None,
            ("weight-sync-failure", "port-collision"),
        )
        return
    fixed = port.value.default
    yield Judgement(
        "weight-exchange port",
        values,
        "ok",
        say(
            "one trainer uses it; it is a fixed default of {software} ({port}), bound in the "
            "server's "
            "first worker, so a second job on this machine would collide there",
            software=launch.software,
            port=port.value.text,
        )
        if fixed
        else say("one trainer uses it"),
        places(port.value, launch.place),
        None,
        ("port-collision",),
    )
