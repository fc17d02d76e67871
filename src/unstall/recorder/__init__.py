"""PyTorch Flight Recorder dumps: safe loading, matching across ranks, one ranked verdict.

    dumps = load(["rank0.pickle", "rank1.pickle"])
    verdict = analyse(dumps)
    verdict.suspects[0].rank, verdict.suspects[0].kind

Nothing here imports torch, and nothing in a dump is executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unstall.job import Job
    from unstall.model.findings import Finding
    from unstall.model.plan import Program
    from unstall.recorder.loading import Dumps, Progress
    from unstall.recorder.result import RecorderVerdict

__all__ = ["Dumps", "RecorderVerdict", "analyse", "combine", "findings", "load", "looks_like_dump"]


def __getattr__(name: str) -> Any:
    """The two types, imported when asked for: worker processes start without them."""
    if name == "Dumps":
        from unstall.recorder.loading import Dumps

        return Dumps
    if name == "RecorderVerdict":
        from unstall.recorder.result import RecorderVerdict

        return RecorderVerdict
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(
    sources: Iterable[Any], *, jobs: int | None = None, progress: Progress | None = None
) -> Dumps:
    """Load dumps; a bad file costs itself and is told, nothing is raised.

    Args:
        sources: paths, pairs of a name and a path or bytes, or objects with a ``name`` and with
            ``path``, ``data``, ``content`` or ``read()``. The name tells the rank.
        jobs: processes to use; by default as many as there are cores, 1 for small inputs.
        progress: called with how many are done and how many there are.
    """
    from unstall.recorder.loading import load as load_them

    return load_them(sources, jobs=jobs, progress=progress)


def looks_like_dump(name: str, head: bytes) -> bool:
    """Whether a file is a Flight Recorder dump, by its first 4096 bytes; an empty one by name."""
    from unstall.recorder.loading import looks_like_dump as looks

    return looks(name, head)


def analyse(dumps: Dumps) -> RecorderVerdict:
    """One verdict on loaded dumps.

    Several incidents or programs among the dumps are told apart; the verdict is that of the one
    with the strongest suspect (then of the largest), the others stand in ``others``.
    """
    from unstall.recorder.verdict import judge_all

    return judge_all(dumps.dumps)


def findings(verdict: RecorderVerdict, programs: Sequence[Program] = ()) -> list[Finding]:
    """Claims about causes for the diagnosis, strongest first; empty where nobody is suspected.

    Args:
        verdict: what :func:`analyse` returned.
        programs: programs known from logs and scripts; the claims name the one that fits.
    """
    from unstall.recorder.claims import findings as make

    return make(verdict, programs)


def combine(
    claims: Iterable[Finding], dumps: Dumps, jobs: Sequence[Job], chosen: Job
) -> list[Finding]:
    """The claims of a log's causes, joined with what dumps say.

    Args:
        claims: what the causes claim of the chosen job.
        dumps: loaded dumps; what the logs say of them (ranks, hosts, programs) is written into
            them.
        jobs: the attempts that the logs tell apart, in order.
        chosen: the one that is diagnosed.
    """
    from unstall.recorder.joining import combine as join

    return join(claims, dumps, jobs, chosen)
