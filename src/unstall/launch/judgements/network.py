"""Interface names and proxies."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import LOCAL, Context, places
from unstall.model.plan import Judgement
from unstall.model.text import say
from unstall.programs.base import Launch
from unstall.programs.variables import NO_PROXY, PROXIES


def judge(context: Context) -> Iterator[Judgement]:
    """Rows only where something is wrong."""
    for launch in context.launches:
        yield from _interfaces(launch)
        yield from _proxy(launch)


def _interfaces(launch: Launch) -> Iterator[Judgement]:
    gloo = launch.environment.get("GLOO_SOCKET_IFNAME")
    nccl = launch.environment.get("NCCL_SOCKET_IFNAME")
    several = launch.nodes is not None and launch.nodes > 1
    if (
        gloo is not None
        and gloo.known
        and (gloo.text[:1] in ("^", "=") or ("," in gloo.text and "^" in gloo.text))
    ):
        yield Judgement(
            "GLOO_SOCKET_IFNAME",
            {launch.label: gloo.text},
            "conflict",
            say(
                "gloo takes interface names as they are: the signs ^ and = are NCCL's, and no "
                "interface "
                "is called {name}",
                name=gloo.text,
            ),
            places(gloo),
            f"export GLOO_SOCKET_IFNAME={_plain(gloo.text)}",
            ("network-interface",),
        )
    for name, value in (("GLOO_SOCKET_IFNAME", gloo), ("NCCL_SOCKET_IFNAME", nccl)):
        if value is None or not value.known or not several:
            continue
        wanted = value.text.lstrip("=").split(",")
        if not value.text.startswith("^") and all(w in ("lo", "lo0") for w in wanted):
            yield Judgement(
                name,
                {launch.label: value.text},
                "conflict",
                say(
                    "{program} runs on several nodes, but the loopback interface reaches only its "
                    "own",
                    program=launch.label,
                ),
                places(value),
                f"export {name}=eth0",
                ("network-interface",),
            )
        elif (
            name == "NCCL_SOCKET_IFNAME"
            and any(w.startswith(("docker", "virbr")) for w in wanted)
            and (not value.text.startswith("^"))
        ):
            yield Judgement(
                name,
                {launch.label: value.text},
                "suspicious",
                say("a bridge of this machine's containers; other nodes do not reach it"),
                places(value),
                None,
                ("network-interface",),
            )


def _proxy(launch: Launch) -> Iterator[Judgement]:
    proxy = next(
        (n for n in PROXIES if n in launch.environment and launch.environment[n].text), None
    )
    asks = [p for p in launch.ports if not p.listens and p.purpose == "http"]
    if proxy is None or not asks:
        return
    host = asks[0].host.text if asks[0].host is not None else "127.0.0.1"
    exempt = next((launch.environment[n] for n in NO_PROXY if n in launch.environment), None)
    if exempt is not None and (
        not exempt.known
        or "*" in exempt.text
        or any(h and h in exempt.text for h in (host, "localhost" if host in LOCAL else ""))
    ):
        return
    yield Judgement(
        proxy,
        {launch.label: launch.environment[proxy].text},
        "conflict" if host in LOCAL else "suspicious",
        say(
            "{program} talks HTTP to {host}, and no_proxy does not name it: the requests go to the "
            "proxy, "
            "which does not know this machine's {host}",
            program=launch.label,
            host=host,
        ),
        places(launch.environment[proxy], exempt),
        "export no_proxy=" + ",".join(dict.fromkeys((host, "localhost", "127.0.0.1"))),
        ("driver-stall",),
    )


def _plain(text: str) -> str:
    """An interface name that gloo can take."""
    return text[1:].split(",")[0] if text.startswith("=") else "eth0"
