"""PyTorch Flight Recorder dumps: safe loading, matching across ranks, one ranked verdict.

    dumps = load(["rank0.pickle", "rank1.pickle"])
    verdict = analyse(dumps)
    verdict.suspects[0].rank, verdict.suspects[0].kind

Nothing here imports torch, and nothing in a dump is executed.
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.findings import Finding
from unstall.model.plan import Program
from unstall.model.text import say
from unstall.recorder.collection import sort_into_incidents
from unstall.recorder.load import Dumps, load, looks_like_dump
from unstall.recorder.result import RecorderVerdict

__all__ = ["Dumps", "RecorderVerdict", "analyse", "findings", "load", "looks_like_dump"]


def analyse(dumps: Dumps) -> RecorderVerdict:
    """One verdict on loaded dumps.

    Several incidents or programs among the dumps are told apart; the verdict is that of the one
    with the strongest suspect (then of the largest), the others stand in ``others``.
    """
    import msgspec

    from unstall.recorder.verdict import judge

    incidents, notes = sort_into_incidents(dumps.dumps)
    if not incidents:
        return RecorderVerdict(
            verdict="inconclusive",
            summary=say("None of the dumps could be read."),
            notes=tuple(notes),
        )
    verdicts = [judge(incident) for incident in incidents]
    verdicts.sort(
        key=lambda v: (-(v.suspects[0].score if v.suspects else 0.0), not v.front, -len(v.ranks))
    )
    first = verdicts[0]
    return msgspec.structs.replace(first, notes=(*notes, *first.notes), others=tuple(verdicts[1:]))


def findings(verdict: RecorderVerdict, programs: Sequence[Program] = ()) -> list[Finding]:
    """Claims about causes for the diagnosis, strongest first; empty where nobody is suspected.

    Args:
        verdict: what :func:`analyse` returned.
        programs: programs known from logs and scripts; the claims name the one that fits.
    """
    from unstall.recorder.claims import findings as make

    return make(verdict, programs)
