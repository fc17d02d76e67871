"""Ranks that a script starts one by one, against the number of ranks that it tells them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from unstall.launch.judgements.context import LOCAL, Context, places
from unstall.launch.state import MOST_ROUNDS
from unstall.model.plan import Judgement, Value
from unstall.model.text import say
from unstall.programs.base import Launch

_Key = tuple[str, str, str]


def judge(context: Context) -> Iterator[Judgement]:
    """A row where fewer ranks are started than ``WORLD_SIZE`` counts.

    Only of plain processes that get ``RANK`` and ``WORLD_SIZE`` from the script (``env://``,
    torch/distributed/rendezvous.py): the store waits for as many as it counts. Where all of them
    meet at this machine's own address, nobody else can come.
    """
    jobs: dict[_Key, list[Launch]] = defaultdict(list)
    for launch in context.launches:
        size, rank = launch.environment.get("WORLD_SIZE"), launch.environment.get("RANK")
        if size is None and rank is None:
            continue
        if launch.launchers or launch.host is not None or not _number(size) or not _number(rank):
            return  # some of the ranks are unknown here
        assert size is not None  # noqa: S101 - for the type checker
        meeting = [launch.environment.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")]
        jobs[(size.text, *(v.text if v is not None else "" for v in meeting))].append(launch)  # type: ignore[index]
    for (size_text, address, _), launches in jobs.items():
        ranks = sorted({int(la.environment["RANK"].text) for la in launches})
        count = int(size_text)
        if not 2 <= len(ranks) < min(count, MOST_ROUNDS) or ranks[-1] >= count:
            continue
        local = bool(address) and address in LOCAL
        yield Judgement(
            "WORLD_SIZE",
            {la.label: size_text for la in launches},
            "conflict" if local else "suspicious",
            say(
                "{count} ranks are counted and the script starts {started} of them: they wait for "
                "the others until the store's time-out, and at {address} none from another "
                "machine can come",
                count=count,
                started=len(ranks),
                address=address,
            )
            if local
            else say(
                "{count} ranks are counted and the script starts {started} of them: unless the "
                "others are started elsewhere, these wait for them until the store's time-out",
                count=count,
                started=len(ranks),
            ),
            places(launches[0].environment["WORLD_SIZE"], *(la.place for la in launches[:4])),
            f"WORLD_SIZE={len(ranks)}",
            ("rendezvous-environment",),
        )


def _number(value: Value | None) -> bool:
    return value is not None and value.known and value.text.isdigit() and len(value.text) < 7
