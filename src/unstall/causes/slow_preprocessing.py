"""``slow-preprocessing``: one rank prepares data while the others wait in the first collective."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import apart_evidence
from unstall.causes.apart import stands_still
from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
    ranks_text,
)
from unstall.causes.reasons import (
    boilerplate,
    died_before,
    network_before,
    no_network_trouble,
)
from unstall.causes.scene import Scene, outlasts, scenes, waits_elsewhere
from unstall.job import Job
from unstall.model.facts import (
    CollectiveTimeout,
    NcclInit,
    Phase,
    Progress,
    PythonException,
    StoreFailure,
    TrainingStep,
)
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

PREPARING = ("tokenize", "load-data")


def examine(job: Job) -> Iterable[Finding]:
    """A claim for the first wait that is a group's first collective, or for a late unique id."""
    told = scenes(job)
    for scene in told:
        if not scene.few_missing and not scene.seen.split:
            continue
        if scene.blocked is not None and scene.blocked.everyone_waits:
            continue
        finding = _waited(job, scene)
        if finding is not None:
            yield finding
            return
    late = [f for f in job.all(StoreFailure) if f.kind in ("unique-id", "wait-timeout")]
    bars = [bar for bar in job.all(Progress) if _prepares(bar)]
    unfinished = next((bar for bar in reversed(bars) if not _ended(bar)), None)
    if late and unfinished is not None and not job.blocked:
        yield _unpublished(job, late[0], unfinished)
    elif late and not bars and not job.blocked:
        asked = _asked_first(job, late[0])
        if asked is not None:
            yield _unpublished(job, late[0], asked)
    elif (held := _held_first(job)) is not None:
        yield _gave_up(job, *held)


#: Functions that let one rank prepare the data set while the others wait in a barrier.
_FIRST = ("main_process_first", "local_main_process_first", "_goes_first", "global_main_first")


def _asked_first(job: Job, late: StoreFailure) -> PythonException | None:
    """The traceback of a rank that gave up in such a function's barrier."""
    for error in job.all(PythonException):
        near = 0 <= late.place.line - error.place.line <= 60
        own = near and error.place.source == late.place.source and "store->get" in error.message
        if own and any(frame.function in _FIRST for frame in error.frames):
            return error
    return None


def _held_first(job: Job) -> tuple[CollectiveTimeout, PythonException] | None:
    """An Ascend rank's time-out and its traceback in such a function's barrier.

    There the waiting host raises itself, where NCCL's watchdog ends the process without a frame.
    """
    for error in job.all(PythonException):
        if not any(frame.function in _FIRST for frame in error.frames):
            continue
        for late in job.all(CollectiveTimeout):
            near = -60 <= late.place.line - error.place.line <= 60
            if late.backend == "hccl" and near and late.place.source == error.place.source:
                return late, error
    return None


def _gave_up(job: Job, late: CollectiveTimeout, error: PythonException) -> Finding:
    ranks = tuple(r for r in (error.speaker.rank, late.speaker.rank) if r is not None)[:1]
    return Finding(
        cause="slow-preprocessing",
        summary=say(
            "The main process was still preparing data when a rank gave up waiting for it."
        ),
        support=(
            evidence(
                say(
                    "the rank that gave up stands in a barrier that lets the main process prepare "
                    "the data first"
                ),
                STRONG,
                error,
            ),
            evidence(say("its device waited in a collective that did not end in time"), FAIR, late),
        ),
        against=tuple(died_before(job, None)),
        fixes=(
            Fix(
                say(
                    "a longer wait on Ascend: HCCL_CONNECT_TIMEOUT (up to 7200 s) and "
                    "HCCL_EXEC_TIMEOUT (up to 17340 s); the ddp_timeout of the launcher does not "
                    "reach HCCL"
                )
            ),
            *_fixes(job.trainer),
        ),
        next_step=say("compare the time that preparation takes with the time-out"),
        origin=origin_of(job.trainer, (0,) if ranks and ranks != (0,) else ()),
        waiting_ranks=ranks,
        exonerated=tuple(no_network_trouble(job)),
        excerpts=(excerpt(late, "messenger"), excerpt(error, "messenger")),
        ceiling=0.85,
    )


