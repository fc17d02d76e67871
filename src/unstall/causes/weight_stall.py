"""A stall that stands in the exchange of weights: by its group, its stack, or what came before."""

from __future__ import annotations

import re

from unstall import stacks
from unstall.causes.base import FAIR, STRONG, WEAK, ranks_text
from unstall.causes.reasons import went_on
from unstall.causes.weight_exchange import FUNCTION, ROUTE
from unstall.job import Blocked, Job
from unstall.model.facts import Fact, FailedStack, HttpExchange, Phase, ProcessStack
from unstall.model.text import Text, say

_GROUP = re.compile(r"weights?[_-]?(?:update|sync|exchange|transfer)|(?:update|sync)[_-]?weights?")
_GENERATES = re.compile(r"/(?:generate|infer|chat|completions|v1/)")

#: What shows trouble in the exchange: the fact, what it tells, its weight, its sort.
Sign = tuple[Fact, Text, float, str]


def stalled(job: Job) -> Blocked | None:
    """A time-out that stands in the exchange: by its group, its stack, or as the last heard."""
    if named := next((blocked for blocked in job.blocked if _of_group(blocked)), None):
        return named
    for blocked in job.blocked:
        ranks = set(blocked.stall.waiters)
        for stack in job.all(FailedStack):
            if stack.speaker.rank in ranks and any(
                FUNCTION.search(function) for function, _, _ in stack.frames
            ):
                return blocked
    lead = job.lead
    if lead is not None and _exchange_open(job) is not None:
        return lead
    return None


def _exchange_open(job: Job) -> Fact | None:
    """The last request or phase of the exchange, if nothing was generated or trained after it."""
    requests = [e for e in job.all(HttpExchange) if ROUTE.search(e.url)]
    phases = [p for p in job.all(Phase) if p.kind == "weight-sync"]
    last = max([*requests, *(p for p in phases if not p.finished)], key=_at, default=None)
    if last is None:
        return None
    later = [
        *(e for e in job.all(HttpExchange) if e.status == 200 and _GENERATES.search(e.url)),
        *(p for p in phases if p.finished),
        *(p for p in job.all(Phase) if p.kind in ("generate", "train", "save", "evaluate")),
    ]
    if any(job.chronology.before(last, other) is True for other in later):
        return None
    return None if went_on(job, last) is not None else last


def _at(fact: Fact) -> tuple[str, int]:
    return (fact.place.source, fact.place.line)


def of_stall(job: Job, blocked: Blocked) -> list[Sign]:
    """What shows that a time-out stands in the exchange."""
    found: list[Sign] = _of_group(blocked)
    for stack in job.all(FailedStack):
        inside = next((f for f, _, _ in stack.frames if FUNCTION.search(f)), None)
        if inside is not None and stack.speaker.rank in blocked.stall.waiters:
            found.append(
                (
                    stack,
                    say(
                        "the collective that timed out was called from {function}, the exchange of "
                        "weights",
                        function=inside,
                    ),
                    STRONG + FAIR,
                    "frames",
                )
            )
            break
    last = _exchange_open(job)
    if last is not None:
        found.append(
            (
                last,
                say(
                    "the last thing heard before the time-out is the exchange of weights: {quote}",
                    quote=last.quote[:120],
                ),
                FAIR + WEAK,
                "last",
            )
        )
        if blocked.absent and 0 in blocked.absent:
            found.append(
                (
                    blocked.stall.first,
                    say(
                        "{ranks} is missing in the trainer's collective: the rank that hands the "
                        "weights over waits for the server",
                        ranks=ranks_text((0,)),
                    ),
                    FAIR + WEAK,
                    "rank 0",
                )
            )
    return found


def of_stacks(job: Job) -> list[Sign]:
    """Stacks: the trainer waits in the exchange, and no worker of the server is in it."""
    sending: list[ProcessStack] = []
    receiving: list[ProcessStack] = []
    elsewhere: list[ProcessStack] = []
    for stack in job.all(ProcessStack):
        main = stacks.main_thread(stack)
        if main is None:
            continue
        wait, who = stacks.wait_of(main), stacks.identify(stack)
        inside = any(FUNCTION.search(frame.function) for frame in main.frames[:40])
        if who.role in ("rollout", "inference"):
            (receiving if inside else elsewhere).append(stack)
        elif inside or "weight-sync" in wait.keys:
            sending.append(stack)
    if sending and elsewhere and not receiving:
        return [
            (
                sending[0],
                say("the trainer waits in the exchange of weights (stack)"),
                STRONG,
                "trainer stack",
            ),
            (
                elsewhere[0],
                say("no process of the server is in the exchange (stacks): only one side is there"),
                STRONG,
                "server stack",
            ),
        ]
    if (
        receiving
        and not sending
        and any(stacks.identify(s).role == "trainer" for s in job.all(ProcessStack))
    ):
        return [
            (
                receiving[0],
                say("the server waits in the exchange of weights, and no trainer rank sends"),
                STRONG + FAIR,
                "server stack",
            )
        ]
    return []


def _of_group(blocked: Blocked) -> list[Sign]:
    """That a time-out stands in a group with the name of an exchange of weights.

    SGLang's default is ``weight_update_group`` (``managers/io_struct.py``, 0.5); trainers give the
    group that they make with an engine like names.
    """
    for one in blocked.stall.waiters.values():
        for name in (one.group.description, one.group.guid):
            if name is not None and _GROUP.search(name):
                text = say("the group that waited is the exchange's: {name}", name=name)
                return [(one, text, STRONG + FAIR, "frames")]
    return []
