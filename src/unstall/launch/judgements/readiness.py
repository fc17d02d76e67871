"""``sleep`` in the place of a question whether the server is ready."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places
from unstall.model.plan import Judgement, Port
from unstall.model.text import say
from unstall.programs.base import Launch


def judge(context: Context) -> Iterator[Judgement]:
    """A row where a script sleeps between a server and the program that needs it."""
    for client in context.launches:
        if not any(not p.listens for p in client.ports):
            continue
        for server in context.servers_of(client):
            if server.call.script != client.call.script or not server.call.background:
                continue
            between = [
                (amount, place)
                for script, order, amount, place in context.sleeps
                if script == client.call.script and server.call.order < order < client.call.order
            ]
            if not between:
                continue
            amount, place = between[-1]
            port = next((_written(server, p) for p in server.ports if p.purpose == "http"), "8000")
            wait = next((t for t in client.timeouts if t.reaches == "server start"), None)
            if wait is not None and wait.milliseconds is not None:
                why = say(
                    "{client} waits {amount} s for {server} whether it is ready or not; it then "
                    "asks for "
                    "up to {patience} s itself ({name}), so this fails only where the start takes "
                    "longer "
                    "than both",
                    client=client.label,
                    amount=amount,
                    server=server.label,
                    patience=wait.milliseconds // 1000,
                    name=wait.name,
                )
            else:
                why = say(
                    "{client} starts {amount} s after {server}, whether it is ready or not",
                    client=client.label,
                    amount=amount,
                    server=server.label,
                )
            yield Judgement(
                "readiness",
                {server.label: "started", client.label: f"sleep {amount}"},
                "suspicious",
                why,
                places(place, server.place, client.place),
                f"until curl -sf http://127.0.0.1:{port}/health/; do sleep 1; done",
            )
            break


def _written(server: Launch, port: Port) -> str:
    """A port as the script can write it: its number, or the variable that holds it."""
    if port.value.known:
        return port.value.text
    for name, value in server.environment.items():
        if value.same_as(port.value):
            return f"${name}"
    return port.value.text