def _waited(job: Job, scene: Scene) -> Finding | None:
    stall = scene.blocked.stall if scene.blocked is not None else None
    apart = apart_evidence(scene.seen, ("prepare", "load"), DECISIVE)
    starting = stall.is_first_collective if stall is not None else scene.told == "barrier"
    later = False
    if stall is not None and not starting and stall.looks_like_barrier:
        # each data set has a barrier of its own: the second one is not the group's first operation
        starting = later = not job.all(TrainingStep) and any(
            _prepares(bar) and not _ended(bar) and outlasts(bar, scene)
            for bar in last_before_or_during(job, scene)
        )
    bars = [bar for bar in last_before_or_during(job, scene) if _prepares(bar)] if starting else []
    # bars of several processes interleave: the one that ran while the others waited tells most
    bars.sort(key=lambda bar: _ended(bar) or not outlasts(bar, scene))
    phases = _phases(job, scene) if starting else []
    if not bars and not phases and not apart:
        return None
    support: list[Evidence] = [*scene.support]
    if stall is not None and starting:
        support.append(
            evidence(
                say(
                    "it is the first collective of the group, a barrier or the like: ranks meet "
                    "there after preparing data"
                )
                if stall.looks_like_barrier and not later
                else say(
                    "it is a barrier or the like before any training step: ranks meet there after "
                    "preparing data"
                )
                if later
                else say(
                    "it is the first collective of the group: nothing was ever completed in it"
                ),
                FAIR if stall.looks_like_barrier and _busy(scene, bars, phases) else WEAK,
                stall.first,
            )
        )
    against: list[Evidence] = [
        *died_before(job, scene.blocked),
        *waits_elsewhere(job, scene),
        *network_before(job, scene.first),
        *stands_still(job, scene.seen),
    ]
    support.extend(apart)
    if bars:
        support.extend(_bar_evidence(scene, bars[0]))
    elif phases:
        support.append(
            evidence(
                say(
                    "the last phase told before the wait is data preparation: {quote}",
                    quote=phases[0].quote[:120],
                ),
                WEAK if phases[0].finished else FAIR,
                phases[0],
            )
        )
    complete = next((init for init in job.all(NcclInit) if init.stage == "complete"), None)
    if complete is not None:
        against.append(
            evidence(
                say("communicators were complete on the ranks that waited"),
                WEAK,
                complete,
            )
        )
    missing = scene.missing if scene.few_missing else ()
    return Finding(
        cause="slow-preprocessing",
        summary=_summary(missing, starting, later),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(scene.program),
        next_step=say(
            "compare the time that preparation takes with the time-out; a stack of the missing "
            "rank (py-spy dump --pid PID) shows it in the data-set code"
        ),
        origin=origin_of(scene.program, missing if len(missing) <= 2 else (), group=scene.group),
        collective=scene.collective,
        waiting_ranks=scene.waiters,
        started_at=scene.began,
        exonerated=(
            *no_network_trouble(job),
            *boilerplate(job),
            Exonerated(
                "peer-to-peer-blocked",
                say("the missing rank never entered the collective, so its transport was not used"),
                (),
            ),
        ),
        excerpts=(*scene.excerpts, *(excerpt(bar, "origin") for bar in bars[:2])),
        # one set of stacks does not tell a slow loader from a stuck one
        ceiling=0.97 if scene.told != "stacks" or bars or phases else 0.68,
    )


def _busy(scene: Scene, bars: list[Progress], phases: list[Phase]) -> bool:
    """Whether preparation is known to have gone on for as long as the others waited."""
    if bars:
        return _ended(bars[0]) or outlasts(bars[0], scene)
    return bool(phases)


