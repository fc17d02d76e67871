"""What the log of a rollout server says beside its trainer: busy, idle, stuck, dead."""

from __future__ import annotations

import msgspec

from unstall.causes.base import FAIR, STRONG, evidence
from unstall.job import Job
from unstall.model.facts import EngineLoad, EngineNotice, Fact, HttpExchange, PythonException
from unstall.model.findings import Evidence
from unstall.model.text import say

SERVING = ("rollout", "inference", "reward")


class Server(msgspec.Struct, frozen=True):
    """The last that an inference server told of itself.

    Attributes:
        busy: it had requests and produced tokens.
        stuck: it had requests and produced nothing.
        idle: none of its engines had a request.
        dead: an engine or worker of it died, or a request failed by an exception.
        last: its last statistics.
    """

    busy: EngineLoad | None = None
    stuck: EngineLoad | None = None
    idle: EngineLoad | None = None
    dead: Fact | None = None
    last: EngineLoad | None = None


def server(job: Job) -> Server:
    """What the statistics of all engines say at the end of the log."""
    loads = job.all(EngineLoad)
    dead: Fact | None = next(
        (n for n in job.all(EngineNotice) if n.kind in ("engine-dead", "worker-died")), None
    )
    if dead is None:
        dead = next((e for e in job.all(PythonException) if _of_server(job, e)), None)
    if not loads:
        return Server(dead=dead)
    newest: dict[tuple[str, int | None, str | None], EngineLoad] = {}
    for load in loads:
        newest[(load.place.source, load.engine, load.speaker.name)] = load
    current = list(newest.values())
    last = max(current, key=lambda load: load.place)
    busy = next((x for x in current if (x.running or 0) > 0 and (x.throughput or 0) > 0), None)
    stuck = next((x for x in current if (x.running or 0) > 0 and x.throughput == 0), None)
    nobody = all((x.running or 0) == 0 and (x.waiting or 0) == 0 for x in current)
    return Server(busy, stuck, last if nobody else None, dead, last)


def _of_server(job: Job, exception: PythonException) -> bool:
    owner = job.owner(exception)
    return owner is not None and owner.role in SERVING


def server_evidence_against(seen: Server) -> list[Evidence]:
    """That the server was not merely slow: dead, or stuck with requests."""
    found: list[Evidence] = []
    if seen.dead is not None:
        found.append(
            evidence(
                say("the server itself failed: {quote}", quote=seen.dead.quote[:160]),
                STRONG + FAIR,
                seen.dead,
            )
        )
    if seen.stuck is not None:
        found.append(
            evidence(
                say(
                    "an engine had {running} running requests and produced nothing: stuck, not "
                    "slow",
                    running=seen.stuck.running or 0,
                ),
                STRONG + STRONG,
                seen.stuck,
            )
        )
    return found


def client_timeouts(job: Job) -> list[HttpExchange]:
    """Requests that the client gave up waiting for."""
    return [one for one in job.all(HttpExchange) if one.error == "timeout"]
