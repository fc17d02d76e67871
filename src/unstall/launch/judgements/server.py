"""The server that a trainer connects to: is it the one that the plan starts?"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import LOCAL, Context, places, same_host, show
from unstall.model.plan import Judgement, Port, Value
from unstall.model.text import say
from unstall.programs.base import Launch


def judge(context: Context) -> Iterator[Judgement]:
    """Rows ``server host`` and ``server port`` for each program that connects to one."""
    for client in context.launches:
        wanted = [p for p in client.ports if p.purpose == "http" and not p.listens]
        if not wanted:
            continue
        servers = [
            (la, p)
            for la in context.servers_of(client)
            for p in la.ports
            if p.purpose == "http" and p.listens
        ]
        if not servers:
            yield _alone(client, wanted[0], others=len(context.launches) > 1)
            continue
        yield from _compare(client, wanted, servers)


def _alone(client: Launch, port: Port, *, others: bool) -> Judgement:
    host = port.host
    if host is not None and not (host.known and host.text in LOCAL):
        return Judgement(
            "server port",
            {client.label: show(port.value)},
            "ok",
            say(
                "{program} connects to a server on {host}, which this plan does not start: give "
                "its script too, and both are compared",
                program=client.label,
                host=host.text,
            ),
            places(port.value, host, client.place),
        )
    if not others:  # a trainer's script by itself: the server has one of its own
        return Judgement(
            "server port",
            {client.label: show(port.value)},
            "ok",
            say(
                "{program} connects to a server on port {port} of this machine, which this plan "
                "does not start: give its script too, and both are compared",
                program=client.label,
                port=port.value.text,
            ),
            places(port.value, client.place),
        )
    return Judgement(
        "server port",
        {client.label: show(port.value)},
        "suspicious",
        say(
            "{program} connects to a server on port {port} that nothing in this plan starts",
            program=client.label,
            port=port.value.text,
        ),
        places(port.value, client.place),
        None,
        ("weight-sync-failure",),
    )


def _compare(
    client: Launch, wanted: list[Port], servers: list[tuple[Launch, Port]]
) -> Iterator[Judgement]:
    hosts = {client.label: " ".join(show(p.host) for p in wanted)}
    ports = {client.label: " ".join(dict.fromkeys(show(p.value) for p in wanted))}
    for server, port in servers:
        hosts[server.label] = show(port.host)
        ports[server.label] = show(port.value)
    where_ports = places(*(p.value for p in wanted), *(p.value for _, p in servers))
    missing: list[Port] = []
    unsure = False
    for port in wanted:
        answers = [port.value.same_as(p.value) for _, p in servers]
        if True in answers:
            continue
        if None in answers:
            unsure = True
        else:
            missing.append(port)
    unheard = [la for la, p in servers if all(w.value.same_as(p.value) is False for w in wanted)]
    if missing:
        listening = ", ".join(dict.fromkeys(show(p.value) for _, p in servers))
        yield Judgement(
            "server port",
            ports,
            "conflict",
            say(
                "{program} connects to port {port}, but the server listens on {listening}",
                program=client.label,
                port=missing[0].value.text,
                listening=listening,
            ),
            where_ports or places(client.place),
            _corrected(client, servers[0][1].value),
            ("weight-sync-failure", "port-collision"),
        )
    elif unheard and not unsure:
        yield Judgement(
            "server port",
            ports,
            "suspicious",
            say(
                "{program} connects to no port of {server}",
                program=client.label,
                server=unheard[0].label,
            ),
            where_ports,
        )
    elif unsure:
        yield Judgement(
            "server port",
            ports,
            "suspicious",
            say("whether both are one port is decided only at run time"),
            where_ports,
        )
    else:
        yield Judgement(
            "server port",
            ports,
            "ok",
            say("{program} connects to the port that the server was given", program=client.label),
            where_ports,
            None,
            ("port-collision",),
        )
    yield _host(client, wanted, servers, hosts)


def _host(
    client: Launch,
    wanted: list[Port],
    servers: list[tuple[Launch, Port]],
    hosts: dict[str, str],
) -> Judgement:
    where = places(*(p.host for p in wanted), *(p.host for _, p in servers))
    asked = wanted[0].host
    server, bound = servers[0]
    local = asked is None or (asked.known and asked.text in LOCAL)
    if local and not same_host(client, server):
        return Judgement(
            "server host",
            hosts,
            "conflict",
            say(
                "{program} looks for the server on its own machine, but {server} runs on another",
                program=client.label,
                server=server.label,
            ),
            where or places(client.place),
            None,
            ("weight-sync-failure",),
        )
    only_local = (
        bound.host is not None
        and bound.host.known
        and bound.host.text in ("127.0.0.1", "localhost", "::1")
    )
    if only_local and not local and asked is not None and asked.known:
        return Judgement(
            "server host",
            hosts,
            "conflict",
            say(
                "{server} listens on {bound} only, which {asked} does not reach",
                server=server.label,
                bound=show(bound.host),
                asked=asked.text,
            ),
            where,
            "--host 0.0.0.0",
            ("weight-sync-failure",),
        )
    return Judgement(
        "server host",
        hosts,
        "ok",
        say("the address reaches the server")
        if local or (asked and asked.known)
        else say("the address is known only at run time"),
        where,
    )


def _corrected(client: Launch, value: Value) -> str | None:
    if not value.known:
        return None
    return f"--vllm_server_port {value.text}" if client.role == "trainer" else None