def _summary(missing: tuple[int, ...], starting: bool, later: bool) -> Text:
    if not starting:
        return say(
            "{ranks} was still preparing its next batch while the others waited for it.",
            ranks=ranks_text(missing) if missing else say("one rank"),
        )
    if len(missing) == 1:
        return (
            say(
                "{ranks} was still preparing data when the others' first collective timed out.",
                ranks=ranks_text(missing),
            )
            if not later
            else say(
                "{ranks} was still preparing data when the others' barrier timed out.",
                ranks=ranks_text(missing),
            )
        )
    return say("One rank was still preparing data when the others' first collective timed out.")


def _phases(job: Job, scene: Scene) -> list[Phase]:
    """Data preparation as the last thing told before the wait, by none of those that waited."""
    before = [
        phase
        for phase in job.all(Phase)
        if job.chronology.before(phase, scene.first) is not False
        and (phase.speaker.rank is None or phase.speaker.rank not in scene.waiters)
    ]
    before.sort(key=lambda phase: phase.place, reverse=True)
    if not before or before[0].kind not in (*PREPARING, "init"):
        return []
    return [phase for phase in before if phase.kind in PREPARING][:1]


def last_before_or_during(job: Job, scene: Scene) -> list[Progress]:
    """Bars up to the last time-out of the wait, the latest first: lines of ranks interleave.

    A bar of a rank that waits itself tells nothing of the missing one.
    """
    facts = list(scene.blocked.stall.waiters.values()) if scene.blocked is not None else []
    last = max((fact.place for fact in facts), default=scene.first.place)
    bars = [
        bar
        for bar in job.all(Progress)
        if (bar.place.source != last.source or bar.place.line <= last.line)
        and (bar.speaker.rank is None or bar.speaker.rank not in scene.waiters)
    ]
    return sorted(bars, key=lambda bar: (not _ended(bar), bar.place), reverse=True)


def _ended(bar: Progress) -> bool:
    """Whether the bar had reached its total."""
    if bar.total is None:
        return bar.done is not None and bar.remaining is None
    return bar.done is not None and bar.done >= bar.total


def _bar_evidence(scene: Scene, bar: Progress) -> list[Evidence]:
    found: list[Evidence] = []
    shown = bar.label.strip() or bar.quote[:60]
    if not _ended(bar):
        found.append(
            evidence(
                say(
                    "“{label}” stood at {percent} % after {elapsed} s when the time-out fired",
                    label=shown[:80],
                    percent=_percent(bar),
                    elapsed=_seconds(bar.elapsed),
                ),
                STRONG if outlasts(bar, scene) else WEAK,
                bar,
            )
        )
        if bar.remaining is not None and bar.remaining > 0:
            found.append(
                evidence(
                    say(
                        "about {minutes} more minutes were needed",
                        minutes=max(1, round(bar.remaining / 60)),
                    ),
                    0.0,
                    bar,
                )
            )
    limit = scene.limit_ms
    if bar.elapsed and limit and 0.5 <= bar.elapsed * 1000 / limit <= 2:
        found.append(
            evidence(
                say(
                    "the time-out of {limit} s equals the time since preparation began",
                    limit=round(limit / 1000),
                ),
                FAIR,
                bar,
            )
        )
    return found


def _percent(bar: Progress) -> str:
    if bar.percent is not None:
        return f"{bar.percent:.0f}"
    if bar.done is not None and bar.total:
        return f"{100 * bar.done / bar.total:.0f}"
    return "?"


def _seconds(value: float | None) -> str:
    return "?" if value is None else str(round(value))


def _prepares(bar: Progress) -> bool:
    label = bar.label.lower()
    words = (
        "token",
        "map",
        "dataset",
        "preprocess",
        "packing",
        "grouping",
        "filter",
        "train split",
        "examples",
        "converting format",
        "sharding",
        "index",
        "cache",
        "数据",
        "预处理",
        "分词",
    )
    return any(word in label for word in words)


def _unpublished(job: Job, late: StoreFailure, sign: Progress | PythonException) -> Finding:
    shown = (
        evidence(say("“{label}” was still running", label=sign.label.strip()[:80]), STRONG, sign)
        if isinstance(sign, Progress)
        else evidence(
            say(
                "the rank that gave up stands in a barrier that lets the main process prepare the "
                "data first"
            ),
            STRONG,
            sign,
        )
    )
    return Finding(
        cause="slow-preprocessing",
        summary=say(
            "A rank was still preparing data when the others gave up waiting for it to "
            "publish the communicator's id."
        ),
        support=(
            evidence(
                say(
                    "ranks waited in the store for a key that the missing rank sets on its "
                    "first collective"
                ),
                FAIR,
                late,
            ),
            shown,
        ),
        fixes=_fixes(job.trainer),
        next_step=say("compare the time that preparation takes with the store's time-out"),
        origin=origin_of(job.trainer, (0,)),
        started_at=None,
        exonerated=tuple(no_network_trouble(job)),
        excerpts=(
            excerpt(late, "messenger"),
            excerpt(sign, "origin" if isinstance(sign, Progress) else "messenger"),
        ),
    )


def _fixes(program: Program | None) -> tuple[Fix, ...]:
    fixes = [
        Fix(
            say(
                "prepare the data once before the run (tokenize beforehand, save to a path, reuse "
                "the cache)"
            )
        ),
        Fix(
            say(
                "raise the process groups' time-out above the time that preparation needs "
                "(--ddp_timeout SECONDS, or timeout= of init_process_group): the rank is alive and "
                "only late"
            ),
            Change(program.label, {"ddp_timeout": "7200"})
            if program is not None and "ddp_timeout" not in program.flags and program.flags
            else None,
        ),
        Fix(say("more workers for preparation (--preprocessing_num_workers, num_proc)")),
    ]
    if program is not None:
        lacking = [
            f for f in ("ddp_timeout", "preprocessing_num_workers") if f not in program.flags
        ]
        if lacking and program.flags:
            fixes.append(
                Fix(
                    say(
                        "the launch command sets neither: {flags}",
                        flags=", ".join("--" + flag for flag in lacking),
                    )
                )
            )
    return tuple(fixes)


CAUSE = Cause(
    id="slow-preprocessing",
    family="one rank is alive but late",
    title=say("one rank still prepares data"),
    about=say(
        "Frameworks let rank 0 tokenize or index the data set first and have the others wait in a "
        "barrier, the first collective of the group. When that takes longer than the group's "
        "time-out, the waiting ranks are shot by their watchdogs, and the launcher names one of "
        "them as the first failure."
    ),
    shows=(
        say(
            "every rank but one times out in SeqNum 1, a barrier (NumelIn 1), or in store->get of "
            "the ncclUniqueId"
        ),
        say("a data-set progress bar whose elapsed time is about the time-out"),
    ),
    decide=say(
        "a stack of the missing rank while the others wait, or the time that preparation "
        "takes alone"
    ),
    remedies=(
        say("prepare the data once, before the run"),
        say("a longer time-out: here it helps, for the rank is alive"),
        say("more or fewer preprocessing workers"),
    ),
    look_alikes=(
        LookAlike(
            "peer-to-peer-blocked",
            say("every rank, 0 included, hangs in the first collective after Init COMPLETE"),
        ),
        LookAlike("network-transport", say("the network's own errors stand in the log")),
        LookAlike(
            "rendezvous-environment",
            say("it fails in the launcher's rendezvous, before any process group exists"),
        ),
    ),
    examine=examine,
    sources=("transformers TrainingArguments.main_process_first", "datasets.map progress bars"),
)
